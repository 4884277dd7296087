"""Settings of the sandbox, and its limits."""

from __future__ import annotations

from dataclasses import dataclass

from gagar_core.errors import check_choice, check_range, gather

LEVELS = ("namespaces", "landlock", "landlock-weak", "rlimits")
"""Isolation levels, strongest first."""


@dataclass(kw_only=True)
class SandboxSettings:
    """How untrusted programs are run and what they may use.

    ``fuel`` alone decides most time-outs, so that verdicts do not depend on the load of the machine; the CPU
    and wall limits catch what fuel cannot see (one long call inside C code, sleeping).
    """

    level: str = "auto"
    """auto, namespaces, landlock, landlock-weak or rlimits; auto = the strongest whose probes pass."""
    workers: int = 1
    """Worker processes, 1 to 256; one per core is enough."""
    fuel: int = 50_000
    """Ticks per call, at least 1000: one per loop step, comprehension step and function entry."""
    cpu_s: float = 2.0
    """CPU seconds per call, at least 0.05; counts only where fuel does not see the work."""
    wall_s: float = 6.0
    """Wall seconds without an answer, at least 0.1; a hit is repeated once alone."""
    memory_mb: int = 512
    """Address space of a worker in MiB, at least 64."""
    output_bytes: int = 1_000_000
    """Bytes that one call may print, and bytes of its answer; at least 1000."""
    cache_mb: int = 64
    """Bound on remembered answers in MiB; 0 = off."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_choice("level", self.level, ("auto", *LEVELS)),
                *check_range("workers", self.workers, 1, 256),
                *check_range("fuel", self.fuel, 1000),
                *check_range("cpu_s", self.cpu_s, 0.05),
                *check_range("wall_s", self.wall_s, 0.1),
                *check_range("memory_mb", self.memory_mb, 64),
                *check_range("output_bytes", self.output_bytes, 1000),
                *check_range("cache_mb", self.cache_mb, 0),
            ],
            headline="invalid sandbox settings",
        )
