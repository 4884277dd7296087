"""What one training step knows so far; filled by the named parts of the trainer, read by recording."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gagar_core.advantages import AdvantageResult
from gagar_core.grading.gold import GoldCheck
from gagar_core.training.update_stats import UpdateStats
from gagar_core.types import Group, Ranking, Task, Trajectory

NOT_GRADED = "not a kind of task that is graded"
"""Why groups of other kinds than code keep their base advantages."""


@dataclass
class StepData:
    """One step. Flat lists run over all trajectories, group by group."""

    step: int
    groups: list[Group] = field(default_factory=list)
    rounds: int = 0
    """Sampling rounds made."""
    wanted_groups: int = 0
    """Groups that the budget asks for."""
    drop_reasons: list[str] = field(default_factory=list)
    """Per group "" if kept."""
    rankings: dict[int, Ranking] = field(default_factory=dict)
    """Group id -> ranking, for graded groups."""
    rows: list[tuple[int, int]] = field(default_factory=list)
    """(position of the group, position in the group) of every trajectory that is trained on."""
    rewards: np.ndarray[Any, np.dtype[np.float64]] = field(default_factory=lambda: np.zeros(0))
    """(rows,) after shaping."""
    advantages: AdvantageResult | None = None
    update: UpdateStats | None = None
    gold: GoldCheck | None = None
    """The gold set's grading, at steps where it is due."""
    recalibrated: bool = False
    """Whether the grader was fitted again before this step."""

    @property
    def kept(self) -> list[Group]:
        """Groups that enter the loss."""
        return [group for group, reason in zip(self.groups, self.drop_reasons, strict=True) if not reason]

    def trajectory(self, row: tuple[int, int]) -> Trajectory:
        """The trajectory of an entry of ``rows``."""
        return self.groups[row[0]].trajectories[row[1]]

    def task(self, row: tuple[int, int]) -> Task:
        """Its task."""
        return self.groups[row[0]].task
