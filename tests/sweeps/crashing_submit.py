"""A submission in a process of its own that may die on the way: ``crashing_submit.py ROOT PLAN.json BEGUN``.

Its worker is a real process with the real source and puller, but its jobs only write down that they were begun.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from plans import finish, recorder

import sweeps.submit
from sweeps.jobs import Job
from sweeps.launchers import Local
from sweeps.ledger import Ledger, create
from sweeps.status import look_at
from sweeps.worker import Presence, make_source


def submit(root: str, plan: str, begun: str) -> None:
    """Write the plan and start a worker on what is missing, as ``submit`` and ``resume`` do."""
    content = json.loads(Path(plan).read_text())
    popen = subprocess.Popen

    def quick(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        if command[1:3] != ["-m", "sweeps.worker"]:
            return popen(command, **options)  # git
        return popen([sys.executable, __file__, "work", *command[3:], begun], **options)

    sweeps.submit.subprocess.Popen = quick  # type: ignore[attr-defined,misc,assignment]
    status = look_at(create(Path(root) / "tiny", content["head"], content["lines"]))
    todo = sweeps.submit.missing(status)
    if todo:
        sweeps.submit.submit(status, Local(workers=1), todo=len(todo))


def work(folder: str, nonce: str, begun: str) -> None:
    """The worker."""
    from sweeps.puller import Puller

    ledger = Ledger(Path(folder))
    submission = ledger.submission(nonce)
    presence = Presence(submission)
    perform = recorder(Path(begun), done)
    Puller(make_source(ledger, submission, presence, {}), 1, perform).work()
    presence.end()


def done(job: Job) -> None:
    """Success, with what tells which attempt it was."""
    finish(job, {"status": "finished", "attempt": job.attempt.number})


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(*sys.argv[2:])
    else:
        submit(*sys.argv[1:])
