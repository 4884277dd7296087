"""The seam between what is to be done and who does it.

A *source* hands out jobs one at a time and hears how they ended; a *puller* (``sweeps.puller``) works them
off in its slots. ``PlanSource`` claims from a plan, ``TuningSource`` asks Optuna; local processes and
elements of a Slurm array run the same puller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, Protocol

from experiments.attempts import Attempt


class Wait(Enum):
    """The type of ``WAIT``."""

    WAIT = "wait"


WAIT: Final = Wait.WAIT
"""Nothing can be taken now, but ask again: something that others build is awaited."""


@dataclass(frozen=True)
class Job:
    """One claimed execution of a run, or of an artifact's build.

    ``kind`` is ``run`` or ``artifact``; ``identity`` a run id or a digest; ``attempt`` the claim, already
    made; ``spec`` the line of the plan (an artifact's kind and configuration).
    """

    kind: Literal["run", "artifact"]
    identity: str
    attempt: Attempt
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JobResult:
    """How a job ended: ``ok``, ``failed`` (it said so) or ``killed`` (it was ended), and at what cost."""

    status: Literal["ok", "failed", "killed"]
    reason: str = ""
    cpu_s: float = 0.0
    max_rss_mb: float = 0.0


class Source(Protocol):
    """Where jobs come from."""

    def next(self) -> Job | Wait | None:
        """A claimed job, ``WAIT``, or None when this source has nothing more for this puller."""
        ...

    def report(self, job: Job, result: JobResult) -> None:
        """Hear how a job ended; its exit file has been written."""
        ...
