"""Straight lines through curves: slope with its interval, exponential growth, doubling time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.distributions import t_quantile
from analysis.statistics import Estimate, Interval, mean_estimate
from gagar_core.errors import InputError


@dataclass(frozen=True, slots=True)
class Line:
    """Least-squares line. ``interval`` assumes independent residuals, which one run's steps are not."""

    slope: float
    intercept: float
    se: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Growth:
    """Exponential growth over seeds: per-run log slopes per step, their mean, and what it means."""

    log_slope: Estimate
    percent_per_100: float | None
    doubling_steps: float | None


def fit_line(x: ArrayLike, y: ArrayLike, level: float = 0.95) -> Line:
    """Ordinary least squares of ``y`` on ``x``; needs two different x. Non-finite pairs are left out.

    Never report a single run's interval: residuals of one run are autocorrelated, and at lag-1 correlation
    .9 the nominal 95 % covers 34 %. The interval over seeds' slopes (``growth``) is the honest one.
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    keep = np.isfinite(a) & np.isfinite(b)
    a, b = a[keep], b[keep]
    if a.size < 2 or a.min() == a.max():
        raise InputError(f"a line needs finite values at two different x; got {a.size} values")
    centred = a - a.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (b - b.mean())) / spread
    intercept = float(b.mean() - slope * a.mean())
    if a.size == 2:
        return Line(slope, intercept, None, None)
    residual = b - intercept - slope * a
    se = math.sqrt(float(residual @ residual) / (a.size - 2) / spread)
    half = t_quantile(0.5 + level / 2, a.size - 2) * se
    return Line(slope, intercept, se, Interval(slope - half, slope + half, level, "OLS within one run"))


def log_slope(steps: ArrayLike, lengths: ArrayLike) -> float:
    """Slope of log(length) per step; lengths must be positive."""
    values = np.asarray(lengths, dtype=np.float64)
    if (values[np.isfinite(values)] <= 0).any():
        raise InputError("a log slope needs positive lengths")
    return fit_line(steps, np.log(values)).slope


def growth(log_slopes: Sequence[float]) -> Growth:
    """Mean of per-run log slopes with a t interval over runs, as percent per 100 steps and doubling time."""
    estimate = mean_estimate(np.array(log_slopes))
    if estimate.value is None:
        return Growth(estimate, None, None)
    doubling = math.log(2.0) / estimate.value if estimate.value > 0 else None
    return Growth(estimate, percent_per_100(estimate.value), doubling)


def percent_per_100(slope: float) -> float:
    """A log slope per step as percent growth per 100 steps."""
    return 100.0 * math.expm1(100.0 * slope)
