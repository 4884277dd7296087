"""Starts workers for what is missing, writes down what was started, and returns: nothing is waited for."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments import code
from experiments.attempts import Attempt
from experiments.liveness import whoami
from experiments.room import check_room
from gagar_core.errors import LaunchError
from gagar_core.records import publish_once, to_json
from sweeps import crash
from sweeps.launchers import Local
from sweeps.ledger import Ledger, Submission
from sweeps.process import THREAD_VARIABLES
from sweeps.slurm_view import check_slurm
from sweeps.state import MISSING
from sweeps.status import Status

CHECKOUT = Path(__file__).resolve().parent.parent
"""Where the packages lie that a worker must import."""


def missing(status: Status, retry: Sequence[str] = ()) -> list[str]:
    """Run ids that a submission would take up now."""
    wanted = {*MISSING, *retry, *(("blocked",) if "failed" in retry else ())}
    return [row.line["run_id"] for row in status.runs if row.state in wanted]


def submit(
    status: Status,
    launcher: Any,
    *,
    todo: int,
    retry: Sequence[str] = (),
    trials: int = 0,
    limits: Mapping[str, Any] | None = None,
    other_code: bool = False,
) -> Submission:
    """Start workers of one launcher on ``todo`` runs (or trials, up to a total of ``trials``).

    ``limits`` are ``only`` (ids of runs) and ``max_failures``. Code that differs from that of an earlier
    submission is refused, or with ``other_code`` marked in the submission.
    """
    ledger = status.ledger
    places = [ledger.path / name for name in ("submissions", "code", "runs")]
    check_room(*places, ledger.root / "artifacts")
    local = isinstance(launcher, Local)
    if not local:
        check_slurm()
    other = check_code(ledger, allow=other_code)
    settle(status)
    settings = {"kind": "local" if local else "slurm", **asdict(launcher)}
    intent = {"launcher": settings, "retry": list(retry), "argv": sys.argv[1:], **(limits or {})}
    copy = code.snapshot(ledger.path / "code")
    crash.point("code copied")
    intent["code"] = {**code.facts(), "copy": copy.name, "other": other}
    submission = ledger.open_submission(intent | ({"trials": trials} if trials else {}))
    if local:
        start_local(ledger, submission)
    else:
        from sweeps.slurm_submit import start_slurm

        needed = math.ceil(todo / launcher.slots)
        start_slurm(ledger, submission, launcher, max(1, min(launcher.workers, needed)))
    return submission


def check_code(ledger: Ledger, *, allow: bool) -> bool:
    """Whether earlier submissions ran other code than this one would; refused unless ``allow``."""
    now = code.facts()["digest"]
    before = [s.intent["code"] for s in ledger.submissions() if "code" in s.intent and not s.void]
    if not before or any(known["digest"] == now for known in before if not known["other"]):
        return False
    first = next(known for known in before if not known["other"])
    changed = code.differences(ledger.path / "code" / first["copy"])
    if not allow:
        shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        msg = (
            f"{ledger.path} was begun with other code ({first['digest']}, now {now}; changed: {shown}), "
            "so results would not be comparable: go back to that code, or submit under another name=; with "
            "--other-code it goes on, and reports keep the runs of other code apart from the rest"
        )
        raise LaunchError(msg)
    return True


def settle(status: Status) -> None:
    """Write down the ends that only this look could see (Slurm's word), for workers that see files alone."""
    for row in status.rows:
        if row.state in ("killed", "lost") and row.look.attempt:
            facts = {"settled_by": whoami()["host"]}
            Attempt(row.folder, row.look.attempt).exit("killed", row.look.evidence, **facts)


def imports_from(submission: Submission) -> dict[str, str]:
    """Variables that make Python import the submission's copy of the code, wherever it is started."""
    if "code" not in submission.intent:
        return {}
    copy = submission.path.parent.parent / "code" / submission.intent["code"]["copy"]
    paths = [str(copy.resolve()), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def start_local(ledger: Ledger, submission: Submission) -> None:
    """A worker process in a session of its own: it survives the shell that submitted."""
    log = (submission.path / "log.txt").open("ab")
    command = [sys.executable, "-m", "sweeps.worker", str(ledger.path.resolve()), submission.nonce]
    try:
        worker = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), **imports_from(submission)},
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
    crash.point("job started")
    publish_once(submission.path / "ack.json", to_json(whoami(worker.pid)))
    crash.point("ack written")
    worker.returncode = 0  # it is not ours to wait for, so no warning when this object goes
