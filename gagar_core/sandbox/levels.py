"""Which isolation level this machine really gives: found by trying, never by reading version numbers."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field, replace
from typing import Any

from gagar_core.errors import SandboxError
from gagar_core.sandbox import landlock
from gagar_core.sandbox.probes import PROBE_SET, run_probes
from gagar_core.sandbox.settings import LEVELS, SandboxSettings
from gagar_core.sandbox.zygotes import LevelError, Zygote


@dataclass(slots=True)
class Report:
    """What was found; printed at the start and written into every run's records."""

    level: str
    blocked: int = 0
    probes: int = 0
    controls: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """Stronger levels that were tried, and what spoke against each."""
    kernel: str = platform.release()
    landlock: int = 0
    uid: int = field(default_factory=os.geteuid)
    probe_set: str = PROBE_SET
    python: str = platform.python_version()

    def line(self) -> str:
        """One line for people."""
        isolated = "" if self.level != "rlimits" else " (not isolated)"
        blocked, bites = f"{self.blocked}/{self.probes}", f"{self.controls}/{self.probes}"
        return (
            f"sandbox level={self.level}{isolated} probes={blocked} controls={bites} kernel={self.kernel} "
            f"landlock={self.landlock} uid={self.uid}"
        )

    def as_dict(self) -> dict[str, Any]:
        """For records."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Choice:
    """A level and the evidence for it."""

    level: str
    report: Report


_FOUND: dict[str, Choice] = {}
"""What this process has found already; a machine does not change while a process runs."""


def choose(settings: SandboxSettings) -> Choice:
    """Find the strongest level whose every probe is blocked while its control bites.

    Probes once per process and kind of settings. A level asked for by name is tried alone. Raises
    ``SandboxError`` saying what the machine lacks if only ``rlimits`` is left and ``allow_no_isolation`` is
    off.
    """
    asked = (settings.level, settings.allow_no_isolation, settings.memory_mb, settings.pretend, os.geteuid())
    kind = repr(asked)
    if kind not in _FOUND:
        _FOUND[kind] = _chosen(settings)
    return _FOUND[kind]


def _chosen(settings: SandboxSettings) -> Choice:
    wanted = LEVELS if settings.level == "auto" else (settings.level,)
    refused: dict[str, str] = {}
    for level in wanted:
        report = try_level(level, settings, refused)
        if report is not None and (level != "rlimits" or settings.allow_no_isolation):
            return Choice(level, report)
    raise SandboxError(_refusal(settings, refused))


def try_level(level: str, settings: SandboxSettings, refused: dict[str, str]) -> Report | None:
    """The report of one level; None, with the reason noted in ``refused``, if it does not hold."""
    settings = replace(settings, cpu_s=max(settings.cpu_s, 1.0), wall_s=max(settings.wall_s, 2.0))
    roomy = replace(settings, memory_mb=4 * settings.memory_mb)
    zygote, control = Zygote(settings, level), Zygote(roomy, "rlimits")
    try:
        outcome = run_probes(zygote, control, settings)
    except LevelError as fault:
        refused[level] = str(fault)
        return None
    finally:
        zygote.stop()
        control.stop()
    if outcome.faults and level != "rlimits":
        refused[level] = "; ".join(outcome.faults)
        return None
    if not outcome.works:
        refused[level] = "an honest program fails"
        return None
    return Report(
        level=level,
        blocked=sum(outcome.blocked.values()),
        probes=len(outcome.blocked),
        controls=sum(outcome.bites.values()),
        refused=dict(refused),
        landlock=landlock.abi(),
    )


def _refusal(settings: SandboxSettings, refused: dict[str, str]) -> str:
    lines = [f"no isolation level is good enough (asked for: {settings.level})"]
    lines += [f"  - {level}: {reason}" for level, reason in refused.items()]
    lines.append(
        "allow user namespaces or run a kernel with Landlock (5.13, better 6.2 or newer), or accept programs"
        " that can do all that you can with sandbox.allow_no_isolation=true (never for training)"
    )
    return "\n".join(lines)
