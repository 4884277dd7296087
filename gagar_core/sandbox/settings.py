"""Settings of the sandbox, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gagar_core.errors import check_choice, check_range, gather
from gagar_core.sandbox.wire import ENVELOPE_BYTES

LEVELS = ("namespaces", "landlock", "landlock-weak", "rlimits")
"""Isolation levels, strongest first."""
TRAINING_LEVELS = ("namespaces", "landlock")
"""Levels whose rewards may be trained on without saying so twice."""


@dataclass(kw_only=True)
class SandboxSettings:
    """How untrusted programs are run and what they may use.

    ``fuel`` alone decides most time-outs, so that verdicts do not depend on the load of the machine; the CPU
    and wall limits catch what fuel cannot see (one long call inside C code, sleeping). The most memory that
    candidates can take at one time is ``workers * (memory_mb * processes + workspace_mb)``.
    """

    level: str = "auto"
    """auto, namespaces, landlock, landlock-weak or rlimits; auto = the strongest whose probes pass."""
    allow_no_isolation: bool = False
    """Accept level rlimits (programs can read, write and signal what this user can); never for training."""
    allow_weak_training: bool = False
    """Accept level landlock-weak for training, not only for evaluation."""
    workers: int = 1
    """Zygotes, 1 to 256; one per core that this process has for itself."""
    fuel: int = 50_000
    """Ticks per call, at least 1000: one per loop step, comprehension step and function entry."""
    cpu_s: float = 2.0
    """CPU seconds per call, at least 0.05; counts only where fuel does not see the work."""
    wall_s: float = 6.0
    """Wall seconds per call while the program does not want the CPU, at least 0.1; a hit is repeated once."""
    memory_mb: int = 512
    """Address space of one process in MiB, at least 64."""
    output_bytes: int = 1_000_000
    """Bytes that one call may print, and bytes of its answer; at least 1000."""
    file_bytes: int = 1_000_000
    """Bytes of one file that a program writes, at least 1000."""
    workspace_mb: int = 16
    """Bytes of all files of one program in MiB, 1 to 4096; enforced by the kernel at level namespaces
    only."""
    workspace_files: int = 2000
    """Files and folders that one program may make, at least 10."""
    processes: int = 4
    """Processes and threads of one program, 1 to 256; level landlock allows threads only."""
    descriptors: int = 64
    """Open files of one process, 16 to 4096."""
    cache_mb: int = 64
    """Bound on remembered answers in MiB; 0 = off."""
    live_sessions: int = 32
    """Programs kept warm between calls of their sessions, 1 to 1024; the least used goes first."""
    recycle: int = 5000
    """Children after which a zygote is replaced, at least 1."""
    imports: list[str] = field(default_factory=list)
    """Modules that every program finds loaded already (the import profile of the zygotes)."""
    paths: list[str] = field(default_factory=list)
    """Folders to import from beside the standard library; readable for programs."""
    log: str = ""
    """File that gets one JSON line per executed program; "" = none."""

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
                *check_range("file_bytes", self.file_bytes, 1000),
                *check_range("workspace_mb", self.workspace_mb, 1, 4096),
                *check_range("workspace_files", self.workspace_files, 10),
                *check_range("processes", self.processes, 1, 256),
                *check_range("descriptors", self.descriptors, 16, 4096),
                *check_range("cache_mb", self.cache_mb, 0),
                *check_range("live_sessions", self.live_sessions, 1, 1024),
                *check_range("recycle", self.recycle, 1),
            ],
            headline="invalid sandbox settings",
        )

    @property
    def frame_bytes(self) -> int:
        """Longest frame that is read from an untrusted process."""
        return self.output_bytes + 2 * ENVELOPE_BYTES

    def call_cpu_s(self, calls: int = 1) -> float:
        """CPU seconds after which ``calls`` calls are stopped: what fuel allows, and ``cpu_s`` beyond it."""
        return self.cpu_s + calls * self.fuel * 2e-6

    @property
    def pretend(self) -> dict[str, Any]:
        """Faults of machines that tests simulate; nothing in ordinary use."""
        return {}
