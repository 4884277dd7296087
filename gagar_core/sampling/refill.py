"""Sampling policy ``refill``: further rounds until there are as many mixed groups as the budget asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gagar_core.errors import GagarError, check_choice, check_range, gather
from gagar_core.protocols import SamplingRound
from gagar_core.sampling.outcome import BudgetSampling, outcome
from gagar_core.types import Group, Task

MAX_ROUNDS = 32


@dataclass(kw_only=True)
class Refill(BudgetSampling):
    """Sample further tasks until the step has its full number of mixed groups (DAPO, arXiv 2503.14476).

    The first round has the budget's tasks; later ones take tasks that this step has not seen. Mixed groups
    beyond the number asked for are dropped as surplus: their tokens are the price of over-sampling.
    """

    rounds: int = 4
    """Rounds per step, in [1, 32]; 1 = no refill."""
    oversample: float = 1.0
    """Tasks asked for per missing group, in [1, 8]."""
    when_short: str = "train"
    """After the last round with too few mixed groups: train on those there are | error."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("rounds", self.rounds, 1, MAX_ROUNDS),
                *check_range("oversample", self.oversample, 1, 8),
                *check_choice("when_short", self.when_short, ("train", "error")),
            ],
            headline="invalid refill",
        )

    def request(self, seen: SamplingRound) -> list[tuple[Task, int]]:
        """Tasks for the groups that are missing; [] when none is, when rounds or tasks have run out."""
        wanted = seen.feed.per_step
        missing = wanted - sum(outcome(group) == "mixed" for group in seen.groups)
        tasks: list[Task] = []
        if missing > 0 and seen.number < self.rounds:
            count = math.ceil(self.oversample * missing)
            tasks = seen.feed.at(seen.step) if seen.number == 0 else []
            tasks = tasks + seen.feed.extra(seen.step, max(0, len(seen.groups) - wanted), count - len(tasks))
        if not tasks and missing > 0 and self.when_short == "error":
            raise GagarError(self._short(seen, wanted - missing))
        return [(task, seen.group_size) for task in tasks]

    def _short(self, seen: SamplingRound, found: int) -> str:
        """What to change; more rounds help only where there are tasks for them."""
        more = "sampling.rounds, " if self.rounds <= seen.number < MAX_ROUNDS else ""
        why = (
            ""
            if seen.number >= self.rounds
            else f"all {len(seen.feed.tasks)} training tasks are used up and "
        )
        return (
            f"sampling=refill found {found} of {seen.feed.per_step} mixed groups in {seen.number} rounds "
            f"of step {seen.step} ({len(seen.groups)} groups sampled): {why}tasks are too hard or too easy "
            f"for this policy; raise {more}budget.group_size or budget.sft_demos, choose "
            "other tasks, or set sampling.when_short=train"
        )

    def select(self, groups: Sequence[Group], wanted: int) -> list[str]:
        """Keep the first ``wanted`` mixed groups."""
        reasons = super().select(groups, wanted)
        mixed = [position for position, reason in enumerate(reasons) if not reason]
        for position in mixed[wanted:]:
            reasons[position] = "surplus"
        return reasons
