"""Lazy tables over many runs: manifests decide which files count, attempts are resolved, damage is named.

Whatever holds values in memory (quantiles, ranks) goes through ``Tables.batches``, a bounded number of rows
at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from analysis.study import DAMAGED, Run, Sweep
from gagar_core import records
from gagar_core.errors import RecordsError
from gagar_core.records.reader import live_chunks
from gagar_core.records.schema import RUN_TABLES
from gagar_core.records.writer import polars_schema

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

Chunk = Mapping[str, Any]
"""An entry of a manifest: file, rows, first, last, attempt."""

READ_TABLES = ("steps", "trajectories", "evals", "grades")
"""Tables that a report reads; a run in which one of them is damaged is left out and named."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Steps between 0 and the last recorded one, or the end that its result names, that a run lacks."""

    run_id: str
    table: str
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Tables:
    """The readable runs of a sweep and the chunks of their tables, as the manifests stood when opened."""

    runs: tuple[Run, ...]
    chunks: Mapping[tuple[str, str], Sequence[Chunk]]
    unknown: Mapping[str, Sequence[str]]
    """table -> columns that this code does not know and leaves out."""

    def scan(self, table: str, *, keep_nan: bool = False) -> pl.LazyFrame:
        """One lazy frame over a table of all runs; order of rows undefined.

        NaN in float columns becomes null unless ``keep_nan``: Polars would otherwise sort it last and count
        it in quantiles.
        """
        import polars as pl
        import polars.selectors as cs

        files, frames = [], []
        for run in self.runs:
            chunks = self.chunks[run.run_id, table]
            if len({chunk["attempt"] for chunk in chunks}) > 1:
                frames.append(records.scan(run.path, table))
            else:
                files += [f"{run.path}/{table}/{chunk['file']}" for chunk in chunks]
        if files:
            frames.append(_scan_files(files, table))
        if not frames:
            return pl.LazyFrame(schema=polars_schema(table))
        frame = pl.concat(frames) if len(frames) > 1 else frames[0]
        return frame if keep_nan else frame.with_columns(cs.float().fill_nan(None))

    def gaps(self, table: str = "steps") -> list[Gap]:
        """Steps that no chunk covers, per run that lacks any; all, where a finished run has no table."""
        found = []
        for run in self.runs:
            chunks = self.chunks[run.run_id, table]
            covered = {step for chunk in chunks for step in range(chunk["first"], chunk["last"] + 1)}
            end = max(max(covered, default=-1), run.steps)
            missing = tuple(step for step in range(end) if step not in covered)
            if missing:
                found.append(Gap(run.run_id, table, missing))
        return found

    def batches(self, table: str, rows: int) -> Iterator[Tables]:
        """The same tables over consecutive runs that together have about ``rows`` rows of ``table``."""
        batch: list[Run] = []
        size = 0
        for run in self.runs:
            size += sum(chunk["rows"] for chunk in self.chunks[run.run_id, table])
            batch.append(run)
            if size >= rows:
                yield replace(self, runs=tuple(batch))
                batch, size = [], 0
        if batch:
            yield replace(self, runs=tuple(batch))

    def of(self, run: Run) -> Tables:
        """The tables of one run."""
        return replace(self, runs=(run,))


def open_tables(sweep: Sweep, *, thorough: bool = False) -> tuple[Sweep, Tables]:
    """Open the tables of a sweep's runs; a run whose tables cannot be read becomes ``damaged``, with why.

    Checks manifests, that every chunk is there and ends like Parquet, that no two chunks of one attempt
    overlap, and the columns of the first chunk; ``thorough`` reads every chunk from end to end. Of the tables
    that a report does not read only the first two are checked; their faults are warnings.
    """
    runs: list[Run] = []
    chunks: dict[tuple[str, str], Sequence[Chunk]] = {}
    unknown: dict[str, set[str]] = {}
    unread: list[str] = []
    for run in sweep.runs:
        if not run.readable:
            runs.append(run)
            continue
        opened, faults = _open_run(run.path, unknown, thorough)
        unread += [f"{run.run_id}: {fault}" for fault in _faults_elsewhere(run.path)]
        if faults:
            runs.append(replace(run, status=DAMAGED, reason="; ".join(faults)))
            continue
        runs.append(run)
        chunks |= {(run.run_id, table): found for table, found in opened.items()}
    readable = tuple(run for run in runs if run.readable)
    names = {table: sorted(found) for table, found in sorted(unknown.items())}
    known = set(sweep.warnings)
    warnings = (*sweep.warnings, *(text for text in unread if text not in known))
    return replace(sweep, runs=tuple(runs), warnings=warnings), Tables(readable, chunks, names)


