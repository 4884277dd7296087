"""From scores to rankings, and the check that a ranking can be used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gagar_core.errors import InputError, check_range, gather
from gagar_core.types import Group, Ranking

MOST = 1e9
"""Largest size of a rank, score or tier, and largest cost: a column of the records holds it."""
LONGEST_REASON = 200
"""Characters of a reason to abstain."""


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


def checked(group: Group, answer: object) -> Ranking:
    """What a grader answered as a ranking of plain numbers and texts, or one that abstains with the reason.

    Whatever a grader answers, nothing behind this can stumble over it: not the advantages, not the records.
    """
    try:
        ranking = _plain(answer)
        fault = ranking.abstain or _fault(group, ranking)
    except Exception as err:  # even asking a stranger's object for its length may raise
        return abstaining(group, words_of(err))
    if not fault:
        return ranking
    nothing = (math.nan,) * len(group.trajectories)
    return replace(ranking, ranks=nothing, scores=(), tiers=(), evidence=(), abstain=fault)


def abstaining(group: Group, reason: str) -> Ranking:
    """No judgement of a group, for a reason."""
    return Ranking(ranks=(math.nan,) * len(group.trajectories), abstain=reason)


def words_of(err: BaseException) -> str:
    """An exception as one short line that can be recorded."""
    try:
        return _line(f"{type(err).__name__}: {err}")
    except Exception:  # its own words may raise as well
        return type(err).__name__


def _plain(answer: object) -> Ranking:
    """The same ranking made of floats, texts and whole numbers; raises where that is not possible."""
    if not isinstance(answer, Ranking):
        msg = f"it returned {type(answer).__name__}, not a Ranking"
        raise TypeError(msg)
    return Ranking(
        ranks=_numbers("ranks", answer.ranks),
        scores=_numbers("scores", answer.scores),
        tiers=_numbers("tiers", answer.tiers),
        abstain=_line(answer.abstain),
        evidence=tuple(_recordable(text) for text in answer.evidence),
        cpu_s=_cost("cpu_s", answer.cpu_s),
        actions=int(_cost("actions", answer.actions)),
        tokens=int(_cost("tokens", answer.tokens)),
    )


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        msg = f"{name} must be a sequence parallel to the trajectories, not {type(values).__name__}"
        raise TypeError(msg)
    return tuple(float(value) for value in values)


def _cost(name: str, value: float) -> float:
    gather(check_range(name, value, 0, MOST), headline="it returned an impossible cost", error=InputError)
    return float(value)


def _line(text: str) -> str:
    return " ".join(_recordable(text).split())[:LONGEST_REASON]


def _recordable(text: str) -> str:
    """Text as UTF-8 can hold it."""
    return text.encode("utf-8", "backslashreplace").decode()


def _fault(group: Group, ranking: Ranking) -> str:
    passing, size = set(group.passing), len(group.trajectories)
    for name in ("ranks", "scores", "tiers", "evidence"):
        values = getattr(ranking, name)
        if len(values) != size and (values or name == "ranks"):
            return f"{len(values)} {name} for {size} trajectories"
    for name in ("ranks", "scores", "tiers"):
        for index, value in enumerate(getattr(ranking, name)):
            if index in passing and not abs(value) <= MOST:
                return f"{name} of passing trajectory {index} is {value}"
            if index not in passing and not math.isnan(value):
                return f"{name} of trajectory {index}, which does not pass"
    return ""
