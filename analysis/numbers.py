"""Numbers as the report stores them: with unit, n, policy, interval and the runs behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from analysis.comparisons import Difference
from analysis.statistics import Estimate, Interval, mean_estimate

Number = dict[str, Any]

DIGITS = 6
"""Significant digits kept in report.json, so that the last bits of a float do not change a file."""


def number(
    estimate: Estimate, *, unit: str, n_planned: int, policy: str, step: int | None, runs: Iterable[str]
) -> Number:
    """An estimate over runs as an object of ``report.json``."""
    return {
        "value": estimate.value,
        "unit": unit,
        "n_used": estimate.n,
        "n_planned": n_planned,
        "sd": estimate.sd,
        "interval": interval_object(estimate.interval),
        "why": estimate.why,
        "policy": policy,
        "step": step,
        "runs": sorted(runs),
    }


def mean_number(
    values: Mapping[str, float], *, unit: str, n_planned: int, policy: str, step: int | None
) -> Number:
    """Mean over per-run values given as run_id -> value."""
    ids = sorted(values)
    estimate = mean_estimate(np.array([values[run_id] for run_id in ids]))
    return number(estimate, unit=unit, n_planned=n_planned, policy=policy, step=step, runs=ids)


def difference_number(
    difference: Difference, *, unit: str, n_planned: int, policy: str, step: int | None, runs: Iterable[str]
) -> Number:
    """A comparison as a number object, with its test beside it."""
    return {
        "value": difference.value,
        "unit": unit,
        "n_used": difference.n,
        "n_planned": n_planned,
        "sd": difference.sd,
        "interval": interval_object(difference.interval),
        "why": difference.why,
        "policy": policy,
        "step": step,
        "runs": sorted(runs),
        "method": difference.method,
        "blocks": list(difference.blocks),
        "unmatched_blocks": list(difference.unmatched),
        "t": difference.t,
        "df": difference.df,
        "p": difference.p,
        "sign_flip_p": difference.sign_flip_p,
        "sign_flip_floor": difference.sign_flip_floor,
    }


def interval_object(interval: Interval | None) -> dict[str, Any] | None:
    """An interval as an object, or null."""
    if interval is None:
        return None
    return {"low": interval.low, "high": interval.high, "level": interval.level, "method": interval.method}


def rounded(tree: Any) -> Any:
    """The tree with every float at 6 significant digits; NaN and infinities become null.

    Whole-valued floats stay floats: a value does not change its type with its value.
    """
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded(value) for value in tree]
    if isinstance(tree, np.generic):
        return rounded(tree.item())
    if isinstance(tree, float):
        return float(f"{tree:.{DIGITS}g}") + 0.0 if math.isfinite(tree) else None
    return tree
