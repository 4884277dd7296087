"""Held-out pass against what it cost: steps, generated tokens, CPU seconds with grading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.artifacts import artifact_seconds
from analysis.curves import Curve
from analysis.data import SweepData
from analysis.series import summarise
from analysis.statistics import Floats
from analysis.step_signals import costs_at

AXES = {
    "step": "training steps",
    "tokens": "generated tokens, dropped trajectories included",
    "cpu_s": "CPU seconds of all phases, grading and the run's artifacts included",
}

RUN_ALONE = "CPU seconds of all phases of the run alone, grading included, artifacts left out"
"""The third axis where the cost of an artifact is not known."""

SIGNAL_POINTS = 60
"""Points per curve of a training signal."""


def learning_section(data: SweepData) -> dict[str, Any]:
    """Per variant: held-out pass over steps, the mean cost reached at each, and every run's own points.

    ``artifacts_unknown`` says why CPU seconds leave out what artifacts cost, where they do.
    """
    artifacts, unknown = artifact_seconds(data.sweep)
    axes = AXES if not unknown else AXES | {"cpu_s": f"{RUN_ALONE}: {unknown}"}
    return {
        "axes": axes,
        "artifacts_unknown": unknown,
        "variants": {label: _variant(data, label, artifacts) for label in data.sweep.variants},
    }


def _variant(data: SweepData, label: str, artifacts: Mapping[str, float]) -> dict[str, Any]:
    ids = [run.run_id for run in data.sweep.runs_of(label) if run.readable]
    curve = data.curves["held_out_pass"].select(ids)
    costs = {i: costs_at(data.signals.get(i), curve.steps, artifacts.get(i, 0.0)) for i in ids}
    found = summarise(curve)
    kept = np.isin(curve.steps, found["step"])
    for axis in ("tokens", "cpu_s"):
        table = np.array([costs[i][axis] for i in ids]).reshape(len(ids), curve.steps.size)
        table = np.where(np.isfinite(curve.values), table, np.nan)[:, kept]
        found[axis] = _column_means(table)
    found["runs"] = {
        run_id: {
            "step": curve.steps[present].tolist(),
            "pass": row[present].tolist(),
            "tokens": costs[run_id]["tokens"][present].tolist(),
            "cpu_s": costs[run_id]["cpu_s"][present].tolist(),
        }
        for run_id, row in zip(curve.run_ids, curve.values, strict=True)
        for present in [np.isfinite(row)]
        if present.any()
    }
    return found


def _column_means(table: Floats) -> list[float | None]:
    known = np.isfinite(table)
    total, n = np.where(known, table, 0.0).sum(axis=0), known.sum(axis=0)
    return [float(t / k) if k else None for t, k in zip(total, n, strict=True)]


def signal_curves(data: SweepData, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Signal -> variant -> steps, mean over runs and n, in at most 60 buckets."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        found[name] = {}
        for label in data.sweep.variants:
            curve = _signal_curve(data, label, name)
            if curve is not None:
                full = summarise(curve)
                found[name][label] = {
                    key: full[key] for key in ("bucket", "step", "n", "mean", "solid_until")
                }
                found[name][label]["bucket"] = _width(data, label)
    return found


def _width(data: SweepData, label: str) -> int:
    ids = [run.run_id for run in data.sweep.runs_of(label)]
    last = max((int(data.signals[i]["done"][-1]) for i in ids if i in data.signals), default=0)
    return max(1, -(-last // SIGNAL_POINTS))


def _signal_curve(data: SweepData, label: str, name: str) -> Curve | None:
    ids = [run.run_id for run in data.sweep.runs_of(label) if run.run_id in data.signals]
    if not any(np.isfinite(data.signals[i][name]).any() for i in ids):
        return None
    grid = np.unique(np.concatenate([data.signals[i]["done"] for i in ids])).astype(np.int64)
    values = np.full((len(ids), grid.size), np.nan)
    for row, run_id in zip(values, ids, strict=True):
        one = data.signals[run_id]
        row[np.searchsorted(grid, one["done"])] = np.where(np.isfinite(one[name]), one[name], np.nan)
    curve, width = Curve(tuple(ids), grid, values), _width(data, label)
    return curve.bucketed(width) if width > 1 else curve
