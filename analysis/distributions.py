"""Student's t, the noncentral t and the normal, to more digits than a report shows.

SciPy has all of this; the analysis works on a copied folder with NumPy, Polars and matplotlib alone, so the
few functions that it needs are here and tested against SciPy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

_NORMAL = NormalDist()
_TINY = 1e-300


def normal_quantile(p: float) -> float:
    """Standard normal quantile of ``0 < p < 1``."""
    return _NORMAL.inv_cdf(p)


def t_cdf(t: float, df: float) -> float:
    """P(T <= t) for Student's t with ``df > 0`` (not necessarily whole) degrees of freedom."""
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    square = t * t
    # of the two arguments, take the one that is not computed as 1 - (nearly 1)
    if square < df:
        half = 0.5 * incomplete_beta(square / (df + square), 0.5, df / 2)
        return 0.5 + half if t > 0 else 0.5 - half
    tail = 0.5 * incomplete_beta(df / (df + square), df / 2, 0.5)
    return 1.0 - tail if t > 0 else tail


def t_two_sided_p(t: float, df: float) -> float:
    """P(|T| >= |t|)."""
    return min(1.0, 2.0 * t_cdf(-abs(t), df))


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t for ``0 < p < 1``, to about 1e-13 relative."""
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1.0 - p, df)
    high = 2.0
    while t_cdf(-high, df) > 1.0 - p:
        high *= 2.0
    low = 0.0
    while high - low > 1e-14 * max(1.0, high):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(-middle, df) > 1.0 - p else (low, middle)
    return 0.5 * (low + high)


def noncentral_t_cdf(t: float, df: float, shift: float) -> float:
    """P(T <= t) where T = (Z + shift) / sqrt(chi2_df / df).

    The normal tail is averaged over the distribution of s = sqrt(chi2_df / df) by Gauss-Legendre quadrature
    on an interval that holds all but 1e-12 of it; absolute error below 1e-8 for df >= 1.
    """
    nodes, weights = _legendre(200)
    spread = 8.0 / math.sqrt(2.0 * df)
    low, high = max(0.0, 1.0 - spread), 1.0 + spread
    s = 0.5 * (high - low) * nodes + 0.5 * (high + low)
    log_density = (
        math.log(2.0)
        + (df / 2) * math.log(df / 2)
        - math.lgamma(df / 2)
        + (df - 1) * np.log(s)
        - df * s * s / 2
    )
    tail = np.array([0.5 * math.erfc(-z) for z in ((t * s - shift) / math.sqrt(2.0)).tolist()])
    return float(0.5 * (high - low) * np.sum(weights * np.exp(log_density) * tail))


@lru_cache(maxsize=2)
def _legendre(points: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(points)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b), by Lentz's evaluation of its continued fraction."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(1.0 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Continued fraction of I_x(a, b), as the denominator of its leading factor."""
    value, c, d = 1.0, 1.0, 0.0
    for i in range(1, 400):
        m = i // 2
        if i % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / (1.0 + term * d or _TINY)
        c = 1.0 + term / c or _TINY
        value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value
