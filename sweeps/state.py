"""The state of a run, computed from write-once files (and what the scheduler says), never stored.

========= ======================================================================================
done      it has its result
running   the newest attempt's owner lives (process, scheduler, or a fresh sign of life)
failed    the newest attempt ended by itself without a result: the same would happen again
killed    the newest attempt was ended from outside (signal, memory, time limit, cancel)
lost      the newest attempt's owner is gone without a word
cancelled it was ended, or kept from beginning, by a cancel that named it
pending   not begun, and a submission that will take it is alive
blocked   an artifact that it needs could not be built
skipped   not begun, because too many others failed (``--max-failures``)
todo      none of these
========= ======================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.liveness import STALE_S, age, alive
from gagar_core.records import RunFolder, read_json

STATES = ("done", "running", "pending", "todo", "killed", "lost", "cancelled", "blocked", "skipped", "failed")

MISSING = ("todo", "killed", "lost", "skipped")
"""What a second ``submit`` does by itself."""

RETRIED = ("failed", "cancelled")
"""What it does only with ``--retry``; ``failed`` stands for what a failed artifact has blocked as well."""

RETRY_WORDS = (*RETRIED, "killed", "lost", "skipped")
"""Words for ``--retry``; the last three are done anyway."""

CANCEL = "cancel.json"
"""In the folder of an attempt: somebody wants this run, and no other, to end."""

Verdict = tuple[str, str]
"""Name of a state and the evidence for it."""

Scheduler = Callable[[Mapping[str, Any]], Verdict | None]
"""What the scheduler knows about the owner of a claim: running, killed, or None."""


@dataclass(frozen=True)
class Look:
    """One look at the newest attempt of a run or artifact."""

    state: str
    evidence: str
    attempt: int = 0
    submission: str = ""


def newest_attempt(folder: Path) -> int:
    """Number of the newest attempt, 0 if there is none."""
    return max(RunFolder(folder).attempts(), default=0)


def look(folder: Path, now: float, scheduler: Scheduler | None = None) -> Look:
    """State of a run folder (or of an artifact's attempts) that has no result; ``todo`` if never begun.

    ``now`` is the file server's time (``liveness.file_time``).
    """
    number = newest_attempt(folder)
    if not number:
        return Look("todo", "not begun")
    path = folder / "attempts" / str(number)
    claim = read_json(path / "claim.json")
    state, evidence = _ended(path) or _owner_state(path, claim, now, scheduler)
    if state in ("killed", "lost") and (path / CANCEL).exists():
        state = "cancelled"
    return Look(state, evidence, number, str(claim.get("submission", "")))


def _ended(path: Path) -> Verdict | None:
    if not (path / "exit.json").exists():  # asked first: it may appear at any moment, whole
        return None
    ended = read_json(path / "exit.json")
    status = "failed" if ended["status"] == "ok" else ended["status"]
    return status, ended["reason"] or "ended without a result"


def _owner_state(path: Path, claim: Mapping[str, Any], now: float, scheduler: Scheduler | None) -> Verdict:
    known = alive(claim)
    owner = f"process {claim['pid']} on {claim['host']}"
    if known:
        return "running", owner
    told = scheduler(claim) if scheduler else None
    if told is not None and (known is None or told[0] != "running"):
        return told
    if known is False:
        return "lost", f"{owner} is gone"
    silent = age(path / "beat", now)
    if silent <= STALE_S:
        return "running", f"{owner}, last seen {silent:.0f} s ago"
    return "lost", f"{owner} has been silent for {silent:.0f} s"


def progress(folder: Path, attempt: int) -> dict[str, Any]:
    """What the newest attempt last said about itself (``step``, ``steps``, ``pass_rate``, ...)."""
    try:
        said = json.loads((folder / "attempts" / str(attempt) / "beat").read_text() or "{}")
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
