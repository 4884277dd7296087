"""Stops the workers of a sweep, or single runs of it.

A run in hand is told by a file in its attempt, which its worker looks for, on whatever machine it is. A run
that nobody has begun is kept from beginning by claiming its next attempt: of a worker and a canceller one
gets it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from experiments.attempts import Attempt, create_run_folder, try_claim
from experiments.liveness import alive, whoami
from experiments.room import check_room
from gagar_core.errors import ConfigError, gather
from gagar_core.records import publish_once, read_json, to_json
from sweeps.ledger import Ledger
from sweeps.plan_source import config_of
from sweeps.selection import select
from sweeps.slurm_view import cancel_job, job_name
from sweeps.state import CANCEL, MISSING
from sweeps.status import Row, Status

_WITHHELD = (*MISSING, "pending")


def stop_workers(status: Status) -> int:
    """Tell every live submission to stop; return how many there were."""
    for submission in status.live:
        submission.cancel()
        for path in submission.path.glob("worker-*.json"):
            owner = read_json(path)
            if alive(owner):
                os.kill(owner["pid"], signal.SIGTERM)  # it would see the file anyway; this is quicker
        if submission.intent["launcher"]["kind"] == "slurm":
            cancel_job(job_name(status.ledger, submission))
    return len(status.live)


def cancel_runs(status: Status, selection: Sequence[str]) -> dict[str, list[str]]:
    """Cancel the selected runs; returns ids of those ``told``, ``withheld``, and ``ended`` already.

    Raises ``ConfigError`` before anything is cancelled for a selection that fits no run, for a run that is
    in the hands of no worker, and for a tuning, whose runs are those of trials.
    """
    if status.ledger.is_tuning:
        msg = f"{status.ledger.name} is a tuning: its runs belong to trials; cancel it as a whole"
        raise ConfigError(msg)
    rows = select(status.runs, selection)
    gather([] if rows else [f"{' '.join(selection)} fits no run"], headline="cannot cancel")
    gather([fault for row in rows for fault in _not_a_workers(row)], headline="cannot cancel")
    check_room(status.ledger.path / "runs")
    done: dict[str, list[str]] = {"told": [], "withheld": [], "ended": []}
    for row in rows:
        done[_cancel_run(status.ledger, row)].append(row.line["run_id"])
    return done


def _not_a_workers(row: Row) -> list[str]:
    if row.state != "running" or row.look.submission:
        return []
    return [f"{row.line['run_id']} is run by {row.look.evidence}, which no sweep started: stop it there"]


def _cancel_run(ledger: Ledger, row: Row) -> str:
    if row.state in _WITHHELD and _withhold(ledger, row):
        return "withheld"
    if row.state not in (*_WITHHELD, "running"):
        return "ended"
    newest = max(row.look.attempt, *_attempts(row))
    publish_once(Attempt(row.folder, newest).path / CANCEL, to_json(whoami()))
    return "told"


def _attempts(row: Row) -> list[int]:
    return [0, *(int(p.name) for p in (row.folder / "attempts").iterdir() if p.name.isdigit())]


def _withhold(ledger: Ledger, row: Row) -> bool:
    """Take the next attempt away from workers; False if one of them was quicker."""
    folder = create_run_folder(config_of(row.line, ledger))
    if row.state == "lost":
        Attempt(folder, row.look.attempt).exit("killed", row.look.evidence)
    attempt = try_claim(folder, row.look.attempt + 1, command="sweeps cancel")
    if attempt is None:
        return False
    publish_once(attempt.path / CANCEL, to_json(whoami()))
    attempt.exit("killed", "cancelled before it began")
    return True
