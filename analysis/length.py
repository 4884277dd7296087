"""Lengths of trajectories: exact quantiles run by run, and what cut trajectories off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from analysis.study import Run
from gagar_core import records
from gagar_core.errors import InputError

if TYPE_CHECKING:
    import polars as pl

QUANTILES = (0.5, 0.9, 0.95, 0.99)
MIN_TAIL = 20
"""A q-quantile of a cell is reported from 20 / (1 - q) values on; below, it is null."""


def length_quantiles(
    runs: Iterable[Run],
    column: str = "gen_tokens",
    by: Sequence[str] = ("step", "passed"),
    bucket: int = 1,
    *,
    min_tail: int = MIN_TAIL,
) -> pl.DataFrame:
    """Per run and cell: n, sum, mean, max and exact linearly interpolated quantiles of a trajectory column.

    One query per run: a grouped quantile over a whole study holds every value in memory (5 GB for 50 M rows
    against 0.2 GB this way). ``bucket`` merges steps. Columns ``q50 q90 q95 q99`` are null where a cell is
    too small for them. Sorted by run and cell.
    """
    import polars as pl

    parts = [_run_quantiles(run, column, list(by), bucket, min_tail) for run in runs]
    if not parts:
        raise InputError("no run to take quantiles of")
    return pl.concat(parts)


def _run_quantiles(run: Run, column: str, by: list[str], bucket: int, min_tail: int) -> pl.DataFrame:
    import polars as pl

    value = pl.col(column).cast(pl.Int64) if _is_integer(column) else pl.col(column).cast(pl.Float64)
    if not _is_integer(column):
        value = value.fill_nan(None)
    frame = records.scan(run.path, "trajectories").filter(pl.col("valid").fill_null(True))
    if bucket > 1 and "step" in by:
        frame = frame.with_columns(pl.col("step") // bucket * bucket)
    cell = frame.select(*by, value.alias("value")).group_by(by).agg(*_summaries())
    enough = [
        pl.when(pl.col("n") >= min_tail / (1 - q)).then(pl.col(_name(q))).alias(_name(q)) for q in QUANTILES
    ]
    return (
        cell.with_columns(*enough)
        .select(pl.lit(run.run_id).alias("run_id"), pl.all())
        .sort(by, nulls_last=True)
        .collect()
    )


def _summaries() -> list[pl.Expr]:
    import polars as pl

    value = pl.col("value")
    head = [
        value.count().cast(pl.Int64).alias("n"),
        value.sum().alias("sum"),
        value.mean().alias("mean"),
        value.max().alias("max"),
    ]
    return head + [value.quantile(q, "linear").alias(_name(q)) for q in QUANTILES]


def _name(q: float) -> str:
    return f"q{round(100 * q)}"


def _is_integer(column: str) -> bool:
    found = {c.name: c.dtype for c in records.TABLES["trajectories"]}
    if column not in found or found[column] in ("str", "bool"):
        numeric = sorted(name for name, dtype in found.items() if dtype not in ("str", "bool"))
        raise InputError(f"column must be one of {', '.join(numeric)}; got {column!r}")
    return found[column].startswith("i")


def truncation_cause(
    stop_reason: str, prompt_tokens: int, response_tokens: int, response_cap: int, context: int
) -> str:
    """What ended a trajectory: ``""`` if the agent did, else the limit that was binding.

    The stop reason alone decides *whether* it was cut off; sizes only say *which* token limit was reached. A
    reply that is exactly as long as the cap but ended by itself was not truncated, and one stopped by the
    context is truncated although it is shorter than the cap.
    """
    if stop_reason == "submit":
        return ""
    if stop_reason != "token_budget":
        return stop_reason
    reached = {
        "response_cap": response_tokens >= response_cap,
        "context": prompt_tokens + response_tokens >= context,
    }
    return " and ".join(name for name, hit in reached.items() if hit) or "token_budget"


def overlong_rate(causes: Sequence[str]) -> tuple[float, dict[str, int]]:
    """Share of trajectories cut off by a limit, and how often each limit did it."""
    if not causes:
        raise InputError("no trajectory to take a rate of")
    counts = Counter(cause for cause in causes if cause)
    return sum(counts.values()) / len(causes), dict(sorted(counts.items()))
