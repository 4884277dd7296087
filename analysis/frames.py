"""Lazy tables over many runs: manifests decide which files count, attempts are resolved, damage is named.

Whatever holds values in memory (quantiles, ranks) goes run by run through ``records.scan``; sums and counts
over many runs go through one streaming query on ``scan_runs``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analysis.study import DAMAGED, Run, Sweep
from gagar_core import records
from gagar_core.errors import RecordsError
from gagar_core.records.reader import live_chunks
from gagar_core.records.writer import polars_schema

if TYPE_CHECKING:
    import polars as pl

READ_TABLES = ("steps", "trajectories", "evals")
"""Tables that a report reads; a run in which one of them is damaged is left out and named."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Steps between 0 and the last recorded one that a run lacks."""

    run_id: str
    table: str
    steps: tuple[int, ...]


def check_tables(sweep: Sweep) -> Sweep:
    """The sweep, with every run whose tables cannot be read turned into a ``damaged`` one, reason given."""
    return replace(sweep, runs=tuple(_checked(run) for run in sweep.runs))


def _checked(run: Run) -> Run:
    if not run.readable:
        return run
    faults = []
    for table in READ_TABLES:
        try:
            for chunk in live_chunks(run.path, table):
                _check_footer(run, table, chunk["file"])
        except RecordsError as err:
            faults.append(str(err))
        except (KeyError, TypeError) as err:
            faults.append(f"{run.path / table}: the manifest is incomplete ({err!r})")
    return replace(run, status=DAMAGED, reason="; ".join(faults)) if faults else run


def _check_footer(run: Run, table: str, name: str) -> None:
    """A file may end well and still not be Parquet inside: read its schema, which is small."""
    import polars as pl

    path = run.path / table / name
    try:
        found = pl.read_parquet_schema(path)
    except (pl.exceptions.PolarsError, OSError) as err:
        raise RecordsError(f"{path} is not readable Parquet: {err}") from err
    wanted = polars_schema(table)
    wrong = [
        f"{column} is {dtype}" for column, dtype in found.items() if not _fits(dtype, wanted.get(column))
    ]
    if wrong:
        raise RecordsError(f"{path} has columns of another type: {', '.join(wrong)}")


def _fits(found: pl.DataType, wanted: pl.DataType | None) -> bool:
    """Unknown columns are ignored; a narrower number of the same family is widened on reading."""
    if wanted is None or found == wanted:
        return True
    both_int = found.is_integer() and wanted.is_integer()
    both_float = found.is_float() and wanted.is_float()
    return (both_int or both_float) and str(found)[0] == str(wanted)[0] and _bits(found) <= _bits(wanted)


def _bits(dtype: pl.DataType) -> int:
    return int("".join(ch for ch in str(dtype) if ch.isdigit()))


def scan_runs(runs: Iterable[Run], table: str) -> pl.LazyFrame:
    """One lazy frame over a table of many readable runs; order of rows undefined, NaN as null in floats."""
    import polars as pl
    import polars.selectors as cs

    simple, resumed = [], []
    for run in runs:
        chunks = live_chunks(run.path, table)
        if len({chunk["attempt"] for chunk in chunks}) > 1:
            resumed.append(records.scan(run.path, table))
        else:
            simple += [run.path / table / chunk["file"] for chunk in chunks]
    frames = list(resumed)
    schema = polars_schema(table)
    if simple:
        cast = pl.ScanCastOptions(integer_cast="upcast", float_cast="upcast")
        frames.append(
            pl.scan_parquet(
                simple,
                schema=schema,
                missing_columns="insert",
                extra_columns="ignore",
                cast_options=cast,
                glob=False,
            )
        )
    if not frames:
        return pl.LazyFrame(schema=schema)
    frame = pl.concat(frames) if len(frames) > 1 else frames[0]
    return frame.with_columns(cs.float().fill_nan(None))


def gaps(runs: Iterable[Run]) -> list[Gap]:
    """Missing steps of the readable runs."""
    found = []
    for run in runs:
        if run.readable and (steps := records.missing_steps(run.path)):
            found.append(Gap(run.run_id, "steps", tuple(steps)))
    return found


def count_nan(runs: Iterable[Run], table: str) -> dict[str, dict[str, int]]:
    """run_id -> column -> number of NaN or infinite entries, in the float columns of a table."""
    import polars.selectors as cs

    counts: dict[str, dict[str, int]] = {}
    for run in runs:
        frame = records.scan(run.path, table).select((~cs.float().is_finite()).sum()).collect()
        found = {name: int(frame[name].item() or 0) for name in frame.columns}
        if nonzero := {name: n for name, n in found.items() if n}:
            counts[run.run_id] = nonzero
    return counts
