"""From ranks with ties to quality weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gagar_core.advantages.groups import group_size, group_sum
from gagar_core.protocols import Bools, Floats, Ints, Weighting

TIES = ("average", "dense")


@dataclass(frozen=True, slots=True)
class PassingRows:
    """The passing rows of a batch; arrays (P,) are parallel, arrays (G,) are per group.

    ``index`` is the position of a row among all valid rows. Grades are None where the caller gave none.
    """

    index: Ints
    codes: Ints
    num_groups: int
    size: Ints
    """Valid rows of each group (G,)."""
    passes: Ints
    """Passing rows of each group (G,)."""
    all_codes: Ints
    """Group code of every valid row (V,)."""
    ranks: Floats | None = None
    tiers: Floats | None = None
    scores: Floats | None = None
    lengths: Floats | None = None


@dataclass(frozen=True, slots=True)
class _Levels:
    """Rows sorted by group, then rank; ``opens`` marks the first row of each tied block."""

    order: Ints
    codes: Ints
    opens: Bools
    start: Ints
    """Position in the sorted rows at which each group begins (G,)."""


def sort_levels(values: Floats, codes: Ints, num_groups: int) -> _Levels:
    """Sort rows within groups by ``values`` (P,), smallest first, NaN last; the order of ties is open."""
    keys = _whole_keys(values, codes, num_groups)
    order = np.lexsort((values, codes)) if keys is None else np.argsort(keys)
    sorted_codes = codes.take(order)
    ordered = values.take(order)
    opens = np.ones(len(values), np.bool_)
    opens[1:] = (ordered[1:] != ordered[:-1]) | (sorted_codes[1:] != sorted_codes[:-1])
    size = group_size(codes, num_groups)
    return _Levels(order, sorted_codes, opens, np.cumsum(size) - size)


def _whole_keys(values: Floats, codes: Ints, num_groups: int) -> Ints | None:
    """One integer per row that sorts like (code, value), or None unless values are moderate whole numbers.

    Sorting one integer is several times faster than sorting two keys.
    """
    if len(values) == 0 or not np.isfinite(values).all():
        return None
    low, high = float(values.min()), float(values.max())
    if (high - low + 1.0) * num_groups > 2.0**62 or max(abs(low), abs(high)) > 2.0**53:
        return None
    whole = values.astype(np.int64)
    if (whole != values).any():
        return None
    return codes * (int(high) - int(low) + 1) + (whole - int(low))


def dense_levels(values: Floats, codes: Ints, num_groups: int) -> tuple[Floats, Floats]:
    """Dense rank (P,) of each row within its group, 1 = smallest value, and the group's levels (G,)."""
    levels = sort_levels(values, codes, num_groups)
    number = np.cumsum(levels.opens)
    before = np.concatenate(([0], number))[levels.start]
    dense = np.empty(len(values))
    dense[levels.order] = number - before[levels.codes]
    return dense, group_sum(levels.opens.astype(np.float64), levels.codes, num_groups)


def average_ranks(values: Floats, codes: Ints, num_groups: int) -> Floats:
    """Mean rank (P,) of each tied block within its group, 1 = smallest value."""
    levels = sort_levels(values, codes, num_groups)
    position = 1.0 + np.arange(len(values), dtype=np.float64) - levels.start.take(levels.codes)
    result = np.empty(len(values))
    result[levels.order] = _share(position, levels.opens)
    return result


def weights_from_ranks(weighting: Weighting, rows: PassingRows, ranks: Floats) -> Floats:
    """Quality weights (P,), NaN where the rank is NaN.

    ``ties`` of the weighting: ``dense`` treats each tied block as one candidate (the rank is the block's
    number, k the number of blocks); ``average`` gives each member the mean of the weights that the block
    spans, so the sum of weights does not depend on ties.
    """
    if getattr(weighting, "ties", "average") == "dense":
        dense, count = dense_levels(ranks, rows.codes, rows.num_groups)
        weights = weighting.quality_weight(dense, count[rows.codes])
    else:
        levels = sort_levels(ranks, rows.codes, rows.num_groups)
        weights = np.empty(len(ranks))
        weights[levels.order] = _share(_spanned(weighting, levels, rows.passes), levels.opens)
    missing = np.isnan(ranks)
    return np.where(missing, np.nan, weights) if missing.any() else weights


def _spanned(weighting: Weighting, levels: _Levels, passes: Ints) -> Floats:
    """Weights of positions 1 … k of every group, in sorted order (P,).

    Groups of one size share their weights: each size is weighted once, then looked up.
    """
    sizes = np.unique(passes[passes > 0])
    ends = np.cumsum(sizes)
    begins = ends - sizes
    total = int(sizes.sum())
    position = 1.0 + np.arange(total, dtype=np.float64) - np.repeat(begins, sizes)
    table = np.asarray(weighting.quality_weight(position, np.repeat(sizes, sizes).astype(np.float64)))
    begin = np.zeros(len(passes), np.int64)
    begin[passes > 0] = begins[np.searchsorted(sizes, passes[passes > 0])]
    place = (begin - levels.start).take(levels.codes)
    place += np.arange(len(place))
    return table.take(place)


def _share(values: Floats, opens: Bools) -> Floats:
    """Mean of ``values`` over each tied block, given to every member.

    Rounding may carry the mean of equal numbers past them, and past a neighbouring block; it is held between
    the block's first and last value, so a better rank never weighs less.
    """
    starts = np.flatnonzero(opens)
    if len(starts) == len(values):
        return values
    counts = np.diff(starts, append=len(values))
    shared = values.take(starts)
    tied = np.flatnonzero(counts > 1)
    first, last = shared.take(tied), values.take((starts + counts - 1).take(tied))
    mean = np.add.reduceat(values, starts).take(tied) / counts.take(tied)
    shared[tied] = np.clip(mean, np.minimum(first, last), np.maximum(first, last))
    return np.repeat(shared, counts)
