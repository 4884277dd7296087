"""Where things lie in a run folder, and what can be said about a run from its files alone.

<run>/config.json meta.json result.json
      attempts/<k>/claim.json beat exit.json log.txt
      <table>/<first>-<last>.a<attempt>.parquet  <table>/_manifest.json
      checkpoints/
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gagar_core.errors import RecordsError
from gagar_core.records.files import read_json
from gagar_core.records.schema import SCHEMA_VERSION

MANIFEST = "_manifest.json"


@dataclass(frozen=True)
class RunFolder:
    """Read access to the small files of one run folder; tables are read by ``records.reader``."""

    path: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """The complete configuration, with the kind of every choice."""
        content = read_json(self.path / "config.json")
        check_version(content.get("schema_version"), self.path)
        return dict(content)

    @property
    def run_id(self) -> str:
        """Identity of the configuration."""
        return str(self.config["run_id"])

    @property
    def meta(self) -> dict[str, Any]:
        """Versions, host and sandbox level of the first attempt; empty before it started."""
        return self._optional("meta.json")

    @property
    def result(self) -> dict[str, Any]:
        """The summary written when the run ended; empty while it has not."""
        return self._optional("result.json")

    @property
    def finished(self) -> bool:
        """Whether the run has its one result."""
        return (self.path / "result.json").exists()

    def attempts(self) -> list[int]:
        """Numbers of the attempts made, ascending."""
        folder = self.path / "attempts"
        return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit()) if folder.is_dir() else []

    def attempt_path(self, attempt: int) -> Path:
        """Folder of one attempt."""
        return self.path / "attempts" / str(attempt)

    def _optional(self, name: str) -> dict[str, Any]:
        path = self.path / name
        return dict(read_json(path)) if path.exists() else {}


def check_version(version: object, path: Path) -> None:
    """Refuse a folder that this code cannot read."""
    if version != SCHEMA_VERSION:
        msg = (
            f"{path} has run-folder version {version!r}; this code reads version {SCHEMA_VERSION}: "
            "use the version of the workbench that wrote it, or give another root="
        )
        raise RecordsError(msg)


def find_runs(path: Path) -> Iterator[RunFolder]:
    """Every run folder at or below a run, a sweep or a root, in order of path."""
    if not path.exists():
        msg = f"{path} does not exist; give a root, a sweep folder or a run folder"
        raise RecordsError(msg)
    if (path / "config.json").exists():
        yield RunFolder(path)
        return
    patterns = ("runs/*/config.json", "*/runs/*/config.json", "*/config.json")
    found = {config.parent for pattern in patterns for config in path.glob(pattern)}
    for folder in sorted(found):
        yield RunFolder(folder)
