"""A submission whose worker's jobs stop at a gate: ``gated_submit.py SWEEP SLOTS GATE``; prints its nonce."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from gates import HERE

import sweeps.submit
from sweeps.launchers import Local
from sweeps.ledger import Ledger
from sweeps.status import look_at


def main(sweep: str, slots: str, gate: str) -> None:
    """Submit everything that is missing, as the command line does, and end."""
    popen = subprocess.Popen

    def gated(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        if command[1:3] != ["-m", "sweeps.worker"]:
            return popen(command, **options)  # git
        return popen([sys.executable, str(HERE / "gated_puller.py"), *command[3:], slots, gate], **options)

    sweeps.submit.subprocess.Popen = gated  # type: ignore[attr-defined,misc,assignment]
    status = look_at(Ledger(Path(sweep)))
    todo = sweeps.submit.missing(status)
    print(sweeps.submit.submit(status, Local(workers=int(slots)), todo=len(todo)).nonce, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
