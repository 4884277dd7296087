"""What is known of one run beyond its curves: lengths, stability, grader drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.curves import Curve
from analysis.endpoints import Endpoint
from analysis.grader_drift import Drift, drift
from analysis.metrics import EVALS, TRAINING
from analysis.run_lengths import RunLengths
from analysis.run_stability import RunStability, run_stability
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


def read_details(run: Run, lengths: RunLengths, stability: RunStability, median: float | None) -> RunDetails:
    """What is known of a run, with its grades, which are read here."""
    return RunDetails(lengths=lengths, stability=stability, drift=drift(_gold(run)), held_out_tokens=median)


def stability_at(
    run: Run, curve: Curve, ends: Mapping[tuple[str, str], Endpoint], signals: Signals | None
) -> RunStability:
    """Stability of a run, from its held-out ``curve`` and signals. One that counts is read off at the end."""
    training, evaluated = (_end(ends[run.variant, source], run) for source in (TRAINING, EVALS))
    own = curve.select([run.run_id]).values[0]
    upto = curve.steps <= evaluated if evaluated is not None else curve.steps >= 0
    return run_stability(
        curve.steps[upto].astype(float), own[upto], up_to(signals, training) if signals else None
    )


def _end(endpoint: Endpoint, run: Run) -> int | None:
    return endpoint.step if run.run_id in endpoint.run_ids else None


def _gold(run: Run) -> pl.DataFrame:
    """Judgements of the gold set; no rows if the run has none."""
    import polars as pl

    if not (run.path / "grades").is_dir():
        return pl.DataFrame()
    columns = ["step", "group_id", "sample_idx", "rank", "gold_rank", "parse_ok", "order_seed"]
    return records.scan(run.path, "grades").filter(pl.col("is_gold")).select(columns).collect()
