"""Executions of a run: claimed by atomic create, numbered, ended by one exit file."""

from __future__ import annotations

import datetime
import errno
import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.identity import run_id, variant_label
from experiments.liveness import STALE_S, age, alive, file_time, whoami
from experiments.schema import RunConfig, check_together, to_record
from gagar_core.errors import RecordsError
from gagar_core.records import SCHEMA_VERSION, RunFolder, publish_once, read_json, to_json
from gagar_core.records.files import aside_name


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

        Its content is the last progress line as JSON, for ``status``; without ``progress`` it stays as it is.
        """
        path = self.path / "beat"
        if progress is None:
            path.touch()
            return
        aside = aside_name(path)
        aside.write_text(json.dumps(progress))  # not flushed to disk: only the newest matters
        aside.replace(path)

    def exit(self, status: str, reason: str = "", **facts: Any) -> None:
        """Write the exit file: ``ok``, ``failed`` or ``killed``; the first one stands."""
        content = {"status": status, "reason": reason, "ended_at": now(), **facts}
        publish_once(self.path / "exit.json", to_json(content))


def run_folder(config: RunConfig) -> Path:
    """``<root>/<name>/runs/<run_id>``, where the run of a checked configuration lies or will lie."""
    check_together(config)
    return Path(config.root) / config.name / "runs" / run_id(config)


def create_run_folder(config: RunConfig) -> Path:
    """Make the run's folder with its ``config.json``; an existing one is left as it is."""
    folder = run_folder(config)
    content = {
        "schema_version": SCHEMA_VERSION,
        "run_id": folder.name,
        "variant": variant_label(config),
        "seed": config.seed,
        "config": to_record(config),
    }
    try:
        if not (folder / "config.json").exists():  # one that was begun may lie where nothing can be written
            folder.mkdir(parents=True, exist_ok=True)
            publish_once(folder / "config.json", to_json(content))
    except OSError as err:
        msg = f"cannot write to {folder}: {err.strerror or err}; give another root="
        raise RecordsError(msg) from err
    RunFolder(folder).config  # noqa: B018 - refuses a folder of another version before anything is touched
    return folder


def running(folder: Path) -> Attempt | None:
    """The newest attempt if it has no exit file and its owner lives: provably, or by a fresh sign of life."""
    number = max(RunFolder(folder).attempts(), default=0)
    attempt = Attempt(folder, number)
    if not number or (attempt.path / "exit.json").exists():
        return None
    known = alive(read_json(attempt.path / "claim.json"))
    if known is None:
        known = age(attempt.path / "beat", file_time(folder)) <= STALE_S
    return attempt if known else None


def claim(folder: Path, **by: Any) -> Attempt:
    """Take the next attempt number of a run; of two racers each gets its own, and the lower one loses."""
    while True:
        attempt = try_claim(folder, max(RunFolder(folder).attempts(), default=0) + 1, **by)
        if attempt is not None:
            return attempt


def try_claim(folder: Path, number: int, **by: Any) -> Attempt | None:
    """Take exactly this attempt number, or return None if somebody else has it.

    The attempt's folder appears with its claim inside (a rename never replaces a folder that holds a
    file), so nobody ever sees an attempt without an owner.
    """
    attempts = folder / "attempts"
    aside = attempts / f".{number}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    aside.mkdir(parents=True)
    publish_once(aside / "claim.json", to_json({**whoami(), "started_at": now(), **by}))
    (aside / "beat").touch()
    try:
        aside.rename(attempts / str(number))
    except OSError as err:
        shutil.rmtree(aside)
        if err.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return None
        raise
    return Attempt(folder, number)


def now() -> str:
    """UTC time for people; decisions compare file times, never this."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
