"""The seams of the library on one page.

A plug-in is one dataclass: its fields are the settings (and the Hydra schema), its one or two methods are the
behaviour. Settings classes import no torch; where torch is needed, ``build()`` imports it. State never lives
in settings. Everything here is structural: a plug-in does not inherit from these classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gagar_core.types import CallResult, Group, Program, Ranking, Task, Trajectory

if TYPE_CHECKING:
    import torch

    from gagar_core.advantages.ranks import PassingRows
    from gagar_core.advantages.redistribution import Redistributed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@runtime_checkable
class Estimator(Protocol):
    """Axis ``estimator``: rewards of groups to base advantages."""

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantage of each row (N,), float64.

        Only valid, finite rows arrive. ``codes`` (N,) is the dense group number of a row in [0, num_groups);
        ``lengths`` (N,) tokens, or None when no estimator needs them.
        """
        ...


@runtime_checkable
class Weighting(Protocol):
    """Axis ``weighting``: rank among k passing trajectories to a quality weight in (0, 1]."""

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weight of tie-resolved ranks (1 = best) in groups with ``k`` passing rows, elementwise."""
        ...


@runtime_checkable
class GradedWeighting(Protocol):
    """Axis ``weighting``, for what needs more than a rank: scores, tiers or lengths, named in ``reads``."""

    reads: ClassVar[tuple[str, ...]]

    def weigh(self, rows: PassingRows) -> Floats:
        """Weight of each passing row (P,), NaN where its grade is unusable."""
        ...


@runtime_checkable
class Redistribution(Protocol):
    """Axis ``redistribution``: moves advantage among the passing rows of a group."""

    acts: ClassVar[bool]
    """Whether weights are needed at all; False for ``none``."""

    def at_step(self, step: int) -> Self:
        """The settings in force at a training step."""
        ...

    def redistribute(self, base: Floats, weights: Floats, rows: PassingRows) -> Redistributed:
        """From base advantages of all valid rows and weights of the passing ones, NaN = no usable grade."""
        ...


class Feed(Protocol):
    """The training tasks in the order of a seed block; everything follows from the step's number."""

    tasks: Sequence[Task]
    """All training tasks."""
    per_step: int
    """Groups per step that the budget asks for."""

    def at(self, step: int) -> list[Task]:
        """The ``per_step`` tasks of a step: the same for every variant of a seed block."""
        ...

    def extra(self, step: int, first: int, count: int) -> list[Task]:
        """Further tasks of a step, from position ``first`` of their own order; fewer when none are left."""
        ...

    def stream(self, step: int, name: str) -> np.random.Generator:
        """Random numbers for one purpose in one step."""
        ...


@dataclass(frozen=True, slots=True)
class SamplingRound:
    """What a sampling policy may know when it asks for trajectories."""

    feed: Feed
    step: int
    number: int
    """Round within the step, from 0."""
    group_size: int
    """Trajectories per task that the budget asks for."""
    groups: Sequence[Group]
    """Groups of the step's earlier rounds."""
    state: Mapping[str, Any]


@runtime_checkable
class SamplingPolicy(Protocol):
    """Axis ``sampling``: which tasks to roll out, and which groups are trained on.

    Memory is handed in and out as plain data, so that it can be written into a checkpoint.
    """

    def check(self, group_size: int) -> list[str]:
        """Faults: why it cannot work with groups of the budget's size, and what to change; [] if it can."""
        ...

    def start(self) -> dict[str, Any]:
        """State before the first step, JSON data."""
        ...

    def request(self, seen: SamplingRound) -> list[tuple[Task, int]]:
        """Tasks of the next round, each with its number of trajectories (>= 2); [] ends the sampling."""
        ...

    def select(self, groups: Sequence[Group], wanted: int) -> list[str]:
        """Per group "" to keep it, or the reason why it is dropped. Decided on the outcome only.

        ``wanted`` is the number of groups per step that the budget asks for.
        """
        ...

    def observe(self, groups: Sequence[Group], state: Mapping[str, Any]) -> dict[str, Any]:
        """State after a step, from its groups and the state before it."""
        ...


class Session(Protocol):
    """One program in the sandbox, warm until the step ends."""

    def call(self, args: tuple[Any, ...]) -> CallResult:
        """Call the program's entry point once."""
        ...

    def calls(self, many: Sequence[tuple[Any, ...]]) -> list[CallResult]:
        """Call it once per argument tuple, in order."""
        ...

    def close(self) -> None:
        """Forget the program."""
        ...


class Sandbox(Protocol):
    """Runs untrusted programs. The *caller* compares values; nothing expected ever enters."""

    level: str
    """Isolation level in force: namespaces, landlock, landlock-weak or rlimits."""

    def open(self, program: Program) -> Session:
        """Load a program."""
        ...

    def calls_batch(
        self, requests: Sequence[tuple[Program, Sequence[tuple[Any, ...]]]]
    ) -> list[list[CallResult]]:
        """For each (program, argument tuples) the results of its calls, in order; the fast path."""
        ...

    def judge_batch(self, requests: Sequence[tuple[Program, Sequence[str]]]) -> list[list[CallResult]]:
        """For each (program, test programs with assertions) one result each; ``ok`` = it holds."""
        ...

    def end_step(self) -> None:
        """Close every session opened since the last call."""
        ...

    def close(self) -> None:
        """Stop all worker processes."""
        ...


class Workspace(Protocol):
    """What a grader may touch: the group's programs, and tools that execute them in the sandbox."""

    def calls(self, index: int, many: Sequence[tuple[Any, ...]]) -> list[CallResult]:
        """Call the program of trajectory ``index``."""
        ...


@runtime_checkable
class Grader(Protocol):
    """Axis ``grader``: judges the passing trajectories of a group, seeing all of them."""

    gives: ClassVar[tuple[str, ...]]
    """Which of ranks, scores and tiers its rankings hold."""

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Rank ``group.passing``; must not depend on the order of trajectories."""
        ...


@runtime_checkable
class Shaping(Protocol):
    """Axis ``shaping``: rewards before group statistics. The user's own."""

    def shape(
        self,
        rewards: Floats,
        passed: Bools,
        codes: Ints,
        lengths: Floats,
        scores: Floats | None = None,
    ) -> Floats:
        """New rewards (N,), float64, of valid rows; ``scores`` are the grader's, where it gives any."""
        ...


@runtime_checkable
class Loss(Protocol):
    """Axis ``loss``: how per-token terms are aggregated into one number."""

    def aggregate(self, terms: torch.Tensor, mask: torch.Tensor, group_codes: torch.Tensor) -> torch.Tensor:
        """Scalar from ``terms`` (B, T) where ``mask`` (B, T) is 1; ``group_codes`` (B,) for prompt means."""
        ...


class Policy(Protocol):
    """A built policy: writes text actions token by token and can be trained."""

    def rollouts(self, tasks: Sequence[Task], generator: torch.Generator) -> list[Trajectory]:
        """One trajectory per entry of ``tasks`` (repeat a task to get a group), sampled at temperature 1."""
        ...

    def logprobs(self, trajectories: Sequence[Trajectory], tasks: Sequence[Task]) -> Any:
        """Differentiable per-token log-probabilities, entropies and mask, each (B, T)."""
        ...
