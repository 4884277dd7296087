"""Axis ``sampling``: which groups are trained on, decided on the outcome of the reward tests alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gagar_core.types import Group


def outcome(group: Group) -> str:
    """mixed, all_pass, all_fail, or too_few_valid (under two valid trajectories)."""
    passed = [trajectory.passed for trajectory in group.trajectories if trajectory.valid]
    if len(passed) < 2:
        return "too_few_valid"
    if all(passed):
        return "all_pass"
    return "mixed" if any(passed) else "all_fail"


@dataclass(kw_only=True)
class MixedOnly:
    """Train on groups with passing and failing trajectories (dynamic sampling, arXiv 2503.14476)."""

    def select(self, groups: Sequence[Group]) -> list[str]:
        """Per group "" to keep it, or the reason why it is dropped."""
        outcomes = [outcome(group) for group in groups]
        return ["" if result == "mixed" else result for result in outcomes]


@dataclass(kw_only=True)
class KeepAll:
    """Train on every group; those without contrast have advantage 0 but count in token means."""

    def select(self, groups: Sequence[Group]) -> list[str]:
        """Per group "" to keep it, or the reason why it is dropped."""
        outcomes = [outcome(group) for group in groups]
        return [result if result == "too_few_valid" else "" for result in outcomes]
