"""One number per run and step: the matrix that every table and figure starts from.

Sums and counts come from Polars; means are taken here in NumPy in a fixed order, because a multithreaded mean
differs in its last bits from one call to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.statistics import Floats

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Curve:
    """Values ``(runs, steps)`` of one metric; NaN where a run has no such step.

    ``steps`` counts updates done: an evaluation before any training is at 0.
    """

    run_ids: tuple[str, ...]
    steps: NDArray[np.int64]
    values: Floats

    def select(self, run_ids: Iterable[str]) -> Curve:
        """The rows of some runs, in the order asked for; a run that is not here gets a row of NaN."""
        wanted = tuple(run_ids)
        values = np.full((len(wanted), self.steps.size), np.nan)
        for row, run_id in enumerate(wanted):
            if run_id in self._position:
                values[row] = self.values[self._position[run_id]]
        return Curve(wanted, self.steps, values)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {run_id: i for i, run_id in enumerate(self.run_ids)}

    def recorded(self) -> list[str]:
        """Ids of the runs that have any value."""
        present = np.isfinite(self.values)
        return [run_id for run_id, row in zip(self.run_ids, present, strict=True) if row.any()]

    def at(self, step: int) -> dict[str, float]:
        """run_id -> value at a step, for the runs that have one."""
        column = np.flatnonzero(self.steps == step)
        if column.size == 0:
            return {}
        found = self.values[:, column[0]]
        return {run_id: float(v) for run_id, v in zip(self.run_ids, found, strict=True) if np.isfinite(v)}

    def window(self, step: int, width: int) -> dict[str, float]:
        """run_id -> mean over the steps in (step - width, step], for the runs that have any."""
        inside = (self.steps > step - width) & (self.steps <= step)
        means = _row_means(self.values[:, inside])
        return {run_id: float(v) for run_id, v in zip(self.run_ids, means, strict=True) if np.isfinite(v)}

    def bucketed(self, width: int) -> Curve:
        """Means over buckets ``(0, width], (width, 2 width], ...`` labelled by their end; NaN left out."""
        if self.steps.size == 0:
            return self
        bucket = np.maximum(1, -(-self.steps // width)) * width
        ends = np.unique(bucket)
        columns = [_row_means(self.values[:, bucket == end]) for end in ends]
        return Curve(self.run_ids, ends, np.stack(columns, axis=1))


def _row_means(values: Floats) -> Floats:
    present = np.isfinite(values)
    count = present.sum(axis=1)
    total = np.where(present, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def task_outcomes(frame: pl.DataFrame) -> pl.DataFrame:
    """Per run, step and held-out task: valid attempts ``n``, how many ``passed``, and the same for audit.

    In no order. Beside them stand the sums of ``_sums``, so that evaluations are read once.
    """
    import polars as pl

    audit = [
        pl.col("audit_passed").sum().cast(pl.Int64),
        pl.col("audit_passed").count().cast(pl.Int64).alias("n_audit"),
    ]
    known = frame.lazy().filter(pl.col("passed").is_not_null())
    return known.group_by("run_id", "step", "task_id").agg(*_sums(), *audit).collect(engine="in-memory")


def evaluation_curves(ids: list[str], outcomes: pl.DataFrame) -> dict[str, Curve]:
    """Curves of the metrics that come from held-out evaluations; ``outcomes`` by run, step and task."""
    import polars.selectors as cs

    curves = {
        "held_out_pass": _matrix(ids, *_task_means(outcomes, "passed", "n")),
        "held_out_audit": _matrix(ids, *_task_means(outcomes, "audit_passed", "n_audit")),
    }
    sums = [name for name in outcomes.columns if name not in ("run_id", "step", "task_id")]
    per_step = outcomes.group_by("run_id", "step").agg(cs.by_name(sums).sum()).sort("run_id", "step")
    curves |= {name: _ratio(ids, per_step, *pair) for name, pair in _TRAJECTORY_RATIOS.items()}
    return curves | _derived(curves)


def _derived(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    passed, audit = curves["held_out_pass"], curves["held_out_audit"]
    return {
        "sft_pass": _start(passed),
        "sft_audit": _start(audit),
        "hack_gap": _minus(passed, audit),
        "pass_gain": _minus(passed, _start(passed)),
        "audit_gain": _minus(audit, _start(audit)),
    }


def _start(curve: Curve) -> Curve:
    """The value at step 0, repeated at every step that the run has."""
    start = curve.values[:, curve.steps == 0]
    if start.shape[1] == 0:
        return Curve(curve.run_ids, curve.steps, np.full_like(curve.values, np.nan))
    return Curve(curve.run_ids, curve.steps, np.where(np.isfinite(curve.values), start, np.nan))


def _minus(left: Curve, right: Curve) -> Curve:
    """Difference of two curves of the same evaluations (a step that one lacks is NaN)."""
    values = np.full_like(left.values, np.nan)
    _, mine, theirs = np.intersect1d(left.steps, right.steps, return_indices=True)
    values[:, mine] = left.values[:, mine] - right.values[:, theirs]
    return Curve(left.run_ids, left.steps, values)


_TRAJECTORY_RATIOS = {
    "tokens": ("tokens", "n_tokens"),
    "tokens_pass": ("tokens_passing", "n_passing"),
    "tokens_fail": ("tokens_failing", "n_failing"),
    "test_runs": ("test_runs", "n_test_runs"),
    "truncated": ("truncated", "n_truncated"),
    "diff_lines_pass": ("diff_lines_passing", "n_diff_passing"),
    "functions_changed_pass": ("functions_changed_passing", "n_functions_passing"),
    "pass": ("passed", "n"),
}
"""metric -> numerator and denominator among the sums of ``_sums``."""


def _sums() -> list[pl.Expr]:
    """Exact integer sums over groups of trajectory-like rows (``trajectories`` or ``evals``)."""
    import polars as pl

    tokens = pl.col("gen_tokens").cast(pl.Int64) + pl.col("obs_tokens").cast(pl.Int64).fill_null(0)
    passed = pl.col("passed")
    passing, failing = pl.when(passed).then(tokens), pl.when(~passed).then(tokens)
    diff = pl.col("diff_add").cast(pl.Int64) + pl.col("diff_del").cast(pl.Int64)
    functions = pl.col("functions_changed").cast(pl.Int64)
    return [
        pl.len().cast(pl.Int64).alias("n"),
        passed.sum().cast(pl.Int64),
        tokens.sum().alias("tokens"),
        tokens.count().cast(pl.Int64).alias("n_tokens"),
        passing.sum().alias("tokens_passing"),
        passing.count().cast(pl.Int64).alias("n_passing"),
        failing.sum().alias("tokens_failing"),
        failing.count().cast(pl.Int64).alias("n_failing"),
        pl.col("test_runs").cast(pl.Int64).sum(),
        pl.col("test_runs").count().cast(pl.Int64).alias("n_test_runs"),
        pl.col("truncated").sum().cast(pl.Int64),
        pl.col("truncated").count().cast(pl.Int64).alias("n_truncated"),
        pl.when(passed).then(diff).sum().alias("diff_lines_passing"),
        pl.when(passed).then(diff).count().cast(pl.Int64).alias("n_diff_passing"),
        pl.when(passed).then(functions).sum().alias("functions_changed_passing"),
        pl.when(passed).then(functions).count().cast(pl.Int64).alias("n_functions_passing"),
    ]


def sums_per_step(frame: pl.DataFrame) -> pl.DataFrame:
    """``_sums`` of training trajectories per run and step, in no order."""
    return frame.lazy().group_by("run_id", "step").agg(*_sums()).collect(engine="in-memory")


def training_curves(ids: list[str], sums: pl.DataFrame) -> dict[str, Curve]:
    """Curves of the metrics that come from training trajectories, dropped ones included.

    ``sums`` as from ``sums_per_step``, sorted. Step s of training is labelled s + 1: the number of updates
    done after it.
    """
    import polars as pl

    done = sums.with_columns(pl.col("step") + 1)
    return {f"train_{name}": _ratio(ids, done, *pair) for name, pair in _TRAJECTORY_RATIOS.items()}


def _ratio(ids: list[str], sums: pl.DataFrame, numerator: str, denominator: str) -> Curve:
    kept = sums.filter(sums[denominator] > 0)
    return _matrix(
        ids, kept["run_id"].to_list(), kept["step"].to_numpy(), _divide(kept, numerator, denominator)
    )


def _divide(frame: pl.DataFrame, numerator: str, denominator: str) -> Floats:
    return np.asarray(frame[numerator].to_numpy() / frame[denominator].to_numpy(), dtype=np.float64)


def _task_means(
    per_task: pl.DataFrame, numerator: str, denominator: str
) -> tuple[list[str], NDArray[np.int64], Floats]:
    """Mean over tasks of per-task shares, for frames sorted by run, step, task."""
    import polars as pl

    kept = per_task.filter(per_task[denominator] > 0)
    if kept.height == 0:
        return [], np.zeros(0, dtype=np.int64), np.zeros(0)
    starts = np.flatnonzero(
        kept.select(pl.struct("run_id", "step").is_first_distinct()).to_series().to_numpy()
    )
    counts = np.diff(np.append(starts, kept.height))
    means = np.add.reduceat(_divide(kept, numerator, denominator), starts) / counts
    heads = kept[starts.tolist()]
    return heads["run_id"].to_list(), heads["step"].to_numpy(), means


def _matrix(ids: list[str], run_ids: list[str], steps: NDArray[np.int64], values: Floats) -> Curve:
    """Scatter long columns into a (runs, steps) matrix."""
    grid = np.unique(steps).astype(np.int64)
    table = np.full((len(ids), grid.size), np.nan)
    position = {run_id: i for i, run_id in enumerate(ids)}
    keep = np.array([run_id in position for run_id in run_ids], dtype=bool)
    rows = np.array([position[run_id] for run_id in run_ids if run_id in position], dtype=np.int64)
    table[rows, np.searchsorted(grid, steps[keep])] = values[keep]
    return Curve(tuple(ids), grid, table)
