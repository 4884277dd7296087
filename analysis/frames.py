"""Lazy tables over many runs: manifests decide which files count, attempts are resolved, damage is named.

Whatever holds values in memory (quantiles, ranks) goes run by run through ``records.scan``; sums and counts
over many runs go through one streaming query on ``scan_runs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from analysis.study import DAMAGED, Run, Sweep
from gagar_core import records
from gagar_core.errors import RecordsError
from gagar_core.records.reader import live_chunks
from gagar_core.records.writer import polars_schema

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

READ_TABLES = ("steps", "trajectories", "evals")
"""Tables that a report reads; a run in which one of them is damaged is left out and named."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Steps between 0 and the last recorded one that a run lacks."""

    run_id: str
    table: str
    steps: tuple[int, ...]


def check_tables(sweep: Sweep, *, thorough: bool = False) -> Sweep:
    """The sweep, with every run whose tables cannot be read turned into a ``damaged`` one, reason given.

    Checks manifests, that every chunk is there and ends like Parquet, that no two chunks of one attempt
    overlap, and the columns of the first chunk; ``thorough`` checks the columns of every chunk.
    """
    return replace(sweep, runs=tuple(_checked(run, thorough) for run in sweep.runs))


def _checked(run: Run, thorough: bool) -> Run:
    if not run.readable:
        return run
    faults = [fault for table in READ_TABLES for fault in _table_faults(run.path, table, thorough)]
    return replace(run, status=DAMAGED, reason="; ".join(faults)) if faults else run


def _table_faults(folder: Path, table: str, thorough: bool) -> list[str]:
    try:
        chunks = live_chunks(folder, table)
        faults = _overlaps(folder / table, chunks)
        for chunk in chunks if thorough else chunks[:1]:
            _check_columns(folder / table / chunk["file"], table)
    except RecordsError as err:
        return [str(err)]
    except (KeyError, TypeError, AttributeError) as err:
        return [f"{folder / table}: the manifest is incomplete ({err!r})"]
    return faults


def _overlaps(folder: Path, chunks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Two chunks of one attempt that share steps would count rows twice."""
    ordered = sorted(chunks, key=lambda c: (c["attempt"], c["first"], c["last"]))
    return [
        f"{folder}: {one['file']} and {two['file']} both hold step {two['first']} of attempt {one['attempt']}"
        for one, two in pairwise(ordered)
        if one["attempt"] == two["attempt"] and two["first"] <= one["last"]
    ]


def _check_columns(path: Path, table: str) -> None:
    found, wanted = _columns(path), polars_schema(table)
    wrong = [f"{name} is {dtype}" for name, dtype in found.items() if not _fits(dtype, wanted.get(name))]
    if wrong:
        raise RecordsError(f"{path} has columns of another type: {', '.join(wrong)}")


def _columns(path: Path) -> Mapping[str, pl.DataType]:
    """A file may end well and still not be Parquet inside: its schema is small, and tells."""
    import polars as pl

    try:
        return pl.read_parquet_schema(path)
    except (pl.exceptions.PolarsError, OSError) as err:
        raise RecordsError(f"{path} is not readable Parquet: {err}") from err


def _fits(found: pl.DataType, wanted: pl.DataType | None) -> bool:
    """Unknown columns are ignored; a narrower number of the same family is widened on reading."""
    if wanted is None or found == wanted:
        return True
    both_int = found.is_signed_integer() and wanted.is_signed_integer()
    both_float = found.is_float() and wanted.is_float()
    return (both_int or both_float) and _bits(found) <= _bits(wanted)


def _bits(dtype: pl.DataType) -> int:
    return int("".join(ch for ch in str(dtype) if ch.isdigit()))


def unknown_columns(runs: Iterable[Run]) -> dict[str, list[str]]:
    """table -> columns that this code does not know, over the first chunk of each readable run."""
    found: dict[str, set[str]] = {}
    for run in runs:
        for table in READ_TABLES:
            for chunk in live_chunks(run.path, table)[:1]:
                extra = _columns(run.path / table / chunk["file"]).keys() - polars_schema(table).keys()
                if extra:
                    found.setdefault(table, set()).update(extra)
    return {table: sorted(names) for table, names in sorted(found.items())}


def scan_runs(runs: Iterable[Run], table: str, *, keep_nan: bool = False) -> pl.LazyFrame:
    """One lazy frame over a table of many readable runs; order of rows undefined.

    NaN in float columns becomes null unless ``keep_nan``: Polars would otherwise sort it last and count it
    in quantiles.
    """
    import polars as pl
    import polars.selectors as cs

    simple, frames = [], []
    for run in runs:
        chunks = live_chunks(run.path, table)
        if len({chunk["attempt"] for chunk in chunks}) > 1:
            frames.append(records.scan(run.path, table))
        else:
            simple += [run.path / table / chunk["file"] for chunk in chunks]
    if simple:
        frames.append(_scan_files(simple, table))
    if not frames:
        return pl.LazyFrame(schema=polars_schema(table))
    frame = pl.concat(frames) if len(frames) > 1 else frames[0]
    return frame if keep_nan else frame.with_columns(cs.float().fill_nan(None))


def _scan_files(files: list[Path], table: str) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(
        files,
        schema=polars_schema(table),
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=pl.ScanCastOptions(integer_cast="upcast", float_cast="upcast"),
        glob=False,
    )


def gaps(runs: Iterable[Run]) -> list[Gap]:
    """Missing steps of the readable runs."""
    found = []
    for run in runs:
        if steps := records.missing_steps(run.path):
            found.append(Gap(run.run_id, "steps", tuple(steps)))
    return found


def count_nonfinite(runs: Iterable[Run], table: str = "steps") -> dict[str, dict[str, int]]:
    """run_id -> column -> NaN or infinite entries, over the float columns of a table."""
    import polars.selectors as cs

    counts = (
        scan_runs(runs, table, keep_nan=True)
        .group_by("run_id")
        .agg((~cs.float().is_finite()).sum())
        .collect()
        .sort("run_id")
    )
    found: dict[str, dict[str, int]] = {}
    for row in counts.iter_rows(named=True):
        run_id = str(row.pop("run_id"))
        if nonzero := {name: int(n) for name, n in row.items() if n}:
            found[run_id] = nonzero
    return found
