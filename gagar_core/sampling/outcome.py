"""Axis ``sampling``: which groups are trained on, decided on the outcome of the reward tests alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gagar_core.protocols import SamplingRound
from gagar_core.types import Group, Task

REASONS = ("", "all_pass", "all_fail", "too_few_valid", "too_easy", "too_hard", "surplus")
"""Why a group is dropped; "" = it is trained on."""


def outcome(group: Group) -> str:
    """mixed, all_pass, all_fail, or too_few_valid (under two valid trajectories)."""
    if group.num_valid < 2:
        return "too_few_valid"
    if group.num_passing == group.num_valid:
        return "all_pass"
    return "mixed" if group.num_passing else "all_fail"


@dataclass(kw_only=True)
class BudgetSampling:
    """What sampling policies share: the budget's tasks in one round, no memory, mixed groups kept."""

    def start(self) -> dict[str, Any]:
        """State before the first step: nothing."""
        return {}

    def check(self, group_size: int) -> list[str]:
        """Why this policy cannot work with groups of this size; nothing if it can."""
        return []

    def request(self, seen: SamplingRound) -> list[tuple[Task, int]]:
        """The tasks of this step in the first round, each with as many trajectories as the budget says."""
        return [] if seen.number else [(task, seen.group_size) for task in seen.feed.at(seen.step)]

    def select(self, groups: Sequence[Group], wanted: int) -> list[str]:
        """Per group "" to keep it, or the reason why it is dropped."""
        return ["" if result == "mixed" else result for result in map(outcome, groups)]

    def observe(self, groups: Sequence[Group], state: Mapping[str, Any]) -> dict[str, Any]:
        """State after a step."""
        return dict(state)


@dataclass(kw_only=True)
class MixedOnly(BudgetSampling):
    """Train on groups with passing and failing trajectories (dynamic sampling, arXiv 2503.14476)."""


@dataclass(kw_only=True)
class KeepAll(BudgetSampling):
    """Train on every group; those without contrast have advantage 0 but count in token means."""

    def select(self, groups: Sequence[Group], wanted: int) -> list[str]:
        """Per group "" to keep it, or the reason why it is dropped."""
        return [result if result == "too_few_valid" else "" for result in map(outcome, groups)]
