"""What is known of one run beyond its curves: lengths, stability, grader drift. Read run by run.

Whatever needs all rows at once (quantiles, ranks, correlations) is done here on one run, so that memory does
not grow with the study.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.curves import Curve
from analysis.endpoints import Endpoint
from analysis.frames import Tables
from analysis.grader_drift import Drift, drift
from analysis.metrics import EVALS, TRAINING
from analysis.rows import Rows, read_rows
from analysis.run_lengths import RunLengths, run_lengths
from analysis.run_stability import RunStability, run_stability
from analysis.signals import expected_kept
from analysis.step_signals import Signals, up_to
from analysis.study import Run
from gagar_core import records

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class RunDetails:
    """Summaries of one run; ``held_out_tokens`` is the median of generated tokens in its last evaluation."""

    lengths: RunLengths
    stability: RunStability
    drift: list[Drift]
    held_out_tokens: float | None


def read_details(
    run: Run,
    curves: Mapping[str, Curve],
    ends: Mapping[tuple[str, str], Endpoint],
    signals: Signals | None,
    median_tokens: float | None,
) -> RunDetails:
    """Read and summarise a run. One that counts in its variant is read off where its variant is."""
    training, evaluated = (_end(ends[run.variant, source], run) for source in (TRAINING, EVALS))
    rows = read_rows(run)
    loss = str((run.config.get("loss") or {}).get("kind", "token_mean"))
    curve = curves["held_out_pass"]
    own = curve.select([run.run_id]).values[0]
    upto = curve.steps <= evaluated if evaluated is not None else curve.steps >= 0
    stability = run_stability(
        curve.steps[upto].astype(float), own[upto], up_to(signals, training) if signals else None
    )
    stability.values.update(_expected(rows, signals))
    return RunDetails(
        lengths=run_lengths(rows, training, loss),
        stability=stability,
        drift=drift(_gold(run)),
        held_out_tokens=median_tokens,
    )


def _end(endpoint: Endpoint, run: Run) -> int | None:
    return endpoint.step if run.run_id in endpoint.run_ids else None


def _expected(rows: Rows, signals: Signals | None) -> dict[str, float]:
    """Share of mixed groups that the tasks' pass rates over the run imply, at the recorded group size."""
    import numpy as np

    if len(rows) == 0 or signals is None:
        return {}
    groups = float(np.nansum(signals["groups_sampled"]))
    sampled = float(np.nansum(signals["traj_sampled"]))
    if groups <= 0 or sampled <= 0:
        return {}
    _, codes = np.unique(rows.task, return_inverse=True)
    share = expected_kept(np.bincount(codes, rows.passed), np.bincount(codes), sampled / groups)
    return {} if share is None else {"expected_kept": share}


def _gold(run: Run) -> pl.DataFrame:
    """Judgements of the gold set; no rows if the run has none."""
    import polars as pl

    if not (run.path / "grades").is_dir():
        return pl.DataFrame()
    columns = ["step", "group_id", "sample_idx", "rank", "gold_rank", "parse_ok", "order_seed"]
    return records.scan(run.path, "grades").filter(pl.col("is_gold")).select(columns).collect()


def held_out_medians(tables: Tables, ends: Mapping[tuple[str, str], Endpoint]) -> dict[str, float]:
    """run_id -> median of generated tokens in the held-out evaluation at its variant's endpoint."""
    import polars as pl

    wanted = [(i, end.step) for (_, source), end in ends.items() if source == EVALS for i in end.run_ids]
    at = pl.LazyFrame(wanted, schema={"run_id": pl.String, "step": pl.Int32}, orient="row")
    found = (
        tables.scan("evals")
        .filter((pl.col("split") == "held_out") & pl.col("valid").fill_null(True))
        .join(at, on=["run_id", "step"], how="semi")
        .group_by("run_id")
        .agg(pl.col("gen_tokens").cast(pl.Float64).median())
        .collect()
    )
    return {run_id: value for run_id, value in found.iter_rows() if value is not None}
