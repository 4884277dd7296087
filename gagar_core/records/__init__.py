"""The contract of a run folder: tables, atomic writing, reading, digest. Polars loads lazily."""

from gagar_core.records.files import publish, publish_once, read_json, to_json
from gagar_core.records.folder import RunFolder, find_runs
from gagar_core.records.reader import digest, missing_steps, read, scan
from gagar_core.records.schema import SCHEMA_VERSION, TABLES
from gagar_core.records.writer import RunWriter, write_table

__all__ = [
    "SCHEMA_VERSION",
    "TABLES",
    "RunFolder",
    "RunWriter",
    "digest",
    "find_runs",
    "missing_steps",
    "publish",
    "publish_once",
    "read",
    "read_json",
    "scan",
    "to_json",
    "write_table",
]
