"""Named points at which a test may end this process as ``kill -9`` would: ``SWEEPS_CRASH_AT=NAME``."""

from __future__ import annotations

import os
import signal

POINTS = (
    "plan written", "head written", "code copied", "intent written", "job started", "ack written",
)  # fmt: skip
"""In the order in which a submission passes them."""


def point(name: str) -> None:
    """Die here if this point was asked for."""
    assert name in POINTS, name
    if os.environ.get("SWEEPS_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
