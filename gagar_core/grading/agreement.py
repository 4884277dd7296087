"""How well rankings agree with labels: pairs, right against lucky, Kendall's tau-b, best of the group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gagar_core.grading.labelled import LabelledGroup
from gagar_core.types import Ranking

CLEAR = 0.02
"""Pairs of trajectories whose quality differs by less are not asked about."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Means over pairs and groups; a value is null where nothing could be asked.

    ``pair_accuracy``: share of pairs of clearly different quality ordered rightly, a tie counts half.
    ``right_over_lucky``: the same over pairs of which one passes all label tests and the other does not.
    ``tau``: mean Kendall tau-b over groups whose labels and ranks do not all tie. ``top1``: share of groups
    whose best-ranked trajectory is of the best quality; several best-ranked ones count by their share.
    """

    groups: int
    pairs: int
    lucky_pairs: int
    pair_accuracy: float | None
    right_over_lucky: float | None
    tau: float | None
    top1: float | None
    abstained: float


def agreement(data: Sequence[LabelledGroup], rankings: Sequence[Ranking]) -> Agreement:
    """Agreement over all groups; abstentions are counted, and left out of everything else."""
    pairs: list[float] = []
    lucky: list[float] = []
    taus: list[float] = []
    tops: list[float] = []
    abstained = 0
    for one, ranking in zip(data, rankings, strict=True):
        if ranking.abstain:
            abstained += 1
            continue
        quality, ranks = np.array(one.quality), np.array(ranking.ranks)
        pairs += _pairs(one, quality, ranks)
        lucky += _lucky(one, ranks)
        rows = list(one.ranked)
        tau = kendall_tau_b(-ranks[rows], quality[rows])
        taus += [tau] if tau is not None else []
        tops.append(_top(quality[rows], ranks[rows]))
    return Agreement(
        groups=len(data),
        pairs=len(pairs),
        lucky_pairs=len(lucky),
        pair_accuracy=_mean(pairs),
        right_over_lucky=_mean(lucky),
        tau=_mean(taus),
        top1=_mean(tops),
        abstained=abstained / len(data) if data else 0.0,
    )


def kendall_tau_b(x: np.ndarray, y: np.ndarray) -> float | None:
    """(concordant - discordant) / sqrt(pairs untied in x * pairs untied in y); null if all of one tie."""
    upper = np.triu_indices(len(x), 1)
    dx, dy = (np.sign(v[:, None] - v[None, :])[upper] for v in (x, y))
    scale = math.sqrt(float(np.abs(dx).sum()) * float(np.abs(dy).sum()))
    return float((dx * dy).sum()) / scale if scale else None


def _pairs(one: LabelledGroup, quality: np.ndarray, ranks: np.ndarray) -> list[float]:
    return [
        _won(ranks[a], ranks[b]) if quality[a] > quality[b] else _won(ranks[b], ranks[a])
        for a, b in itertools.combinations(one.ranked, 2)
        if abs(quality[a] - quality[b]) > CLEAR
    ]


def _lucky(one: LabelledGroup, ranks: np.ndarray) -> list[float]:
    right = [i for i in one.ranked if one.right(i)]
    lucky = [i for i in one.ranked if not one.right(i)]
    return [_won(ranks[a], ranks[b]) for a in right for b in lucky]


def _won(better: float, worse: float) -> float:
    return 1.0 if better < worse else 0.5 if better == worse else 0.0


def _top(quality: np.ndarray, ranks: np.ndarray) -> float:
    first = ranks == ranks.min()
    return float((quality[first] == quality.max()).mean())


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
