"""Held-out evaluations of all runs, read once, in batches of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.curves import task_outcomes
from analysis.endpoints import Endpoint
from analysis.frames import Tables
from analysis.metrics import EVALS
from analysis.training import in_batches

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Evaluations:
    """``outcomes`` as from ``curves.task_outcomes``, sorted by run, step and task.

    ``medians``: (run_id, step) -> median of generated tokens of valid attempts.
    """

    outcomes: pl.DataFrame
    medians: dict[tuple[str, int], float]

    def medians_at(self, ends: Mapping[tuple[str, str], Endpoint]) -> dict[str, float]:
        """run_id -> median at its variant's endpoint, for the runs that count there."""
        chosen = {i: end.step for (_, source), end in ends.items() if source == EVALS for i in end.run_ids}
        known = {i: self.medians.get((i, step)) for i, step in chosen.items() if step is not None}
        return {run_id: median for run_id, median in known.items() if median is not None}


def read_evaluations(tables: Tables) -> Evaluations:
    """Read the held-out attempts of every run."""
    import polars as pl

    parts = list(in_batches(tables, "evals", _read)) or [_read(tables)]
    outcomes = pl.concat([part.outcomes for part in parts]).sort("run_id", "step", "task_id")
    return Evaluations(outcomes, {key: value for part in parts for key, value in part.medians.items()})


_COLUMNS = (
    "run_id", "step", "task_id", "passed", "audit_passed", "gen_tokens", "obs_tokens", "test_runs",
    "truncated", "diff_add", "diff_del", "functions_changed",
)  # fmt: skip


def _read(tables: Tables) -> Evaluations:
    import polars as pl

    held_out = (pl.col("split") == "held_out") & pl.col("valid").fill_null(True)
    frame = tables.scan("evals").filter(held_out).select(_COLUMNS).collect(engine="in-memory")
    tokens = pl.col("gen_tokens").cast(pl.Float64).median()
    medians = frame.lazy().group_by("run_id", "step").agg(tokens).collect(engine="in-memory").drop_nulls()
    return Evaluations(task_outcomes(frame), {(run, step): value for run, step, value in medians.iter_rows()})
