"""Curves of a variant as a reader sees them: mean, t bounds, n, and where runs begin to be missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from analysis.curves import Curve
from analysis.distributions import t_quantile
from analysis.statistics import Floats

CURVES = (
    "held_out_pass",
    "held_out_audit",
    "hack_gap",
    "train_pass",
    "train_tokens",
    "train_tokens_pass",
    "train_tokens_fail",
    "train_test_runs",
    "train_truncated",
)
"""Metrics that are drawn over steps."""

MAX_POINTS = 200
"""Points per curve; longer ones are averaged over buckets of equal width, and the report says so."""


def decimated(curve: Curve) -> tuple[Curve, int]:
    """The curve with at most ``MAX_POINTS`` steps, and the bucket width (1: as recorded)."""
    if curve.steps.size <= MAX_POINTS:
        return curve, 1
    width = math.ceil(int(curve.steps[-1]) / MAX_POINTS)
    return curve.bucketed(width), width


def summarise(curve: Curve) -> dict[str, Any]:
    """Mean, median, t bounds and n per step over the runs of one variant.

    ``solid_until`` is the last step that every run with any value reached: beyond it the mean is over
    survivors, and is drawn dashed.
    """
    curve, width = decimated(curve)
    present = np.isfinite(curve.values)
    kept = present.any(axis=0) if present.size else np.zeros(curve.steps.size, dtype=bool)
    steps, values, present = curve.steps[kept], curve.values[:, kept], present[:, kept]
    n = present.sum(axis=0)
    mean = np.where(present, values, 0.0).sum(axis=0) / np.maximum(n, 1)
    deviation = np.where(present, values - mean, 0.0)
    sd = np.sqrt((deviation**2).sum(axis=0) / np.maximum(n - 1, 1))
    factor = np.array([t_quantile(0.975, int(k) - 1) / math.sqrt(k) if k > 1 else np.nan for k in n])
    return {
        "bucket": width,
        "step": steps.tolist(),
        "n": n.tolist(),
        "mean": mean.tolist(),
        "median": column_medians(np.where(present, values, np.nan)).tolist(),
        "low": (mean - factor * sd).tolist(),
        "high": (mean + factor * sd).tolist(),
        "solid_until": _solid_until(steps, present),
    }


def column_medians(values: Floats) -> Floats:
    """Median of the numbers of each column, NaN left out; every column needs one."""
    ordered = np.sort(values, axis=0)  # NaN last
    n, columns = np.isfinite(ordered).sum(axis=0), np.arange(ordered.shape[1])
    return np.asarray((ordered[(n - 1) // 2, columns] + ordered[n // 2, columns]) / 2)


def _solid_until(steps: np.ndarray, present: np.ndarray) -> int | None:
    active = present.any(axis=1)
    if not active.any():
        return None
    last = [int(np.flatnonzero(row)[-1]) for row in present[active]]
    return int(steps[min(last)])
