"""Error of a known size put on top of any grader: how wrong may a grader be before it does harm?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gagar_core.grading.ranking import ranking_from_scores
from gagar_core.grading.settings import GraderSettings
from gagar_core.types import Group, Ranking


def with_error(
    group: Group, ranking: Ranking, settings: GraderSettings, step: int, rng: np.random.Generator
) -> Ranking:
    """The ranking with the bias and the swaps that the settings ask for, or itself where they ask for none.

    The bias comes first. Then neighbouring levels of the ranking change places, from the best downwards, each
    pair with probability ``swap_prob``. Tiers, which follow from ranks no longer, are dropped when the order
    changed.
    """
    quiet = settings.swap_prob == 0.0 and settings.bias_to_long == 0.0
    if quiet or ranking.abstain or step < settings.error_from:
        return ranking
    scores = {i: -ranking.ranks[i] for i in group.passing}
    if settings.bias_to_long:
        scores = _biased(group, ranking, settings.bias_to_long)
    scores = _swapped(scores, settings.swap_prob, rng)
    size = len(group.trajectories)
    changed = ranking_from_scores(group, [scores.get(i, float("nan")) for i in range(size)])
    if changed.ranks == ranking.ranks or _same_order(changed, ranking, group):
        return ranking
    return replace(ranking, ranks=changed.ranks, scores=changed.scores if ranking.scores else (), tiers=())


def _biased(group: Group, ranking: Ranking, bias: float) -> dict[int, float]:
    passing = group.passing
    judged = np.array([ranking.scores[i] if ranking.scores else -ranking.ranks[i] for i in passing])
    lengths = np.array([group.trajectories[i].gen_tokens for i in passing], dtype=np.float64)
    spread = float(judged.std()) or 1.0
    longer = (lengths - lengths.mean()) / (float(lengths.std()) or 1.0)
    return dict(zip(passing, (judged + bias * spread * longer).tolist(), strict=True))


def _swapped(scores: dict[int, float], probability: float, rng: np.random.Generator) -> dict[int, float]:
    levels = sorted(set(scores.values()), reverse=True)
    order = list(range(len(levels)))
    for place in range(len(order) - 1):
        if rng.random() < probability:
            order[place], order[place + 1] = order[place + 1], order[place]
    moved = {levels[level]: levels[place] for place, level in enumerate(order)}
    return {index: moved[score] for index, score in scores.items()}


def _same_order(one: Ranking, other: Ranking, group: Group) -> bool:
    passing = group.passing
    pairs = [(a, b) for a in passing for b in passing]
    return all((one.ranks[a] < one.ranks[b]) == (other.ranks[a] < other.ranks[b]) for a, b in pairs)
