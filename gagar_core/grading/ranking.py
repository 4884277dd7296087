"""From scores to rankings, and the check that a ranking can be used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gagar_core.types import Group, Ranking


def ranking_from_scores(group: Group, scores: Sequence[float]) -> Ranking:
    """Rank ``group.passing`` by ``scores`` (one per trajectory, higher = better); equal scores share a rank.

    Ranks are dense: 1 for the best level, 2 for the next. Failing and invalid trajectories get NaN.
    """
    passing = group.passing
    levels = sorted({scores[i] for i in passing}, reverse=True)
    rank_of = {score: float(level + 1) for level, score in enumerate(levels)}
    size = len(group.trajectories)
    ranks = [rank_of[scores[i]] if i in passing else math.nan for i in range(size)]
    shown = [float(scores[i]) if i in passing else math.nan for i in range(size)]
    return Ranking(ranks=tuple(ranks), scores=tuple(shown))


def checked(group: Group, ranking: Ranking) -> Ranking:
    """The ranking, or one that abstains with the reason why this one cannot be used."""
    fault = ranking.abstain or _fault(group, ranking)
    if not fault:
        return ranking
    nothing = (math.nan,) * len(group.trajectories)
    return replace(ranking, ranks=nothing, scores=(), tiers=(), abstain=fault)


def _fault(group: Group, ranking: Ranking) -> str:
    passing = set(group.passing)
    for name in ("ranks", "scores", "tiers"):
        values = getattr(ranking, name)
        if not values and name != "ranks":
            continue
        if len(values) != len(group.trajectories):
            return f"{len(values)} {name} for {len(group.trajectories)} trajectories"
        for index, value in enumerate(values):
            if index in passing and not math.isfinite(value):
                return f"{name} of passing trajectory {index} is {value}"
            if index not in passing and not math.isnan(value):
                return f"{name} of trajectory {index}, which does not pass"
    return ""
