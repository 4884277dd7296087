"""Runs untrusted programs and hands their answers over by value; the caller compares.

    trusted process ── zygote, warm and single-threaded ── one throw-away child per program
      sends code and inputs straight to the child, checks and parses what comes back
      holds expected values, which never enter another process

Isolation does not stop a program from cheating its tests; comparing elsewhere does. So answers cross as
tagged JSON of exact builtin types, requests one at a time with a fresh token, and a child that says anything
unasked or odd gets ``violation``.

Levels, strongest first; ``open_sandbox`` takes the best whose every probe is blocked while the same probe
succeeds without the wall, and prints and reports what it found (``python -m gagar_core.sandbox check`` shows
all of them):

============== ======================================================== =================================
namespaces     own users, mounts, processes, network, IPC; seccomp;      train and evaluate
               Landlock on top where there is one
landlock       Landlock from ABI 3 on, seccomp (no forks, sockets,       train and evaluate; names and sizes
               strangers, file metadata)                                 of files outside can be seen
landlock-weak  the same with an older Landlock                           evaluate; train only if told so
rlimits        limits on resources: no isolation                         only if told so, never to train
============== ======================================================== =================================

Verdicts do not depend on how busy the machine is: fuel (counted loop steps) decides most time-outs, then CPU
seconds of the child; idle waiting is tried twice. ``infra`` is the sandbox's own fault and drops the sample.

Not covered: bugs of the kernel, CPU side channels, wrong tests, and answers hard-coded from visible examples.
Repository tasks (``gagar_core.sandbox.repository``) run tests in the candidate's process and can be forged by
a program made to do so; its documentation says what is done against it.
"""

from __future__ import annotations

from gagar_core.sandbox.broker import Counters, ProcessSandbox
from gagar_core.sandbox.levels import choose
from gagar_core.sandbox.settings import LEVELS, TRAINING_LEVELS, SandboxSettings

__all__ = ["LEVELS", "TRAINING_LEVELS", "Counters", "ProcessSandbox", "SandboxSettings", "open_sandbox"]


def open_sandbox(settings: SandboxSettings | None = None) -> ProcessSandbox:
    """Find out what isolation this machine gives, and start at the strongest level that holds.

    The level and what was probed is printed on stderr. Raises ``SandboxError`` if no level is good enough.
    """
    settings = settings or SandboxSettings()
    return ProcessSandbox(settings, choose(settings))
