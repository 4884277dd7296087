"""Sampling policies with a memory: group sizes and tasks that follow from earlier outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from gagar_core.errors import check_range, gather
from gagar_core.protocols import Floats, SamplingRound
from gagar_core.sampling.outcome import BudgetSampling
from gagar_core.types import Group, Task

_UNSEEN = (0.0, 0.0)
"""Passed and failed trajectories of a task that has not been rolled out."""


@dataclass(kw_only=True)
class AdaptiveGroup(BudgetSampling):
    """Smaller groups of more tasks when few groups are mixed, with the same number of trajectories.

    The signal is how often two trajectories of one task disagree, ``2 k (n - k) / (n (n - 1))`` of a group
    with k of n passing: unlike the share of mixed groups it does not depend on the size of groups. Groups
    shrink in proportion to its running mean.
    """

    smallest: int = 4
    """Smallest group, >= 2; at most the budget's group_size."""
    full_at: float = 0.25
    """Disagreement from which on groups have the budget's size, in (0, 0.5]."""
    memory: float = 0.8
    """Weight of the past in the running mean, in [0, 1); 0 = the last step alone."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("smallest", self.smallest, 2),
                *check_range("full_at", self.full_at, 0, 0.5, open_low=True),
                *check_range("memory", self.memory, 0, 1, open_high=True),
            ],
            headline="invalid adaptive_group",
        )

    def check(self, group_size: int) -> list[str]:
        """A fault if the smallest group is larger than the budget's."""
        if self.smallest <= group_size:
            return []
        return [
            f"sampling.smallest={self.smallest} is larger than budget.group_size={group_size}; set it to "
            f"2..{group_size}"
        ]

    def start(self) -> dict[str, Any]:
        """Nothing is known: the first step has groups of the budget's size."""
        return {"disagreement": None}

    def request(self, seen: SamplingRound) -> list[tuple[Task, int]]:
        """As many trajectories as the budget has, spread evenly over the tasks."""
        if seen.number:
            return []
        tasks = seen.feed.at(seen.step)
        trajectories = len(tasks) * seen.group_size
        size = self._size(seen.state["disagreement"], seen.group_size)
        tasks = tasks + seen.feed.extra(seen.step, 0, trajectories // size - len(tasks))
        size, rest = divmod(trajectories, len(tasks))
        return [(task, size + (position < rest)) for position, task in enumerate(tasks)]

    def _size(self, disagreement: float | None, full: int) -> int:
        if disagreement is None:
            return full
        return max(min(self.smallest, full), min(full, math.ceil(full * disagreement / self.full_at)))

    def observe(self, groups: Sequence[Group], state: Mapping[str, Any]) -> dict[str, Any]:
        """Move the running mean towards this step's disagreement."""
        counts = [(group.num_valid, group.num_passing) for group in groups if group.num_valid >= 2]
        if not counts:
            return dict(state)
        now = sum(2 * k * (n - k) / (n * (n - 1)) for n, k in counts) / len(counts)
        before = state["disagreement"]
        return {"disagreement": now if before is None else self.memory * before + (1.0 - self.memory) * now}


@dataclass(kw_only=True)
class Curriculum(BudgetSampling):
    """Draw tasks by how much they can teach now: those that pass about half of the time come most often.

    A task's pass rate is estimated from its own outcomes, older ones counting less, and from its prior
    difficulty while it has none. Only mixed groups are trained on.
    """

    floor: float = 0.1
    """Weight of a task that always passes or always fails, beside 1 for a pass rate of one half; > 0."""
    prior: float = 1.0
    """Trajectories that the prior difficulty counts for, > 0."""
    memory: float = 0.5
    """What earlier outcomes of a task still count at its next visit, in [0, 1]."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("floor", self.floor, 0, open_low=True),
                *check_range("prior", self.prior, 0, open_low=True),
                *check_range("memory", self.memory, 0, 1),
            ],
            headline="invalid curriculum",
        )

    def start(self) -> dict[str, Any]:
        """No task has been seen: ``outcomes`` maps a task to its discounted [passed, failed] trajectories."""
        return {"outcomes": {}}

    def request(self, seen: SamplingRound) -> list[tuple[Task, int]]:
        """Distinct tasks drawn by weight (exponential keys, doi 10.1016/j.ipl.2005.11.003)."""
        if seen.number:
            return []
        tasks = seen.feed.tasks
        rates = self.rates(tasks, seen.state)
        weights = self.floor + (1.0 - self.floor) * 4.0 * rates * (1.0 - rates)
        draws = seen.feed.stream(seen.step, "curriculum").exponential(size=len(tasks))
        order = np.argsort(draws / weights, kind="stable")[: seen.feed.per_step]
        return [(tasks[int(i)], seen.group_size) for i in order]

    def rates(self, tasks: Sequence[Task], state: Mapping[str, Any]) -> Floats:
        """Estimated pass rate of each task (T,), in [0, 1]."""
        known = state["outcomes"]
        pairs = chain.from_iterable([known.get(task.id, _UNSEEN) for task in tasks])
        passed, failed = np.fromiter(pairs, np.float64, 2 * len(tasks)).reshape(-1, 2).T
        expected = 1.0 - np.array([task.difficulty for task in tasks])
        rates: Floats = (passed + self.prior * expected) / (passed + failed + self.prior)
        return rates

    def observe(self, groups: Sequence[Group], state: Mapping[str, Any]) -> dict[str, Any]:
        """Count the outcomes of this step's tasks."""
        known = dict(state["outcomes"])
        for group in groups:
            passed, failed = known.get(group.task.id, _UNSEEN)
            known[group.task.id] = [
                self.memory * passed + group.num_passing,
                self.memory * failed + group.num_valid - group.num_passing,
            ]
        return {"outcomes": known}
