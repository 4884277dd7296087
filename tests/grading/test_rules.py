"""Rule graders by hand, and what becomes of rankings that cannot be used."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gagar_core.errors import ConfigError
from gagar_core.grading.grade import grade_groups
from gagar_core.grading.ranking import checked, ranking_from_scores
from gagar_core.grading.rules import NoGrader, TrajectoryRule
from gagar_core.protocols import Workspace
from gagar_core.sandbox import ProcessSandbox
from gagar_core.tasks.suite import Suite
from gagar_core.types import Group, Ranking, Trajectory

PLAIN = Trajectory(
    task_id="t", segments=(), files={"f.py": "def f(n):\n    return n\n"}, verdict="pass", stop_reason="submit",
    gen_tokens=30, obs_tokens=2, turns=2, tool_calls=2, tool_errors=0, test_runs=1, redundant_test_runs=0, edits=0,
    program_lines=2, program_nodes=10,
)  # fmt: skip


@pytest.fixture
def group(suite: Suite) -> Group:
    trajectories = (
        PLAIN,  # cost 0.1
        replace(PLAIN, redundant_test_runs=2),  # 2.1
        replace(PLAIN, verdict="wrong", redundant_test_runs=9),
        replace(PLAIN, edits=1, program_nodes=40),  # 1.5
        replace(PLAIN, gen_tokens=500, test_runs=9, program_nodes=15),  # 0.1: length alone costs nothing
        replace(PLAIN, verdict="infra"),
    )
    return Group(7, suite.train[0], trajectories)


def same(values: tuple[float, ...], expected: list[float]) -> bool:
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(values, expected, strict=True))


def test_trajectory_rule_by_hand(group: Group, sandbox: ProcessSandbox) -> None:
    (ranking,) = grade_groups([group], TrajectoryRule(), sandbox)
    nan = math.nan
    assert same(ranking.ranks, [1, 3, nan, 2, 1, nan])
    assert same(ranking.scores, [-0.1, -2.1, nan, -1.5, -0.1, nan])
    assert ranking.abstain == ""


def test_no_grader_abstains(group: Group, sandbox: ProcessSandbox) -> None:
    (ranking,) = grade_groups([group], NoGrader(), sandbox)
    assert ranking.abstain == "no grader"
    assert all(math.isnan(rank) for rank in ranking.ranks)


NAN = math.nan


@pytest.mark.parametrize(
    ("ranks", "reason"),
    [
        ((1.0, 2.0), "2 ranks for 6 trajectories"),
        ((1.0, NAN, NAN, 2.0, 3.0, NAN), "ranks of passing trajectory 1 is nan"),
        ((1.0, 2.0, 3.0, 4.0, 5.0, NAN), "ranks of trajectory 2, which does not pass"),
        ((1.0, math.inf, NAN, 4.0, 5.0, NAN), "ranks of passing trajectory 1 is inf"),
    ],
)
def test_an_unusable_ranking_abstains_with_its_reason(
    group: Group, ranks: tuple[float, ...], reason: str
) -> None:
    result = checked(group, Ranking(ranks=ranks))
    assert result.abstain == reason
    assert all(math.isnan(rank) for rank in result.ranks)
    assert len(result.ranks) == 6


def test_a_grader_that_raises_costs_the_grade_not_the_run(group: Group, sandbox: ProcessSandbox) -> None:
    class Broken:
        def grade(self, group: Group, workspace: Workspace) -> Ranking:
            raise KeyError("no such criterion")

    (ranking,) = grade_groups([group], Broken(), sandbox)
    assert ranking.abstain == "KeyError: 'no such criterion'"


def test_a_workspace_runs_programs_and_counts(group: Group, sandbox: ProcessSandbox) -> None:
    class Caller:
        def grade(self, group: Group, workspace: Workspace) -> Ranking:
            values = [workspace.calls(i, [(5,), (6,)])[1].value for i in group.passing]
            assert values == [6, 6, 6, 6]
            return ranking_from_scores(group, [0.0] * 6)

    (ranking,) = grade_groups([group], Caller(), sandbox)
    assert ranking.actions == 8
    assert same(ranking.ranks, [1, 1, NAN, 1, 1, NAN])


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"edit_cost must be in \[0, inf\); got -1"):
        TrajectoryRule(edit_cost=-1)
