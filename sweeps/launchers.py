"""Axis ``launcher``: where the pullers of a submission run. It belongs to a submission, not to a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gagar_core.errors import check_choice, check_range, gather

START = ("auto", "fork", "spawn")


@dataclass(kw_only=True)
class Local:
    """Processes of this machine, detached from the shell."""

    workers: int = 0
    """Runs at a time; 0 = one per core."""
    start: str = "auto"
    """How a run's process begins: ``fork`` from a warm worker, ``spawn`` afresh, ``auto`` = spawn on CUDA."""

    def __post_init__(self) -> None:
        faults = [
            *check_range("launcher.workers", self.workers, 0),
            *check_choice("launcher.start", self.start, START),
        ]
        gather(faults, headline="invalid launcher")


@dataclass(kw_only=True)
class Slurm:
    """One job array of pullers; every element takes runs until none is left."""

    workers: int = 4
    """Elements of the array, >= 1."""
    parallel: int = 0
    """Elements that may run at once (the %p of the array); 0 = all."""
    slots: int = 1
    """Runs at a time in each element, >= 1."""
    cpus: int = 1
    """CPUs per element (sbatch --cpus-per-task), >= 1."""
    gpus: int = 0
    """GPUs per element (sbatch --gpus-per-node), shared out to its slots; 0 = none asked for."""
    mem_gb: float = 0.0
    """Memory per element, GB (sbatch --mem); 0 = the site's default."""
    time_min: int = 60
    """Time limit of an element, minutes (sbatch --time), >= 1. ``resume`` does what is left."""
    warn_s: int = 60
    """Seconds before the limit at which an element is told to stop (sbatch --signal), >= 10."""
    partition: str = ""
    """Partition; "" = the site's default."""
    account: str = ""
    """Account; "" = your default."""
    qos: str = ""
    """Quality of service; "" = the default."""
    options: dict[str, Any] = field(default_factory=dict)
    """Any other sbatch option by its long name without dashes, e.g. ``{exclude: node7, nice: 100}``."""
    setup: list[str] = field(default_factory=list)
    """Shell lines run before the worker starts: ``module load``, ``source venv/bin/activate``."""
    python: str = ""
    """Interpreter on the compute node; "" = the one that submits."""
    start: str = "auto"
    """As for the local launcher."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("launcher.workers", self.workers, 1),
                *check_range("launcher.parallel", self.parallel, 0),
                *check_range("launcher.slots", self.slots, 1),
                *check_range("launcher.cpus", self.cpus, 1),
                *check_range("launcher.gpus", self.gpus, 0),
                *check_range("launcher.mem_gb", self.mem_gb, 0),
                *check_range("launcher.time_min", self.time_min, 1),
                *check_range("launcher.warn_s", self.warn_s, 10),
                *check_choice("launcher.start", self.start, START),
            ],
            headline="invalid launcher",
        )


LAUNCHERS: dict[str, type[Any]] = {"local": Local, "slurm": Slurm}

CHOICES: dict[str, dict[str, type[Any]]] = {"launcher": LAUNCHERS}
"""The axis that sweeps add, in the form of ``gagar_core.choices``."""
