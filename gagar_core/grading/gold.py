"""The gold set: fixed labelled groups, graded again and again in training, to see a grader drift."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gagar_core.grading.agreement import Agreement, agreement
from gagar_core.grading.grade import Streams, grade_groups
from gagar_core.grading.labelled import LabelledGroup
from gagar_core.grading.ranking import ranking_from_scores
from gagar_core.grading.settings import GraderSettings
from gagar_core.protocols import Grader, Sandbox
from gagar_core.types import Group, Ranking


@dataclass(frozen=True)
class GoldCheck:
    """One grading of the gold set."""

    step: int
    agreement: Agreement
    consistency: float | None
    """Share of pairs ordered alike when the candidates are shown in another order."""
    rank_shift: float | None
    """Mean absolute change of a trajectory's rank against the first check."""
    flag: str
    """"" or what was lost against the first check, when it is more than allowed."""
    groups: tuple[Group, ...]
    truth: tuple[Ranking, ...]
    """Rankings by the labels."""
    rankings: tuple[Ranking, ...]
    shuffled: tuple[Ranking, ...]
    """Rankings when the candidates were shown in another order, put back."""


@dataclass
class GoldSet:
    """Fixed groups, and what the first check found; ``first`` is plain data, for checkpoints."""

    data: Sequence[LabelledGroup]
    settings: GraderSettings
    first: dict[str, Any] = field(default_factory=dict)

    def due(self, step: int) -> bool:
        """Whether the gold set is graded at this step."""
        every = self.settings.gold_every
        return bool(every and self.data and step % every == 0)

    def check(self, grader: Grader, sandbox: Sandbox, step: int, streams: Streams) -> GoldCheck:
        """Grade all groups as they are, and once more with their candidates in another order."""
        groups = [one.group for one in self.data]
        rankings = grade_groups(groups, grader, sandbox, settings=self.settings, step=step, streams=streams)
        orders = [
            np.random.default_rng(one.group.id).permutation(len(one.group.trajectories)) for one in self.data
        ]
        mixed = [
            replace(group, trajectories=tuple(group.trajectories[int(i)] for i in order))
            for group, order in zip(groups, orders, strict=True)
        ]
        shown = grade_groups(mixed, grader, sandbox, settings=self.settings, step=step, streams=streams)
        shuffled = [_put_back(ranking, order) for ranking, order in zip(shown, orders, strict=True)]
        found = agreement(self.data, rankings)
        if not self.first:
            self.first = _plain(found, rankings)
        return GoldCheck(
            step=step,
            agreement=found,
            consistency=_alike(self.data, rankings, shuffled),
            rank_shift=self._shift(rankings),
            flag=self._flag(found),
            groups=tuple(groups),
            truth=tuple(ranking_from_scores(one.group, one.quality) for one in self.data),
            rankings=tuple(rankings),
            shuffled=tuple(shuffled),
        )

    def _shift(self, rankings: Sequence[Ranking]) -> float | None:
        pairs = [
            abs(now - before)
            for ranking, old in zip(rankings, self.first["ranks"], strict=True)
            for now, before in zip(ranking.ranks, old, strict=True)
            if before is not None and math.isfinite(now)
        ]
        return float(np.mean(pairs)) if pairs else None

    def _flag(self, found: Agreement) -> str:
        lost = []
        for name, title in (("tau", "tau-b"), ("top1", "top-1")):
            before, now = self.first[name], getattr(found, name)
            if before is not None and (now is None or before - now > self.settings.gold_drop):
                lost.append(f"{title} {before:.2f} -> {'none' if now is None else f'{now:.2f}'}")
        if found.abstained - self.first["abstained"] > self.settings.gold_drop:
            lost.append(
                f"abstains on {found.abstained:.0%} of groups, {self.first['abstained']:.0%} at first"
            )
        return "; ".join(lost)


def _plain(found: Agreement, rankings: Sequence[Ranking]) -> dict[str, Any]:
    ranks = [[rank if math.isfinite(rank) else None for rank in ranking.ranks] for ranking in rankings]
    return {"tau": found.tau, "top1": found.top1, "abstained": found.abstained, "ranks": ranks}


def _put_back(ranking: Ranking, order: np.ndarray) -> Ranking:
    ranks = [math.nan] * len(order)
    for place, index in enumerate(order):
        ranks[int(index)] = ranking.ranks[place]
    return replace(ranking, ranks=tuple(ranks), scores=(), tiers=(), evidence=())


def _alike(data: Sequence[LabelledGroup], one: Sequence[Ranking], other: Sequence[Ranking]) -> float | None:
    same = [
        np.sign(a.ranks[i] - a.ranks[j]) == np.sign(b.ranks[i] - b.ranks[j])
        for labelled, a, b in zip(data, one, other, strict=True)
        if not (a.abstain or b.abstain)
        for i, j in itertools.combinations(labelled.ranked, 2)
    ]
    return float(np.mean(same)) if same else None
