"""A grader that is a readable list of rules, each a criterion with a weight.

The five criteria of the method's grader (arXiv 2609.32577, appendix A.1: approach .30, precision .25,
minimality .20, side effects .15, consistency .10) are judgements of a language model. Here each is something
that can be counted on a trajectory, scored from 0 to 1.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from gagar_core.errors import check_range
from gagar_core.grading.ranking import ranking_from_scores
from gagar_core.grading.settings import GraderSettings
from gagar_core.protocols import Workspace
from gagar_core.syntax import parse
from gagar_core.tasks.scope import scope_of
from gagar_core.types import Group, Ranking, Task, Trajectory

Criterion = Callable[[Task, Trajectory], float]


def approach(task: Task, trajectory: Trajectory) -> float:
    """1 if nothing is special-cased: no ``if`` that compares with a constant and returns one."""
    cases = special_cases("\n".join(trajectory.files.values()))
    return 1.0 / (1.0 + cases)


def precision(task: Task, trajectory: Trajectory) -> float:
    """1 if nothing was rewritten on the way: every clear, delete or insert-at-top takes a part."""
    return 1.0 / (1.0 + trajectory.edits)


def minimality(task: Task, trajectory: Trajectory) -> float:
    """1 for an empty change, 1/2 at 40 nodes: how little program was needed."""
    return 1.0 / (1.0 + (trajectory.program_nodes // 8) / 5)


def side_effects(task: Task, trajectory: Trajectory) -> float:
    """1 if at most one function differs from the starter files."""
    return 1.0 / max(scope_of(task.files, trajectory.files).functions, 1)


def consistency(task: Task, trajectory: Trajectory) -> float:
    """1 if tests were run and never again without a reason; 1/2 if they were never run."""
    return 1.0 / (1.0 + trajectory.redundant_test_runs) if trajectory.test_runs else 0.5


CRITERIA: dict[str, Criterion] = {
    "approach": approach,
    "precision": precision,
    "minimality": minimality,
    "side_effects": side_effects,
    "consistency": consistency,
}
PAPER_WEIGHTS = {
    "approach": 0.3,
    "precision": 0.25,
    "minimality": 0.2,
    "side_effects": 0.15,
    "consistency": 0.1,
}
"""Weights of arXiv 2609.32577, appendix A.1."""
_DECIMALS = 6
"""Sums that agree to so many decimals tie."""


@dataclass(kw_only=True)
class Constitution(GraderSettings):
    """Ranks by a weighted list of readable rules, with tiers and the reason for each."""

    rules: dict[str, float] = field(default_factory=lambda: dict(PAPER_WEIGHTS))
    """Criterion -> weight >= 0, one above 0: approach, precision, minimality, side_effects, consistency."""
    good: float = 0.8
    """Weighted score in [0, 1] from which a trajectory is of tier 1."""
    poor: float = 0.5
    """Weighted score in [0, good] below which it is of tier 3."""

    gives: ClassVar[tuple[str, ...]] = ("ranks", "scores", "tiers")
    unit_scores: ClassVar[bool] = True

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        known = ", ".join(CRITERIA)
        faults = [
            f"rules has no criterion {name!r}; choose of {known}"
            for name in self.rules
            if name not in CRITERIA
        ]
        for name, weight in self.rules.items():
            faults += check_range(f"rules.{name}", weight, 0)
        if not any(weight > 0 for weight in self.rules.values()):
            faults.append("rules must have a weight above 0")
        return [
            *super().faults(), *faults,
            *check_range("good", self.good, 0, 1), *check_range("poor", self.poor, 0, self.good),
        ]  # fmt: skip

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Rank by the weighted mean of the criteria; the evidence is each criterion's score."""
        verdicts = {i: self.verdict(group.task, group.trajectories[i]) for i in group.passing}
        size = len(group.trajectories)
        nan = float("nan")
        ranking = ranking_from_scores(group, [verdicts[i][0] if i in verdicts else nan for i in range(size)])
        tiers = tuple(self._tier(verdicts[i][0]) if i in verdicts else nan for i in range(size))
        evidence = tuple(verdicts[i][1] if i in verdicts else "" for i in range(size))
        return replace(ranking, tiers=tiers, evidence=evidence)

    def verdict(self, task: Task, trajectory: Trajectory) -> tuple[float, str]:
        """Weighted score of one trajectory, and the scores that it is made of."""
        scores = {name: CRITERIA[name](task, trajectory) for name, weight in self.rules.items() if weight > 0}
        total = sum(self.rules[name] for name in scores)
        score = sum(self.rules[name] * value for name, value in scores.items()) / total
        return round(score, _DECIMALS), ", ".join(f"{name} {value:.2f}" for name, value in scores.items())

    def _tier(self, score: float) -> float:
        return 1.0 if score >= self.good else 3.0 if score < self.poor else 2.0


def special_cases(source: str) -> int:
    """Branches on equality with a constant (list) that return a constant: answers written down."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    return sum(isinstance(node, ast.If) and _special(node) for node in ast.walk(tree))


def _special(node: ast.If) -> bool:
    test = node.test
    compared = (
        isinstance(test, ast.Compare)
        and all(isinstance(op, ast.Eq) for op in test.ops)
        and any(_constant(side) for side in (test.left, *test.comparators))
    )
    returns = [part for part in node.body if isinstance(part, ast.Return)]
    return compared and any(part.value is not None and _constant(part.value) for part in returns)


def _constant(node: ast.expr) -> bool:
    if isinstance(node, ast.List | ast.Tuple):
        return all(_constant(item) for item in node.elts)
    if isinstance(node, ast.UnaryOp):
        return _constant(node.operand)
    return isinstance(node, ast.Constant)
