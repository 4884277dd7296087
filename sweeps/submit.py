"""Starts workers for what is missing, writes down what was started, and returns: nothing is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.liveness import alive, whoami
from gagar_core.errors import LaunchError
from gagar_core.records import publish_once, read_json, to_json
from sweeps.launchers import Local
from sweeps.ledger import Ledger, Submission
from sweeps.process import THREAD_VARIABLES
from sweeps.state import MISSING
from sweeps.status import Status

CHECKOUT = Path(__file__).resolve().parent.parent
"""Where the packages lie that a worker must import."""


def missing(status: Status, retry: Sequence[str] = ()) -> list[str]:
    """Run ids that a submission would take up now."""
    wanted = {*MISSING, *retry}
    return [row.line["run_id"] for row in status.runs if row.state in wanted]


def submit(ledger: Ledger, launcher: Any, *, retry: Sequence[str] = ()) -> Submission:
    """Start workers of one launcher on a sweep."""
    kind = "local" if isinstance(launcher, Local) else "slurm"
    submission = ledger.open_submission(
        {"launcher": {"kind": kind, **asdict(launcher)}, "retry": list(retry), "argv": sys.argv[1:]}
    )
    if kind == "local":
        start_local(ledger, submission)
    return submission


def start_local(ledger: Ledger, submission: Submission) -> None:
    """A worker process in a session of its own: it survives the shell that submitted."""
    log = (submission.path / "log.txt").open("ab")
    command = [sys.executable, "-m", "sweeps.worker", str(ledger.path.resolve()), submission.nonce]
    try:
        worker = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as err:
        publish_once(submission.path / "void.json", to_json({"reason": str(err)}))
        msg = f"cannot start a worker ({err}); the command was: {' '.join(command)}"
        raise LaunchError(msg) from err
    finally:
        log.close()
    publish_once(submission.path / "ack.json", to_json(whoami(worker.pid)))
    worker.returncode = 0  # it is not ours to wait for, so no warning when this object goes


def cancel(status: Status) -> int:
    """Tell every live submission to stop; return how many there were."""
    for submission in status.live:
        submission.cancel()
        for path in submission.path.glob("worker-*.json"):
            owner = read_json(path)
            if alive(owner):
                os.kill(owner["pid"], signal.SIGTERM)  # it would see the file anyway; this is quicker
    return len(status.live)
