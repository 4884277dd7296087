"""Writes the tables of one run: one writer per run, chunks that appear whole, a manifest replaced last."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gagar_core.errors import RecordsError
from gagar_core.records.files import aside_name, publish, read_json, sync_folder, to_json
from gagar_core.records.folder import MANIFEST
from gagar_core.records.schema import RUN_TABLES, SCHEMA_VERSION, TABLES, column_names

if TYPE_CHECKING:
    import polars as pl

_POLARS = {
    "i16": "Int16", "i32": "Int32", "i64": "Int64", "f32": "Float32", "f64": "Float64",
    "bool": "Boolean", "str": "String",
}  # fmt: skip


def polars_schema(table: str) -> dict[str, Any]:
    """Column name -> Polars type of a table."""
    import polars as pl

    return {column.name: getattr(pl, _POLARS[column.dtype]) for column in TABLES[table]}


class RunWriter:
    """Buffers rows and writes them as Parquet chunks of ``chunk_steps`` steps.

    A row is a mapping of column names to values; absent columns are null, unknown ones are an error. The
    writer adds ``run_id``, ``step`` and ``attempt``. A chunk counts once the manifest names it, so a reader
    never sees half a chunk, whenever the process dies.
    """

    def __init__(self, folder: Path, run_id: str, attempt: int, chunk_steps: int = 10) -> None:
        polars_schema("steps")  # loads Polars now: the first chunk should not pay for it
        self._folder = folder
        self._run_id = run_id
        self._attempt = attempt
        self._chunk_steps = chunk_steps
        self._rows: dict[str, list[dict[str, Any]]] = {table: [] for table in RUN_TABLES}
        self._known = {table: frozenset(column_names(table)) for table in RUN_TABLES}
        self._steps_buffered = 0

    def add(self, table: str, step: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Buffer rows of one step."""
        known = self._known[table]
        buffer = self._rows[table]
        for row in rows:
            if not row.keys() <= known:
                msg = f"table {table} has no column {', '.join(sorted(row.keys() - known))}"
                raise RecordsError(msg)
            buffer.append({**row, "run_id": self._run_id, "step": step, "attempt": self._attempt})

    def end_step(self) -> None:
        """Mark a step as complete; writes a chunk when enough steps are buffered."""
        self._steps_buffered += 1
        if self._steps_buffered >= self._chunk_steps:
            self.flush()

    def flush(self) -> None:
        """Write everything buffered."""
        for table, rows in self._rows.items():
            if rows:
                self._write_chunk(table, rows)
                self._rows[table] = []
        self._steps_buffered = 0

    def _write_chunk(self, table: str, rows: list[dict[str, Any]]) -> None:
        import polars as pl

        schema = polars_schema(table)
        frame = pl.DataFrame({name: [row.get(name) for row in rows] for name in schema}, schema=schema)
        folder = self._folder / table
        folder.mkdir(parents=True, exist_ok=True)
        first, last = min(row["step"] for row in rows), max(row["step"] for row in rows)
        path = folder / f"{first:06d}-{last:06d}.a{self._attempt}.parquet"
        _write_parquet(frame, path)
        entry = {"file": path.name, "rows": len(rows), "first": first, "last": last, "attempt": self._attempt}
        _extend_manifest(folder / MANIFEST, entry)


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a single-file table (for instance ``trials``) so that it appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_parquet(frame, path)


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    aside = aside_name(path)
    frame.write_parquet(aside, compression="zstd")
    with aside.open("rb") as stream:
        os.fsync(stream.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def _extend_manifest(path: Path, entry: dict[str, Any]) -> None:
    chunks = read_json(path)["chunks"] if path.exists() else []
    chunks = [chunk for chunk in chunks if chunk["file"] != entry["file"]] + [entry]
    publish(path, to_json({"schema_version": SCHEMA_VERSION, "chunks": chunks}))
