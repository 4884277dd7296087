"""Executions of a run: claimed by atomic create, numbered, ended by one exit file."""

from __future__ import annotations

import datetime
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.artifacts import pid_alive
from experiments.identity import run_id, variant_label
from experiments.schema import RunConfig, to_record
from gagar_core.errors import RecordsError
from gagar_core.records import SCHEMA_VERSION, RunFolder, publish_once, read_json, to_json


@dataclass(frozen=True)
class Attempt:
    """One execution of a run."""

    folder: Path
    number: int

    @property
    def path(self) -> Path:
        """``<run>/attempts/<k>``."""
        return self.folder / "attempts" / str(self.number)

    def beat(self, progress: dict[str, Any] | None = None) -> None:
        """Say "still alive": the modification time of one file, in the file server's clock.

        Its content is the last progress line as JSON, for ``status``; a reader takes a cut-off one for none.
        """
        (self.path / "beat").write_text(json.dumps(progress or {}))

    def exit(self, status: str, reason: str = "") -> None:
        """Write the exit file: ``ok``, ``failed`` or ``killed``; the first one stands."""
        publish_once(
            self.path / "exit.json", to_json({"status": status, "reason": reason, "ended_at": now()})
        )


def create_run_folder(config: RunConfig) -> Path:
    """Make ``<root>/<name>/runs/<run_id>`` with its ``config.json``; an existing one is left as it is."""
    identity = run_id(config)
    folder = Path(config.root) / config.name / "runs" / identity
    content = {
        "schema_version": SCHEMA_VERSION,
        "run_id": identity,
        "variant": variant_label(config),
        "seed": config.seed,
        "config": to_record(config),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        publish_once(folder / "config.json", to_json(content))
    except OSError as err:
        msg = f"cannot write to {folder}: {err.strerror or err}; give another root="
        raise RecordsError(msg) from err
    RunFolder(folder).config  # noqa: B018 - refuses a folder of another version before anything is touched
    return folder


def running(folder: Path) -> Attempt | None:
    """The newest attempt if it has no exit file and its process lives (seen from its own host)."""
    number = max(RunFolder(folder).attempts(), default=0)
    attempt = Attempt(folder, number)
    if not number or (attempt.path / "exit.json").exists() or not (attempt.path / "claim.json").exists():
        return None
    claimed = read_json(attempt.path / "claim.json")
    return attempt if claimed["host"] == socket.gethostname() and pid_alive(claimed["pid"]) else None


def claim(folder: Path, **by: Any) -> Attempt:
    """Take the next attempt number of a run; of two racers each gets its own, and the lower one loses."""
    number = max(RunFolder(folder).attempts(), default=0) + 1
    while True:
        attempt = Attempt(folder, number)
        try:
            attempt.path.mkdir(parents=True)
        except FileExistsError:
            number += 1
            continue
        facts = {"host": socket.gethostname(), "pid": os.getpid(), "started_at": now(), **by}
        publish_once(attempt.path / "claim.json", to_json(facts))
        attempt.beat()
        return attempt


def now() -> str:
    """UTC time for people; decisions compare file times, never this."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
