"""Runs untrusted programs and hands their answers over by value; the caller compares."""

from __future__ import annotations

from gagar_core.sandbox.broker import Counters, ProcessSandbox
from gagar_core.sandbox.levels import choose
from gagar_core.sandbox.settings import LEVELS, TRAINING_LEVELS, SandboxSettings

__all__ = ["LEVELS", "TRAINING_LEVELS", "Counters", "ProcessSandbox", "SandboxSettings", "open_sandbox"]


def open_sandbox(settings: SandboxSettings | None = None) -> ProcessSandbox:
    """Test what isolation this machine gives, and start at the strongest level that holds.

    The level and what was probed is printed on stderr. Raises ``SandboxError`` if no level is good enough.
    """
    settings = settings or SandboxSettings()
    return ProcessSandbox(settings, choose(settings))
