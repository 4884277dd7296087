"""Is length being reinforced? What the used advantages push a policy towards, and why a mean length moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.statistics import Floats
from gagar_core.errors import InputError, check_choice, gather

LOSS_KINDS = ("token_mean", "constant_norm", "seq_mean_token_sum", "seq_mean_token_mean", "prompt_mean")


@dataclass(frozen=True, slots=True)
class MixShift:
    """Why a mean length moved between two times: ``total = mix + within`` exactly.

    ``mix`` is the part due to more (or fewer) passing trajectories, ``within`` the part due to passing and
    failing ones themselves getting longer; ``within = within_pass + within_fail``.
    """

    total: float
    mix: float
    within_pass: float
    within_fail: float

    @property
    def within(self) -> float:
        """Change at an unchanged share of passing trajectories."""
        return self.within_pass + self.within_fail


def mix_shift(before: tuple[float, float, float], after: tuple[float, float, float]) -> MixShift:
    """Decompose a change of mean length; both are (pass share, mean length passing, mean length failing).

    With p, P, F and midpoints over the two times: mix = dp (P - F), within = p dP + (1 - p) dF. A mean that
    has no trajectories behind it (NaN at pass share 0 or 1) is taken from the other time, as then only the
    mix can have changed it.
    """
    (p0, pass0, fail0), (p1, pass1, fail1) = before, after
    pass0, pass1 = _other(pass0, pass1), _other(pass1, pass0)
    fail0, fail1 = _other(fail0, fail1), _other(fail1, fail0)
    p, dp = (p0 + p1) / 2, p1 - p0
    mix = dp * ((pass0 + pass1) / 2 - (fail0 + fail1) / 2)
    within_pass, within_fail = p * (pass1 - pass0), (1 - p) * (fail1 - fail0)
    return MixShift(mix + within_pass + within_fail, mix, within_pass, within_fail)


def _other(value: float, instead: float) -> float:
    if not np.isnan(value):
        return value
    # at a share of 0 on both sides the term has weight 0, whatever stands here
    return 0.0 if np.isnan(instead) else instead


@dataclass(frozen=True, slots=True)
class Push:
    """How length and advantage go together inside groups.

    ``pearson`` and ``spearman`` are pooled within-group correlations (null without spread). ``shift`` is
    sum(A L) / sum(|A|) in tokens with L centred per group: positive, and longer trajectories are reinforced.
    """

    n: int
    groups: int
    pearson: float | None
    spearman: float | None
    shift: float | None


def length_push(lengths: ArrayLike, advantages: ArrayLike, groups: ArrayLike) -> Push:
    """Whether the advantages of a batch (or of many) reinforce length.

    Lengths are centred per group, since a group is one task: that tasks differ in length says nothing. So
    are advantages for the correlations; the shift uses them as they enter the loss. Ranks for Spearman are
    taken inside each group, ties averaged. Rows with a NaN are left out.
    """
    (push,) = length_pushes(lengths, [advantages], groups)
    return push


def length_pushes(lengths: ArrayLike, advantages: Sequence[ArrayLike], groups: ArrayLike) -> list[Push]:
    """``length_push`` of several advantages of the same rows; a row counts if it has them all."""
    columns = np.stack([np.asarray(a, dtype=np.float64) for a in (lengths, *advantages)])
    keep = np.isfinite(columns).all(axis=0)
    length, *others = columns[:, keep]
    if length.size == 0:
        return [Push(0, 0, None, None, None) for _ in others]
    codes = _codes(np.asarray(groups)[keep])
    centred, ranks = _centre(length, codes), _centre(ranks_within(length, codes), codes)
    return [_push(centred, ranks, advantage, codes) for advantage in others]


def _push(centred: Floats, ranks: Floats, advantage: Floats, codes: NDArray[np.int64]) -> Push:
    mass, moved = float(np.abs(advantage).sum()), float(advantage @ centred)
    # equal advantages within groups push nowhere; what is left of the sum is rounding
    if abs(moved) <= 1e-12 * float(np.abs(advantage) @ np.abs(centred)):
        moved = 0.0
    return Push(
        n=int(centred.size),
        groups=int(codes.max()) + 1,
        pearson=_correlation(centred, _centre(advantage, codes)),
        spearman=_correlation(ranks, _centre(ranks_within(advantage, codes), codes)),
        shift=moved / mass if mass > 0 else None,
    )


def _centre(values: Floats, codes: NDArray[np.int64]) -> Floats:
    """Values minus their group's mean."""
    return np.asarray(values - (np.bincount(codes, values) / np.bincount(codes))[codes])


