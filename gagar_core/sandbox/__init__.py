"""Runs untrusted programs and hands their answers over by value; the caller compares."""

from __future__ import annotations

from gagar_core.sandbox.broker import Counters, ProcessSandbox
from gagar_core.sandbox.settings import LEVELS, SandboxSettings

__all__ = ["LEVELS", "Counters", "ProcessSandbox", "SandboxSettings", "open_sandbox"]


def open_sandbox(settings: SandboxSettings | None = None) -> ProcessSandbox:
    """Start the workers; open it before torch is imported, so that they stay small.

    Raises ``SandboxError`` if no worker can be started.
    """
    return ProcessSandbox(settings or SandboxSettings())
