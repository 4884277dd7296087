"""One of several pullers on a plan of quick jobs: ``packed_puller.py SWEEP NONCE SLOTS BAD_RUN``.

The run ``BAD_RUN`` ends its process without a word; all others write their result.
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


def main(sweep: str, nonce: str, slots: str, bad: str) -> None:
    """Work the sweep off."""

    def perform(job: Job) -> None:
        print(f"{job.identity} at work")
        if job.identity == bad:
            os._exit(9)
        finish(job)

    Puller(PlanSource(Ledger(Path(sweep)), nonce), int(slots), perform).work()


if __name__ == "__main__":
    main(*sys.argv[1:])
