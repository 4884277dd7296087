"""``python -m gagar_core.sandbox check``: which isolation this machine gives, and how fast it is."""

from __future__ import annotations

import argparse
import sys
import time

from gagar_core.errors import GagarError, until_reader_leaves
from gagar_core.sandbox import LEVELS, SandboxSettings
from gagar_core.sandbox.broker import ProcessSandbox
from gagar_core.sandbox.levels import Choice, Report, try_level
from gagar_core.types import Program

_PROGRAMS = 100


@until_reader_leaves()
def main() -> int:
    """Try every level (or one), print what each gives; 0 if the strongest is good enough to train with."""
    parser = argparse.ArgumentParser(prog="python -m gagar_core.sandbox", description=__doc__)
    parser.add_argument("command", choices=["check"], help="try the isolation levels of this machine")
    parser.add_argument("--level", choices=LEVELS, help="try only this one")
    options = parser.parse_args()
    settings = SandboxSettings(allow_no_isolation=True, cache_mb=0)
    refused: dict[str, str] = {}
    found = [
        report
        for level in LEVELS
        if options.level in (None, level)
        if (report := _tried(level, settings, refused))
    ]
    if not found:
        print("no level works here")
        return 1
    sandbox = ProcessSandbox(settings, Choice(found[0].level, found[0]), announce=False)
    with sandbox:
        print(f"isolated: {_per_cpu_second(sandbox, closed=False):.0f} programs of 10 tests per CPU second")
        print(f"closed vocabulary: {_per_cpu_second(sandbox, closed=True):.0f} per CPU second")
        try:
            sandbox.check_for_training()
        except GagarError as fault:
            print(fault)
            return 1
    print(f"good enough to train with: {sandbox.level}")
    return 0


def _tried(level: str, settings: SandboxSettings, refused: dict[str, str]) -> Report | None:
    report = try_level(level, settings, refused)
    print(report.line() if report else f"sandbox level={level} not available: {refused[level]}")
    return report


def _per_cpu_second(sandbox: ProcessSandbox, *, closed: bool) -> float:
    source = "def f(a, b):\n    return a + b + {}\n"
    batch = [
        (Program(source.format(k), "f", closed_vocabulary=closed), [(i, i) for i in range(10)])
        for k in range(_PROGRAMS)
    ]
    sandbox.calls_batch(batch[:5])
    before = time.process_time() + sandbox.cpu_s
    sandbox.calls_batch(batch)
    return _PROGRAMS / (time.process_time() + sandbox.cpu_s - before)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GagarError as fault:
        sys.exit(str(fault))
