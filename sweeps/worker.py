"""One worker of a submission: a puller over the sweep's source. ``python -m sweeps.worker FOLDER NONCE``.

The same function is the body of a local worker process and of every element of a Slurm array.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from experiments.liveness import BEAT_S, whoami
from gagar_core.records import publish_once, to_json
from sweeps.jobs import Source
from sweeps.ledger import Ledger, Submission
from sweeps.plan_source import PlanSource
from sweeps.process import must_spawn, perform, warm
from sweeps.puller import Puller, cores

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
"""End of an allocation (USR2, TERM) or a user at the keyboard: stop, and say so in the attempts."""

_LOCAL_GRACE_S = 20.0
"""For a run's last step and its checkpoint when a local sweep is cancelled."""

_MARGIN_S = 5.0
"""Of the warning before a time limit, kept for the exit files."""


class Presence:
    """A worker's file in its submission: who it is, touched while it lives, closed when it ends."""

    def __init__(self, submission: Submission, **facts: Any) -> None:
        self._path = submission.path / f"worker-{socket.gethostname()}-{os.getpid()}.json"
        self._last = time.monotonic()
        publish_once(self._path, to_json({**whoami(), **facts}))

    @property
    def name(self) -> str:
        """What this worker is called in its sweep: the path of its file below ``submissions``."""
        return f"{self._path.parent.name}/{self._path.name}"

    def beat(self) -> None:
        """Touch the file, at most once per beat."""
        if time.monotonic() - self._last >= BEAT_S:
            self._last = time.monotonic()
            self._path.touch()

    def end(self) -> None:
        """Say that this worker has ended by itself."""
        publish_once(self._path.with_suffix(".exit"), to_json({"ended": True}))


def work(folder: str, nonce: str) -> None:
    """Work a submission off until nothing is left for this worker."""
    ledger = Ledger(Path(folder))
    submission = ledger.submission(nonce)
    launcher = submission.intent["launcher"]
    facts = slurm_facts()
    presence = Presence(submission, **facts)
    source = make_source(ledger, submission, presence, facts)
    spawn = launcher["start"] == "spawn" or (launcher["start"] == "auto" and must_spawn())
    puller = Puller(
        source=source,
        slots=slots_of(launcher),
        perform=perform,
        prepare=(lambda: None) if spawn else partial(warm, _first_config(ledger)),
        stop=_stop_sign(submission),
        spawn=spawn,
        gpus=tuple(g for g in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if g),
        beat=presence.beat,
        grace_s=launcher["warn_s"] - _MARGIN_S if launcher["kind"] == "slurm" else _LOCAL_GRACE_S,
        say=lambda text: print(time.strftime("%H:%M:%S"), text, flush=True),
    )
    try:
        print(f"ended: {dict(puller.work())}", flush=True)
        _finish(folder)
    finally:
        presence.end()


def make_source(ledger: Ledger, submission: Submission, presence: Presence, facts: dict[str, Any]) -> Source:
    """The source that a sweep folder asks for."""
    retry = tuple(submission.intent["retry"])
    if not ledger.is_tuning:
        return PlanSource(ledger, submission.nonce, retry=retry, by=facts | _code(submission), limits=True)
    from sweeps.tuning_source import TuningSource

    total = int(submission.intent["trials"])
    return TuningSource(ledger, submission.nonce, presence.name, total, retry=retry, by=facts)


def _code(submission: Submission) -> dict[str, str]:
    known = submission.intent.get("code", {})
    return {"code": known["digest"]} if known else {}


def _first_config(ledger: Ledger) -> list[dict[str, Any]]:
    # variants of a sweep share their suite and policy nearly always, and a miss costs only time
    return [line["config"] for line in ledger.planned[:1]]


def slots_of(launcher: dict[str, Any]) -> int:
    """Jobs at a time in one worker."""
    if launcher["kind"] == "local":
        return int(launcher["workers"]) or cores()
    return int(launcher["slots"])


def slurm_facts() -> dict[str, Any]:
    """The job that this process belongs to, in the forms that squeue and sacct use; empty outside Slurm."""
    if "SLURM_JOB_ID" not in os.environ:
        return {}
    array, element = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    named = f"{array}_{element}" if array and element else os.environ["SLURM_JOB_ID"]
    return {"slurm_job": named, "slurm_restarts": int(os.environ.get("SLURM_RESTART_COUNT", "0"))}


def _stop_sign(submission: Submission) -> Callable[[], str]:
    received: list[int] = []
    for number in STOP_SIGNALS:
        signal.signal(number, lambda number, frame: received.append(number))

    def reason() -> str:
        if submission.cancelled:
            return "cancelled"
        return f"worker was told to stop ({signal.Signals(received[0]).name})" if received else ""

    return reason


def _finish(folder: str) -> None:
    # a process of its own: the mirror and tables need libraries that must not be loaded before a fork
    subprocess.run([sys.executable, "-m", "sweeps", "sync", folder, "--after-work"], check=False)


def main() -> None:
    """Entry of a local worker."""
    folder, nonce = sys.argv[1:]
    work(folder, nonce)


if __name__ == "__main__":
    main()
