"""Graders that are rules: no training, no execution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gagar_core.errors import check_range, gather
from gagar_core.grading.ranking import ranking_from_scores
from gagar_core.protocols import Workspace
from gagar_core.types import Group, Ranking, Trajectory


@dataclass(kw_only=True)
class NoGrader:
    """Grades nothing; every group keeps its base advantages."""

    gives: ClassVar[tuple[str, ...]] = ()

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Abstain."""
        return Ranking(ranks=(float("nan"),) * len(group.trajectories), abstain="no grader")


@dataclass(kw_only=True)
class TrajectoryRule:
    """Ranks by visible waste: test runs after an OK, rewrites, and a little by program size.

    It reads how the program came about, not only the program. Total length as a rule would rank those first
    that never verified.
    """

    redundant_run_cost: float = 1.0
    """Cost of a test run while the last verdict was OK and nothing had changed, >= 0."""
    edit_cost: float = 1.0
    """Cost of a clear, delete or insert-at-top action, >= 0."""
    size_cost: float = 0.1
    """Cost per bucket of program size, >= 0."""
    size_bucket: int = 8
    """Syntax-tree nodes per bucket, >= 1: programs of one bucket count as equally large."""

    gives: ClassVar[tuple[str, ...]] = ("ranks", "scores")

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("redundant_run_cost", self.redundant_run_cost, 0),
                *check_range("edit_cost", self.edit_cost, 0),
                *check_range("size_cost", self.size_cost, 0),
                *check_range("size_bucket", self.size_bucket, 1),
            ],
            headline="invalid trajectory_rule",
        )

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Rank the passing trajectories by cost, lowest first; equal costs tie."""
        return ranking_from_scores(group, [-self.cost(t) for t in group.trajectories])

    def cost(self, trajectory: Trajectory) -> float:
        """Waste of one trajectory."""
        return (
            self.redundant_run_cost * trajectory.redundant_test_runs
            + self.edit_cost * trajectory.edits
            + self.size_cost * (trajectory.program_nodes // self.size_bucket)
        )
