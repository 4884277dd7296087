"""Per-task views of the held-out evaluation: IQM, profile, improvement over the baseline, variance shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.bootstrap import generator, iqm_interval
from analysis.data import SweepData
from analysis.endpoints import Endpoint
from analysis.metrics import EVALS
from analysis.numbers import interval_object
from analysis.statistics import Floats, performance_profile, probability_of_improvement
from analysis.variance import variance_shares

if TYPE_CHECKING:
    import polars as pl

THRESHOLDS = tuple(i / 20 for i in range(20))
"""Where performance profiles are read off; at 1 a pass rate's profile is always 0."""


def task_section(data: SweepData) -> list[dict[str, Any]]:
    """Per variant: IQM over (run, task) pass rates, profile, P(better than baseline), variance shares."""
    matrices = {label: _matrix(data, data.ends[label, EVALS]) for label in data.sweep.variants}
    return [_variant(data, label, matrices) for label in data.sweep.variants]


def _variant(data: SweepData, label: str, matrices: dict[str, Floats | None]) -> dict[str, Any]:
    endpoint, scores = data.ends[label, EVALS], matrices[label]
    row: dict[str, Any] = {
        "label": label,
        "step": endpoint.step,
        "runs": sorted(endpoint.run_ids),
        "n_tasks": 0 if scores is None else scores.shape[1],
        "iqm": None,
        "iqm_interval": None,
        "profile": None,
        "p_improvement": None,
        "variance": _variance(data, endpoint),
        "why": "" if scores is not None else "runs were not all scored on the same tasks",
    }
    if scores is None:
        return row
    rng = generator(data.sweep.name, "iqm", label)
    row["iqm"], interval = iqm_interval(scores, rng)
    row["iqm_interval"] = interval_object(interval)
    row["profile"] = {
        "threshold": list(THRESHOLDS),
        "share": performance_profile(scores.mean(axis=0), THRESHOLDS).tolist(),
    }
    baseline = matrices.get(data.sweep.baseline or "")
    if baseline is not None and label != data.sweep.baseline and baseline.shape[1] == scores.shape[1]:
        row["p_improvement"] = probability_of_improvement(list(scores.T), list(baseline.T))
    return row


def _outcomes(data: SweepData, endpoint: Endpoint) -> pl.DataFrame | None:
    """Rows of the endpoint if every run was scored on the same tasks, else null."""
    import polars as pl

    rows = data.outcomes.filter(
        (pl.col("step") == (-1 if endpoint.step is None else endpoint.step))
        & pl.col("run_id").is_in(list(endpoint.run_ids))
    )
    per_task = rows.group_by("task_id").agg(pl.len())
    complete = bool(rows.height) and bool((per_task["len"] == len(endpoint.run_ids)).all())
    return rows if complete else None


def _matrix(data: SweepData, endpoint: Endpoint) -> Floats | None:
    """Pass rates ``(runs, tasks)``; null if runs differ in tasks."""
    rows = _outcomes(data, endpoint)
    if rows is None:
        return None
    share = np.asarray(rows["passed"].to_numpy() / rows["n"].to_numpy(), dtype=np.float64)
    return share.reshape(len(endpoint.run_ids), -1)


def _variance(data: SweepData, endpoint: Endpoint) -> dict[str, Any]:
    """Components of the held-out pass rate's variance, or why they cannot be told apart."""
    rows = _outcomes(data, endpoint)
    runs = len(endpoint.run_ids)
    if rows is None or runs < 2:
        return {"why": "needs two runs scored on the same tasks"}
    attempts = rows["n"].unique().to_list()
    tasks = rows.height // runs
    if len(attempts) > 1 or tasks < 2:
        return {"why": "needs two tasks and equally many valid attempts everywhere"}
    passed = rows["passed"].to_numpy().reshape(runs, tasks, 1)
    y = (np.arange(attempts[0]) < passed).astype(np.float64)
    found = variance_shares(y)
    return {
        "why": "",
        "n_runs": runs,
        "n_tasks": tasks,
        "n_attempts": int(attempts[0]),
        "seed": found.seed,
        "task": found.task,
        "seed_task": found.seed_task,
        "attempt": found.attempt,
        "share_seed": found.share_seed,
        "share_seed_task": found.share_seed_task,
        "share_attempt": found.share_attempt,
    }
