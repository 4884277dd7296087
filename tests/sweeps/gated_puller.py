"""A puller as a process of its own, whose jobs stop at a gate: ``gated_puller.py SWEEP NONCE SLOTS GATE``.

Every job writes its identity to the pipe ``GATE/begun`` and then waits for one byte from ``GATE/go``, so that
a test decides what happens in which order, without sleeping.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from plans import finish

from sweeps.jobs import Job
from sweeps.ledger import Ledger
from sweeps.plan_source import PlanSource
from sweeps.puller import Puller
from sweeps.worker import Presence, make_source


def main(sweep: str, nonce: str, slots: str, gate: str) -> None:
    """Work the sweep off, one gated job at a time in each slot."""

    def perform(job: Job) -> None:
        with (Path(gate) / "begun").open("w") as begun:
            begun.write(f"{job.identity} {job.attempt.number} {os.getpid()}\n")
        with (Path(gate) / "go").open("rb", buffering=0) as go:
            go.read(1)
        finish(job, {"status": "finished", "last": {"held_out_pass": 0.5}} if ledger.is_tuning else None)

    ledger = Ledger(Path(sweep))
    if ledger.is_tuning:
        submission = ledger.submission(nonce)
        source = make_source(ledger, submission, Presence(submission), {})
    else:
        source = PlanSource(ledger, nonce)
    print(dict(Puller(source, int(slots), perform).work()))


if __name__ == "__main__":
    main(*sys.argv[1:])
