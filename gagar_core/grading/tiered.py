"""Two graders in one: a cheap one for groups that mostly pass, a thorough one for the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gagar_core.errors import check_choice, check_range
from gagar_core.grading import agentic, constitution, distilled, rules
from gagar_core.grading.settings import GraderSettings, LearnedSettings, Weights
from gagar_core.types import Group, Ranking

if TYPE_CHECKING:
    from gagar_core.grading.labelled import LabelledGroup
    from gagar_core.protocols import Grader, Policy, Sandbox, Workspace

PARTS: dict[str, type[GraderSettings]] = {
    "trajectory_rule": rules.TrajectoryRule,
    "constitution": constitution.Constitution,
    "size_bucket": rules.SizeBucket,
    "length": rules.Length,
    "distilled_xs": distilled.DistilledXs,
    "distilled_s": distilled.DistilledS,
    "distilled_m": distilled.DistilledM,
    "distilled_l": distilled.DistilledL,
    "agentic_s": agentic.AgenticS,
    "agentic_l": agentic.AgenticL,
}
"""Graders that either part can be."""
_ROLES = ("easy", "hard")


@dataclass(kw_only=True)
class Tiered(LearnedSettings):
    """Grades groups of a high pass rate with one grader and the others with another.

    The pass rate is that of the group at hand: what a task's rate was before would make a grade depend on the
    run's past. Both parts have their own defaults.
    """

    easy: str = "trajectory_rule"
    """Grader of groups whose pass rate reaches ``border``."""
    hard: str = "agentic_s"
    """Grader of all other groups."""
    border: float = 0.75
    """Pass rate among valid trajectories, in [0, 1], from which a group is easy."""
    fit_epochs: int = 0
    """Passes over the labelled groups, >= 0; 0 = each part's own number."""
    fit_lr: float = 0.0
    """Learning rate of the fits, >= 0; 0 = each part's own."""

    fitting: ClassVar[tuple[str, ...]] = (*LearnedSettings.fitting, "easy", "hard")

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        return [
            *(fault for fault in super().faults() if not fault.startswith("fit_")),  # 0 has a meaning here
            *check_choice("easy", self.easy, PARTS),
            *check_choice("hard", self.hard, PARTS),
            *check_range("border", self.border, 0, 1),
            *check_range("fit_epochs", self.fit_epochs, 0),
            *check_range("fit_lr", self.fit_lr, 0),
        ]

    def part(self, role: str) -> Any:
        """Settings of the ``easy`` or the ``hard`` grader: its defaults, and what is said of fits here."""
        cls: Any = PARTS[getattr(self, role)]
        if not cls.learned:
            return cls()
        said = {name: getattr(self, name) for name in ("fit_epochs", "fit_lr") if getattr(self, name)}
        return cls(train_groups=self.train_groups, label_noise=self.label_noise, **said)

    def build(self, weights: Weights | None = None, policy: Policy | None = None) -> Grader:
        """Both graders; raises ``ValueError`` for parameters of other ones."""
        if weights is None:
            msg = "it has to be trained first: python -m experiments train_grader"
            raise ValueError(msg)
        easy, hard = (self.part(role).build(_of(role, weights), policy) for role in _ROLES)
        return TieredGrader(easy, hard, self.border)

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Settings alone cannot grade: parameters are needed."""
        return self.build().grade(group, workspace)

    def fit(
        self,
        data: Sequence[LabelledGroup],
        sandbox: Sandbox,
        rng: np.random.Generator,
        start: Weights | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Train the parts that learn, each on all labelled groups."""
        found: dict[str, NDArray[Any]] = {}
        for role in _ROLES:
            part = self.part(role)
            if part.learned:
                before = None if start is None else _of(role, start)
                fitted = part.fit(data, sandbox, rng, before)
                found |= {f"{role}.{name}": value for name, value in fitted.items()}
        return found


def _of(role: str, weights: Weights) -> dict[str, NDArray[Any]]:
    """Parameters of one part, under its own names."""
    prefix = f"{role}."
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


class TieredGrader:
    """Both graders at work."""

    gives: ClassVar[tuple[str, ...]] = Tiered.gives

    def __init__(self, easy: Grader, hard: Grader, border: float) -> None:
        self._parts = (easy, hard)
        self._border = border

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Rank one group."""
        return self.grade_many([group], [workspace])[0]

    def grade_many(self, groups: Sequence[Group], workspaces: Sequence[Any]) -> list[Ranking]:
        """Rank the groups of a step, each part all of its own at once."""
        hard = [pass_rate(group) < self._border for group in groups]
        found: dict[int, Ranking] = {}
        for grader, wanted in zip(self._parts, (False, True), strict=True):
            own = [g for g, is_hard in enumerate(hard) if is_hard == wanted]
            ranked = _many(grader, [groups[g] for g in own], [workspaces[g] for g in own])
            found |= dict(zip(own, ranked, strict=True))
        return [replace(found[g], tiers=()) for g in range(len(groups))]


def pass_rate(group: Group) -> float:
    """Share of the valid trajectories that pass; 0 if there are none."""
    valid = sum(trajectory.valid for trajectory in group.trajectories)
    return len(group.passing) / valid if valid else 0.0


def _many(grader: Any, groups: Sequence[Group], workspaces: Sequence[Any]) -> list[Ranking]:
    if not groups:
        return []
    if hasattr(grader, "grade_many"):
        return list(grader.grade_many(groups, workspaces))
    return [grader.grade(group, workspace) for group, workspace in zip(groups, workspaces, strict=True)]
