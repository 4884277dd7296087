"""Differences between two variants: paired by seed block, Welch where nothing pairs, and many at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.distributions import t_quantile, t_two_sided_p
from analysis.statistics import Floats, Interval, exact_mean, sample_sd
from gagar_core.errors import InputError

_EXACT_LIMIT = 20
"""Up to this many pairs all sign flips are enumerated (2^20); above, they are drawn."""

_DRAWS = 100_000


@dataclass(frozen=True, slots=True)
class Difference:
    """variant - baseline.

    ``method`` is ``paired`` or ``welch``; ``blocks`` are the seed blocks that entered, ``unmatched`` those
    that only one side has (listed, never averaged in by a paired comparison). ``se`` and ``df`` are those of
    the t statistic, null where no interval exists; ``why`` then gives the reason.
    """

    value: float | None
    method: str
    blocks: tuple[int, ...]
    unmatched: tuple[int, ...]
    sd: float | None = None
    se: float | None = None
    df: float | None = None
    t: float | None = None
    p: float | None = None
    sign_flip_p: float | None = None
    sign_flip_floor: float | None = None
    interval: Interval | None = None
    why: str = ""

    @property
    def n(self) -> int:
        """Seed blocks that entered."""
        return len(self.blocks)


def compare(variant: Mapping[int, float], baseline: Mapping[int, float], level: float = 0.95) -> Difference:
    """Difference of two variants given as seed block -> per-run value; non-finite values count as absent.

    Paired by seed block wherever at least one block has both. Only when no block pairs is it Welch's
    comparison of two independent samples, and the result says so.
    """
    left, right = _finite(variant), _finite(baseline)
    shared = tuple(sorted(left.keys() & right.keys()))
    unmatched = tuple(sorted(left.keys() ^ right.keys()))
    if shared:
        differences = np.array([left[block] - right[block] for block in shared])
        return _paired(differences, shared, unmatched, level)
    if left and right:
        return _welch(left, right, level)
    return Difference(None, "none", (), unmatched, why="one side has no value")


def _finite(values: Mapping[int, float]) -> dict[int, float]:
    return {block: value for block, value in values.items() if math.isfinite(value)}


def _paired(
    differences: Floats, blocks: tuple[int, ...], unmatched: tuple[int, ...], level: float
) -> Difference:
    n = differences.size
    mean = exact_mean(differences)
    if n == 1:
        return Difference(mean, "paired", blocks, unmatched, why="one pair: no interval")
    sd = sample_sd(differences)
    # differences of equal floats may differ in the last bit: 0.52 - 0.50 is not 0.42 - 0.40
    if sd <= 1e-12 * float(np.abs(differences).max()):
        sd = 0.0
    se = sd / math.sqrt(n)
    half = t_quantile(0.5 + level / 2, n - 1) * se
    t, p, why = _t_test(mean, se, n - 1)
    flip, floor = sign_flip_test(differences)
    interval = Interval(mean - half, mean + half, level, "t over paired differences")
    return Difference(
        mean, "paired", blocks, unmatched, sd, se, float(n - 1), t, p, flip, floor, interval, why
    )


def _t_test(mean: float, se: float, df: float) -> tuple[float | None, float | None, str]:
    if se > 0:
        return mean / se, t_two_sided_p(mean / se, df), ""
    if mean == 0:
        return None, 1.0, "all differences are 0"
    return None, None, "zero variance: the t test is undefined"


def _welch(left: Mapping[int, float], right: Mapping[int, float], level: float) -> Difference:
    """Welch's unequal-variance comparison; no interval unless both sides have two runs."""
    x, y = np.array(list(left.values())), np.array(list(right.values()))
    value = exact_mean(x) - exact_mean(y)
    blocks = tuple(sorted(left.keys() | right.keys()))
    note = "no seed block has both variants: compared as independent samples"
    if min(x.size, y.size) < 2:
        return Difference(value, "welch", blocks, (), why=f"{note}; one run on a side: no interval")
    a, b = sample_sd(x) ** 2 / x.size, sample_sd(y) ** 2 / y.size
    if a + b == 0:
        p = 1.0 if value == 0 else None
        return Difference(value, "welch", blocks, (), 0.0, 0.0, p=p, why=f"{note}; zero variance")
    se, df = math.sqrt(a + b), (a + b) ** 2 / (a * a / (x.size - 1) + b * b / (y.size - 1))
    half = t_quantile(0.5 + level / 2, df) * se
    interval = Interval(value - half, value + half, level, "Welch t")
    p = t_two_sided_p(value / se, df)
    return Difference(value, "welch", blocks, (), None, se, df, value / se, p, interval=interval, why=note)


def sign_flip_test(differences: ArrayLike, rng: np.random.Generator | None = None) -> tuple[float, float]:
    """Two-sided p of the mean under all sign flips of paired differences, and the smallest p this n allows.

    Exact up to 20 pairs; above, 100,000 flips drawn from ``rng`` (required then), the observed one included.
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.size <= _EXACT_LIMIT:
        sums = np.zeros(1)
        for value in d:
            sums = np.concatenate([sums + value, sums - value])
        return _share_as_extreme(sums, d), min(1.0, 2.0 / 2**d.size)
    if rng is None:
        rng = np.random.default_rng(0)
    return _share_as_extreme(np.append(_drawn_sums(d, rng), d.sum()), d), 1.0 / (_DRAWS + 1)


def _drawn_sums(d: Floats, rng: np.random.Generator) -> Floats:
    """Sums under random flips, eight pairs at a time: a byte picks one of the 256 sums of its eight."""
    sums = np.zeros(_DRAWS)
    for start in range(0, d.size, 8):
        part = np.zeros(1)
        for value in d[start : start + 8]:
            part = np.concatenate([part + value, part - value])
        sums += part[rng.integers(0, part.size, _DRAWS, dtype=np.uint16)]
    return sums


def _share_as_extreme(sums: Floats, d: Floats) -> float:
    tolerance = 1e-9 * float(np.abs(d).sum())
    return float((np.abs(sums) >= abs(float(d.sum())) - tolerance).mean())


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjustment: controls the chance of any false claim in the family."""
    p = _p_values(p_values)
    order = np.argsort(p, kind="stable")
    adjusted = np.minimum(1.0, np.maximum.accumulate((p.size - np.arange(p.size)) * p[order]))
    return _back(adjusted, order)


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Step-up adjustment that controls the expected share of false claims, for screening sweeps."""
    p = _p_values(p_values)
    order = np.argsort(p, kind="stable")
    raw = p.size / (np.arange(p.size) + 1) * p[order]
    return _back(np.minimum(1.0, np.minimum.accumulate(raw[::-1])[::-1]), order)


def benjamini_yekutieli(p_values: ArrayLike) -> Floats:
    """As Benjamini-Hochberg, valid under any dependence between tests."""
    p = _p_values(p_values)
    order = np.argsort(p, kind="stable")
    harmonic = float(np.sum(1.0 / (np.arange(p.size) + 1)))
    raw = harmonic * p.size / (np.arange(p.size) + 1) * p[order]
    return _back(np.minimum(1.0, np.minimum.accumulate(raw[::-1])[::-1]), order)


def _p_values(p_values: ArrayLike) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.size and not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"p values must lie in [0, 1]; got {p.tolist()}")
    return p


def _back(adjusted: Floats, order: np.ndarray) -> Floats:
    result = np.empty_like(adjusted)
    result[order] = adjusted
    return result