def _open_run(
    folder: Path, unknown: dict[str, set[str]], thorough: bool
) -> tuple[dict[str, Sequence[Chunk]], list[str]]:
    opened: dict[str, Sequence[Chunk]] = {}
    faults: list[str] = []
    for table in READ_TABLES:
        try:
            opened[table] = live_chunks(folder, table)
            faults += _overlaps(folder / table, opened[table])
            for chunk in opened[table] if thorough else opened[table][:1]:
                path = folder / table / chunk["file"]
                extra = _unknown_columns(path, table)
                if thorough:
                    _read_whole(path)
                if extra:
                    unknown.setdefault(table, set()).update(extra)
        except RecordsError as err:
            faults.append(str(err))
        except (KeyError, TypeError, AttributeError) as err:
            faults.append(f"{folder / table}: the manifest is incomplete ({err!r})")
    return opened, faults


def _faults_elsewhere(folder: Path) -> list[str]:
    """What is wrong with the tables that a report does not read: they cost no run its place."""
    faults = []
    for table in RUN_TABLES:
        if table in READ_TABLES:
            continue
        try:
            faults += _overlaps(folder / table, live_chunks(folder, table))
        except RecordsError as err:
            faults.append(f"{err} (this report does not need it)")
        except (KeyError, TypeError, AttributeError) as err:
            faults.append(f"{folder / table}: the manifest is incomplete ({err!r})")
    return faults


def _read_whole(path: Path) -> None:
    """Raise ``RecordsError`` if a page inside the file is damaged: its footer does not tell."""
    import polars as pl

    try:
        pl.read_parquet(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as err:
        raise RecordsError(f"{path} is damaged inside: {str(err).splitlines()[0]}") from err


def _overlaps(folder: Path, chunks: Iterable[Chunk]) -> list[str]:
    """Two chunks of one attempt that share steps would count rows twice."""
    ordered = sorted(chunks, key=lambda c: (c["attempt"], c["first"], c["last"]))
    return [
        f"{folder}: {one['file']} and {two['file']} both hold step {two['first']} of attempt {one['attempt']}"
        for one, two in pairwise(ordered)
        if one["attempt"] == two["attempt"] and two["first"] <= one["last"]
    ]


def _unknown_columns(path: Path, table: str) -> set[str]:
    """Columns of a file that the schema lacks; raises if it is no Parquet or a known column cannot be read.

    A file may end well and still not be Parquet inside: its schema is small, and tells.
    """
    import polars as pl

    try:
        found = pl.read_parquet_schema(path)
    except (pl.exceptions.PolarsError, OSError) as err:
        raise RecordsError(f"{path} is not readable Parquet: {err}") from err
    wanted = polars_schema(table)
    wrong = [f"{name} is {dtype}" for name, dtype in found.items() if not _fits(dtype, wanted.get(name))]
    if wrong:
        raise RecordsError(f"{path} has columns of another type: {', '.join(wrong)}")
    return set(found.keys() - wanted.keys())


def _fits(found: pl.DataType, wanted: pl.DataType | None) -> bool:
    """A narrower number of the same family is widened on reading."""
    if wanted is None or found == wanted:
        return True
    both_int = found.is_signed_integer() and wanted.is_signed_integer()
    both_float = found.is_float() and wanted.is_float()
    return (both_int or both_float) and _bits(found) <= _bits(wanted)


def _bits(dtype: pl.DataType) -> int:
    return int("".join(ch for ch in str(dtype) if ch.isdigit()))


def _scan_files(files: list[str], table: str) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(
        files,
        schema=polars_schema(table),
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=pl.ScanCastOptions(integer_cast="upcast", float_cast="upcast"),
        glob=False,
    )