def _correlation(x: Floats, y: Floats) -> float | None:
    """Of two columns already centred; null if either has no spread."""
    scale = float(np.sqrt((x @ x) * (y @ y)))
    floor = 1e-12 * x.size
    return float(x @ y) / scale if scale > floor else None


def ranks_within(values: Floats, groups: NDArray[np.generic] | Floats) -> Floats:
    """Average ranks (1 = smallest) of each value inside its group."""
    codes = _codes(groups)
    if codes.size and (np.diff(codes) >= 0).all() and (sizes := np.bincount(codes)).max() <= _SMALL_GROUP:
        return _ranks_by_counting(values, codes, sizes)
    # ties share a rank, so only the second sort must be stable; on 16-bit keys it is a radix sort
    by_value = np.argsort(values)
    small = codes.astype(np.int16) if codes.size and codes.max() < 2**15 else codes
    order = by_value[np.argsort(small[by_value], kind="stable")]
    v, g = values[order], codes[order]
    first = np.append(True, (v[1:] != v[:-1]) | (g[1:] != g[:-1]))
    start_of_tie = np.flatnonzero(first)
    sizes = np.diff(np.append(start_of_tie, v.size))
    new_group = np.append(True, g[1:] != g[:-1])
    group_start = np.maximum.accumulate(np.where(new_group, np.arange(v.size), 0))
    average = start_of_tie - group_start[start_of_tie] + (sizes + 1) / 2
    ranks = np.empty(v.size)
    ranks[order] = np.repeat(average, sizes)
    return ranks


def _codes(groups: NDArray[np.generic] | Floats) -> NDArray[np.int64]:
    """0, 1, ... per distinct group; rows that lie in the order of their groups, as in files, need no sort."""
    labels = np.asarray(groups)
    if labels.dtype.kind in "if" and (labels[1:] >= labels[:-1]).all():
        return np.cumsum(np.append(False, labels[1:] != labels[:-1]))[: labels.size]
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)


_SMALL_GROUP = 32
"""Up to this size ranks are counted pair by pair, which is faster than sorting."""


def _ranks_by_counting(values: Floats, codes: NDArray[np.int64], sizes: NDArray[np.int64]) -> Floats:
    """Rank = (how many of the group are smaller + how many are not larger + 1) / 2."""
    place = np.arange(codes.size) - (np.cumsum(sizes) - sizes)[codes]
    table = np.full((sizes.size, int(sizes.max())), np.inf)
    table[codes, place] = values
    members = np.ascontiguousarray(table.T)  # one row per place in a group: long rows are compared fast
    counts = np.zeros(members.shape, dtype=np.int8)
    for other in members:
        counts += (other < members).view(np.int8)
        counts += (other <= members).view(np.int8)
    return np.asarray((counts[place, codes] + 1) / 2)


def token_weights(lengths: ArrayLike, advantages: ArrayLike, groups: ArrayLike, loss: str) -> Floats:
    """Loss weight |A| of one token of each trajectory, up to a common factor, under an aggregation.

    ``token_mean``, ``constant_norm`` and ``seq_mean_token_sum`` weigh every token of a batch alike,
    ``seq_mean_token_mean`` divides by the trajectory's length, ``prompt_mean`` by its group's tokens.
    """
    gather(check_choice("loss", loss, LOSS_KINDS), headline="cannot weigh tokens", error=InputError)
    length = np.maximum(np.asarray(lengths, dtype=np.float64), 1.0)
    weight = np.abs(np.asarray(advantages, dtype=np.float64))
    if loss == "seq_mean_token_mean":
        return weight / length
    if loss == "prompt_mean":
        _, codes = np.unique(np.asarray(groups), return_inverse=True)
        return weight / np.bincount(codes, length)[codes]
    return weight


def by_length(lengths: ArrayLike, values: ArrayLike, parts: int) -> list[dict[str, float | int | None]]:
    """Mean of ``values`` in ``parts`` equal shares of trajectories, from the shortest to the longest.

    Rows with a NaN are left out; ties in length are split in the order given. Empty if rows are too few.
    """
    length, value = np.asarray(lengths, dtype=np.float64), np.asarray(values, dtype=np.float64)
    keep = np.isfinite(length) & np.isfinite(value)
    length, value = length[keep], value[keep]
    if length.size < parts:
        return []
    order = np.argsort(length, kind="stable")
    return [
        {"n": int(part.size), "length": float(length[part].mean()), "value": float(value[part].mean())}
        for part in np.array_split(order, parts)
    ]
