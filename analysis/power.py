"""How many seeds a comparison needs, and what a comparison with n seeds could have seen."""

from __future__ import annotations

import math
from functools import lru_cache

from analysis.distributions import noncentral_t_cdf, t_quantile
from gagar_core.errors import InputError

MAX_SEEDS = 10_000


@lru_cache(maxsize=4096)
def power(effect: float, n: int, *, alpha: float = 0.05, paired: bool = True) -> float:
    """Chance that a two-sided t test rejects at ``alpha``.

    ``effect`` is the true difference in units of the standard deviation: of the paired differences if
    ``paired`` (n pairs), else of one arm (n runs per arm).
    """
    if n < 2:
        return 0.0
    df = n - 1 if paired else 2 * n - 2
    shift = abs(effect) * math.sqrt(n if paired else n / 2)
    critical = t_quantile(1 - alpha / 2, df)
    upper = 1.0 - noncentral_t_cdf(critical, df, shift)
    return min(1.0, upper + noncentral_t_cdf(-critical, df, shift))


def detectable_effect(n: int, *, wanted: float = 0.8, alpha: float = 0.05, paired: bool = True) -> float:
    """Smallest effect, in standard deviations, found with power ``wanted``; infinite below two runs."""
    _check(wanted, alpha)
    if n < 2:
        return math.inf
    low, high = 0.0, 1.0
    while power(high, n, alpha=alpha, paired=paired) < wanted:
        high *= 2.0
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        enough = power(middle, n, alpha=alpha, paired=paired) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


def seeds_needed(
    effect: float, sd: float, *, wanted: float = 0.8, alpha: float = 0.05, paired: bool = True
) -> int | None:
    """Seeds (per arm) with which a true ``effect`` is found with power ``wanted``.

    ``sd`` is in the unit of ``effect``: of paired differences, or of one arm. Null when even 10,000 seeds
    would not do (an effect of zero never does).
    """
    _check(wanted, alpha)
    if sd < 0 or not math.isfinite(sd) or not math.isfinite(effect):
        raise InputError(f"need a finite effect and sd >= 0; got {effect} and {sd}")
    if sd == 0:
        return 2 if effect else None
    standardised = abs(effect) / sd
    if power(standardised, MAX_SEEDS, alpha=alpha, paired=paired) < wanted:
        return None
    low, high = 1, 2
    while power(standardised, high, alpha=alpha, paired=paired) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(standardised, middle, alpha=alpha, paired=paired) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return min(high, MAX_SEEDS)


def _check(wanted: float, alpha: float) -> None:
    if not 0 < alpha < wanted < 1:
        raise InputError(f"need 0 < alpha < power < 1; got alpha {alpha} and power {wanted}")
