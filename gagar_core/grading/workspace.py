"""The shared workspace of a group: its programs side by side, and an account of what was done with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gagar_core.protocols import Sandbox
from gagar_core.tasks.execution import program_of
from gagar_core.types import CallResult, Group


class OverBudgetError(Exception):
    """A grader asked for more actions or tokens than allowed; its group keeps the base advantages."""


@dataclass
class GroupWorkspace:
    """The programs of one group, the sandbox that runs them, and random numbers that belong to the group.

    Every call into a program is one action; ``max_actions`` and ``max_tokens`` of 0 mean no limit.
    """

    group: Group
    sandbox: Sandbox
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    max_actions: int = 0
    max_tokens: int = 0
    actions: int = 0
    tokens: int = 0

    def calls(self, index: int, many: Sequence[tuple[Any, ...]]) -> list[CallResult]:
        """Call the program of trajectory ``index``."""
        return self.calls_batch([(index, many)])[0]

    def calls_batch(
        self, requests: Sequence[tuple[int, Sequence[tuple[Any, ...]]]]
    ) -> list[list[CallResult]]:
        """Call several programs at once; for each request the results of its calls, in order."""
        self.act(sum(len(many) for _, many in requests))
        task, trajectories = self.group.task, self.group.trajectories
        programs = [(program_of(trajectories[i].files, task), many) for i, many in requests]
        return self.sandbox.calls_batch(programs)

    def act(self, count: int = 1) -> None:
        """Count actions; raises ``OverBudgetError`` when they are more than allowed."""
        self.actions += count
        if self.max_actions and self.actions > self.max_actions:
            msg = f"over budget: {self.actions} actions of {self.max_actions}"
            raise OverBudgetError(msg)

    def read(self, tokens: int) -> None:
        """Count tokens read or written; raises ``OverBudgetError`` when they are more than allowed."""
        self.tokens += tokens
        if self.max_tokens and self.tokens > self.max_tokens:
            msg = f"over budget: {self.tokens} tokens of {self.max_tokens}"
            raise OverBudgetError(msg)


def contents(group: Group, index: int) -> tuple[Any, ...]:
    """What a trajectory consists of, whatever its place: equal contents must be judged alike."""
    trajectory = group.trajectories[index]
    segments = tuple((part.role, part.text) for part in trajectory.segments)
    return (segments, tuple(sorted(trajectory.files.items())), trajectory.gen_tokens, trajectory.obs_tokens)


def read_tokens(group: Group, indices: Sequence[int]) -> int:
    """Tokens that a grader reads which looks at these trajectories in full."""
    return sum(group.trajectories[i].gen_tokens + group.trajectories[i].obs_tokens for i in indices)
