"""Bootstrap over rows (runs) of a score matrix: for shapes without a formula, such as IQM and profiles.

Rows are resampled whole, because a run is scored on all tasks: resampling each (run, task) cell on its own,
as rliable does, treats one run's tasks as independent trainings and gives bands far too thin (a nominal 95 %
interval covered 52 % at 3 runs with a seed effect).

Statistics are computed from *counts* ``(B, n)``: how often each run was drawn. For sorted scores the count
of drawn values up to each position is ``counts @ membership``, a matrix product: no resample is sorted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from analysis.distributions import normal_quantile, t_quantile
from analysis.statistics import Floats, Interval, complete, interquartile_mean
from gagar_core.errors import InputError

BANDS, TABLES = 2_000, 10_000
"""Default numbers of resamples for curves and for tables."""

_CHUNK_VALUES = 250_000
"""Floats held at once: 2 MB stay in a core's cache, which is three times faster than chunks of 32 MB."""

_SMALL_N = 20

Statistic = Callable[[Floats, Floats], Floats]
"""(counts ``(B, n)``, scores ``(n, tasks)``) -> ``(B,)`` or ``(B, k)``."""


def generator(*names: str) -> np.random.Generator:
    """The generator that belongs to a path of names, such as (sweep, metric, variant)."""
    digest = hashlib.sha256("\0".join(names).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def row_bootstrap(
    scores: ArrayLike, statistic: Statistic, rng: np.random.Generator, resamples: int = TABLES
) -> Floats:
    """Values of a statistic ``(resamples,)`` or ``(resamples, k)`` under resampling of whole rows.

    ``scores`` is ``(runs, tasks)`` or ``(runs,)``, complete. Memory stays within a few chunks of 2 MB.
    """
    matrix = _matrix(scores)
    if resamples < 1:
        raise InputError(f"resamples must be at least 1; got {resamples}")
    size = max(1, _CHUNK_VALUES // matrix.size)
    parts = [
        statistic(_draw_counts(matrix.shape[0], min(size, resamples - start), rng), matrix)
        for start in range(0, resamples, size)
    ]
    return np.concatenate(parts)


def _matrix(scores: ArrayLike) -> Floats:
    array = complete(scores)
    if array.ndim not in (1, 2):
        raise InputError(f"scores must be (runs,) or (runs, tasks); got shape {array.shape}")
    return array[:, None] if array.ndim == 1 else array


def _draw_counts(n: int, resamples: int, rng: np.random.Generator) -> Floats:
    drawn = rng.integers(0, n, (resamples, n)) + n * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=n * resamples).reshape(resamples, n).astype(np.float64)


def mean_of_rows(counts: Floats, scores: Floats) -> Floats:
    """Plain mean over all scores."""
    return np.asarray(counts @ scores.mean(axis=1) / scores.shape[0])


def iqm_of_rows(counts: Floats, scores: Floats) -> Floats:
    """Interquartile mean over all drawn scores, equal to ``interquartile_mean`` of the repeated rows.

    With sorted values v_j and C_j drawn values among the first j, the trimmed sum is
    K v_last - sum_j (clip(C_j, cut, N - cut) - cut) (v_(j+1) - v_j) with K = N - 2 cut values kept.
    """
    n, tasks = scores.shape
    flat = scores.ravel()
    order = np.argsort(flat, kind="stable")
    values = flat[order]
    cut = flat.size // 4
    kept = flat.size - 2 * cut
    running = counts @ _membership(order // tasks, n)[:, :-1]
    np.clip(running, cut, flat.size - cut, out=running)
    return np.asarray(values[-1] - (running - cut) @ np.diff(values) / kept)


def _membership(row_of: np.ndarray, n: int) -> Floats:
    """``(n, N)``: how many of row r's scores are among the first j sorted ones."""
    indicator = np.zeros((n, row_of.size))
    indicator[row_of, np.arange(row_of.size)] = 1.0
    return np.asarray(np.cumsum(indicator, axis=1))


def profile_of_rows(thresholds: ArrayLike) -> Statistic:
    """The statistic ``(B, len(thresholds))``: share of drawn scores strictly above each threshold."""
    taus = np.asarray(thresholds, dtype=np.float64)

    def statistic(counts: Floats, scores: Floats) -> Floats:
        above = np.stack([(scores > tau).mean(axis=1) for tau in taus], axis=1)
        return np.asarray(counts @ above / scores.shape[0])

    return statistic


def percentile_interval(point: float, draws: ArrayLike, n: int, level: float = 0.95) -> Interval:
    """Percentile interval around ``point``, widened for few runs.

    A row bootstrap of n runs uses the variance with 1/n and normal tails. Below 20 runs both half-widths are
    multiplied by sqrt(n / (n - 1)) * t_(n-1) / z, which brought coverage at 3/5/10 runs from .74/.81/.91 to
    .94/.92/.96 in simulation.
    """
    if n < 2:
        raise InputError(f"an interval over runs needs at least 2 of them; got {n}")
    low, high = np.quantile(np.asarray(draws, dtype=np.float64), [0.5 - level / 2, 0.5 + level / 2])
    factor, method = small_n_factor(n, level), "row bootstrap"
    if factor > 1.0:
        method = "row bootstrap, widened for few runs"
    return Interval(
        point - factor * (point - float(low)), point + factor * (float(high) - point), level, method
    )


def small_n_factor(n: int, level: float = 0.95) -> float:
    """By how much half-widths of a row bootstrap over n runs are widened."""
    if n >= _SMALL_N:
        return 1.0
    tail = 0.5 + level / 2
    return math.sqrt(n / (n - 1)) * t_quantile(tail, n - 1) / normal_quantile(tail)


def iqm_interval(
    scores: ArrayLike, rng: np.random.Generator, resamples: int = TABLES, level: float = 0.95
) -> tuple[float, Interval | None]:
    """IQM of a ``(runs, tasks)`` matrix with its row-bootstrap interval; null for one run."""
    matrix = _matrix(scores)
    point = interquartile_mean(matrix)
    if matrix.shape[0] < 2:
        return point, None
    draws = row_bootstrap(matrix, iqm_of_rows, rng, resamples)
    return point, percentile_interval(point, draws, matrix.shape[0], level)
