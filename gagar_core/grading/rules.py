"""Graders that are rules: no training. The last two read more than a real grader could, or nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gagar_core.errors import check_choice, check_range
from gagar_core.grading.quality import label_shares, quality
from gagar_core.grading.ranking import ranking_from_scores
from gagar_core.grading.settings import GraderSettings, Weights
from gagar_core.grading.workspace import GroupWorkspace, contents, read_tokens
from gagar_core.protocols import Workspace
from gagar_core.types import Group, Ranking, Trajectory

if TYPE_CHECKING:
    from gagar_core.protocols import Grader, Policy


@dataclass(kw_only=True)
class NoGrader:
    """Grades nothing; every group keeps its base advantages."""

    gives: ClassVar[tuple[str, ...]] = ()
    learned: ClassVar[bool] = False
    upper_bound: ClassVar[bool] = False

    def build(self, weights: Weights | None = None, policy: Policy | None = None) -> Grader:
        """Itself."""
        return self

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Abstain."""
        return Ranking(ranks=(float("nan"),) * len(group.trajectories), abstain="no grader")


@dataclass(kw_only=True)
class TrajectoryRule(GraderSettings):
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

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        return [
            *super().faults(),
            *check_range("redundant_run_cost", self.redundant_run_cost, 0),
            *check_range("edit_cost", self.edit_cost, 0),
            *check_range("size_cost", self.size_cost, 0),
            *check_range("size_bucket", self.size_bucket, 1),
        ]

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


@dataclass(kw_only=True)
class Length(GraderSettings):
    """Ranks by generated tokens, fewest first: what a length penalty would prefer."""

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Shorter is better; equal lengths tie."""
        return ranking_from_scores(group, [-float(t.gen_tokens) for t in group.trajectories])


@dataclass(kw_only=True)
class SizeBucket(GraderSettings):
    """Ranks by the size of the final program in buckets, smallest first: blind to how it came about."""

    size_bucket: int = 8
    """Syntax-tree nodes per bucket, >= 1: programs of one bucket tie."""

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        return [*super().faults(), *check_range("size_bucket", self.size_bucket, 1)]

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Smaller is better; programs of one bucket tie."""
        return ranking_from_scores(
            group, [-float(t.program_nodes // self.size_bucket) for t in group.trajectories]
        )


@dataclass(kw_only=True)
class RandomGrader(GraderSettings):
    """Ranks at random; equal trajectories tie. What redistribution does without any judgement."""

    unit_scores: ClassVar[bool] = True

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Scores uniform in [0, 1), one per different content, whatever the order of trajectories."""
        assert isinstance(workspace, GroupWorkspace)
        keys = {i: contents(group, i) for i in group.passing}
        draws = {key: float(workspace.rng.random()) for key in sorted(set(keys.values()))}
        return ranking_from_scores(group, _everywhere(group, {i: draws[key] for i, key in keys.items()}))


@dataclass(kw_only=True)
class Oracle(GraderSettings):
    """Upper bound: ranks by the label tests, which no real grader sees, then by true size and effort."""

    upper_bound: ClassVar[bool] = True

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Rank by the quality that graders are judged by."""
        return self.grade_many([group], [workspace])[0]

    def grade_many(self, groups: Sequence[Group], workspaces: Sequence[Any]) -> list[Ranking]:
        """All groups of a step, their label tests in one batch."""
        shares = label_shares(groups, workspaces[0].sandbox)
        for group, workspace in zip(groups, workspaces, strict=True):
            workspace.act(len(group.passing))
        return [
            ranking_from_scores(
                group, [quality(s, t) for s, t in zip(share, group.trajectories, strict=True)]
            )
            for group, share in zip(groups, shares, strict=True)
        ]


@dataclass(kw_only=True)
class SelfLikelihood(GraderSettings):
    """The policy's own ranking: mean log-probability of its tokens under the policy being trained."""

    per: str = "token"
    """token or trajectory: mean or sum of log-probabilities."""

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        return [*super().faults(), *check_choice("per", self.per, ("token", "trajectory"))]

    def build(self, weights: Weights | None = None, policy: Policy | None = None) -> Grader:
        """The grader, which asks this policy."""
        if policy is None:
            msg = "self_likelihood ranks by the policy that is trained, and was given none"
            raise ValueError(msg)
        return _Likelihood(policy, self.per)

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """By the log-probabilities that the sampler recorded: the policy that wrote the trajectories."""
        scores = {i: _mean_recorded(group.trajectories[i], self.per) for i in group.passing}
        return ranking_from_scores(group, _everywhere(group, scores))


@dataclass
class _Likelihood:
    policy: Policy
    per: str
    gives: ClassVar[tuple[str, ...]] = ("ranks", "scores")

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        return self.grade_many([group], [workspace])[0]

    def grade_many(self, groups: Sequence[Group], workspaces: Sequence[Any]) -> list[Ranking]:
        import torch

        where = [(g, i) for g, group in enumerate(groups) for i in group.passing]
        for group, workspace in zip(groups, workspaces, strict=True):
            workspace.read(read_tokens(group, group.passing))
        if not where:
            return [ranking_from_scores(group, [0.0] * len(group.trajectories)) for group in groups]
        with torch.no_grad():
            batch = self.policy.logprobs(
                [groups[g].trajectories[i] for g, i in where], [groups[g].task for g, _ in where]
            )
        sums = (batch.logprobs * batch.mask).sum(1).double()
        values = sums / batch.mask.sum(1).clamp(min=1) if self.per == "token" else sums
        # equal trajectories sit in other rows of a batch: rounding keeps their scores equal
        found = dict(zip(where, [round(value, 5) for value in values.tolist()], strict=True))
        return [
            ranking_from_scores(group, _everywhere(group, {i: found[g, i] for i in group.passing}))
            for g, group in enumerate(groups)
        ]


def _mean_recorded(trajectory: Trajectory, per: str) -> float:
    logprobs = [value for segment in trajectory.segments for value in segment.logprobs]
    return sum(logprobs) / (max(len(logprobs), 1) if per == "token" else 1)


def _everywhere(group: Group, scores: dict[int, float]) -> list[float]:
    return [scores.get(i, float("nan")) for i in range(len(group.trajectories))]
