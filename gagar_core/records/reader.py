"""Reads the tables of run folders: trusts manifests, resolves attempts, names what is missing."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gagar_core.errors import RecordsError
from gagar_core.records.files import read_json
from gagar_core.records.folder import MANIFEST, RunFolder, check_version
from gagar_core.records.schema import RUN_TABLES, column_names
from gagar_core.records.writer import polars_schema

if TYPE_CHECKING:
    import polars as pl


def scan(folder: Path, table: str, step: int | None = None) -> pl.LazyFrame:
    """Lazy frame of one table of one run; highest attempt per step, every schema column present.

    With ``step`` only that step's rows, and only the chunks that hold them are looked at.

    Raises ``RecordsError`` naming the steps of a chunk that the manifest promises and the disk does not hold.
    A table without a manifest has no rows: that is what a run that died early looks like.
    """
    import polars as pl

    schema = polars_schema(table)
    chunks = live_chunks(folder, table, step)
    if not chunks:
        return pl.LazyFrame(schema=schema)
    frame = pl.scan_parquet(
        [folder / table / chunk["file"] for chunk in chunks],
        schema=schema,
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=pl.ScanCastOptions(integer_cast="upcast", float_cast="upcast"),
        glob=False,
    )
    if step is not None:
        frame = frame.filter(pl.col("step") == step)
    if len({chunk["attempt"] for chunk in chunks}) == 1:
        return frame
    return frame.filter(pl.col("attempt") == pl.col("attempt").max().over("step"))


def read(folder: Path, table: str) -> pl.DataFrame:
    """The same, collected."""
    return scan(folder, table).collect()


def live_chunks(folder: Path, table: str, step: int | None = None) -> list[dict[str, Any]]:
    """Manifest entries of a table, or of those that hold a step, each checked to be on disk and not empty."""
    manifest = folder / table / MANIFEST
    if not manifest.exists():
        return []
    content = read_json(manifest)
    check_version(content.get("schema_version"), folder)
    chunks = list({chunk["file"]: chunk for chunk in content["chunks"]}.values())  # a file counts once
    if step is not None:
        chunks = [chunk for chunk in chunks if chunk["first"] <= step <= chunk["last"]]
    missing = [chunk for chunk in chunks if not _present(folder / table / chunk["file"])]
    if missing:
        steps = ", ".join(f"{chunk['first']}-{chunk['last']} ({chunk['file']})" for chunk in missing)
        msg = f"{folder}: table {table} lacks steps {steps}: the file is missing, empty or cut off"
        raise RecordsError(msg)
    return chunks


def missing_steps(folder: Path, table: str = "steps") -> list[int]:
    """Steps between 0 and the last recorded one that no chunk covers."""
    chunks = live_chunks(folder, table)
    covered = {step for chunk in chunks for step in range(chunk["first"], chunk["last"] + 1)}
    return [step for step in range(max(covered, default=-1) + 1) if step not in covered]


def digest(run_folder: Path) -> str:
    """Hash of everything a run found out, equal for two runs exactly when their results are identical.

    Covers the result columns of every table in a fixed order of rows; leaves out times, attempts and hosts.
    """
    total = hashlib.sha256()
    for table in RUN_TABLES:
        names = column_names(table, result_only=True)
        frame = scan(run_folder, table).select(names).collect()
        frame = frame.sort([name for name in _ORDER if name in names], maintain_order=True)
        total.update(f"{table}:{frame.height}\n".encode())
        for name in names:
            total.update(name.encode())
            for chunk in _column_bytes(frame[name]):
                total.update(chunk)
    return total.hexdigest()


_ORDER = (
    "step", "group_id", "sample_idx", "segment_idx", "split", "task_id", "attempt_idx",
    "grader_id", "is_gold", "order_seed",
)  # fmt: skip


def _column_bytes(column: pl.Series) -> list[bytes]:
    import polars as pl

    nulls = column.is_null().to_numpy().tobytes()
    if column.dtype == pl.String:
        lengths = column.fill_null("").str.len_bytes().to_numpy().tobytes()
        return [nulls, lengths, "".join(column.fill_null("").to_list()).encode()]
    if column.dtype.is_float():
        # equal values, equal bytes: one NaN pattern, and -0.0 + 0.0 = 0.0 (NumPy adds; Polars drops the sum)
        return [nulls, (column.fill_null(0.0).fill_nan(float("nan")).to_numpy() + 0.0).tobytes()]
    return [nulls, column.fill_null(False if column.dtype == pl.Boolean else 0).to_numpy().tobytes()]


def _present(path: Path) -> bool:
    # a Parquet file ends with its magic number; a zero-byte or cut-off one does not
    try:
        with path.open("rb") as stream:
            stream.seek(-4, 2)
            return stream.read(4) == b"PAR1"
    except OSError:
        return False


__all__ = ["RunFolder", "digest", "live_chunks", "missing_steps", "read", "scan"]
