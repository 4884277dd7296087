"""The test's side of ``gated_puller.py``."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from sweeps.cli import main

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]


class Done(NamedTuple):
    """How a call of the command line ended."""

    returncode: int
    stdout: str
    stderr: str


def run_cli(*words: str) -> Done:
    """``python -m sweeps`` in this process (a process of its own would spend a second on imports)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return Done(code, out.getvalue(), err.getvalue())


class Begun(NamedTuple):
    """A job that stands at the gate."""

    identity: str
    attempt: int
    pid: int


class Gate:
    """Two named pipes, opened for both directions so that neither side meets an end of file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        for name in ("begun", "go"):
            os.mkfifo(folder / name)
        self._begun = os.fdopen(os.open(folder / "begun", os.O_RDWR), "r", buffering=1)
        self._go = os.open(folder / "go", os.O_RDWR)

    def close(self) -> None:
        """Give the pipes back."""
        self._begun.close()
        os.close(self._go)

    def next(self) -> Begun:
        """Wait for the next job to arrive at the gate."""
        identity, attempt, pid = self._begun.readline().split()
        return Begun(identity, int(attempt), int(pid))

    def open(self, number: int = 1) -> None:
        """Let jobs pass."""
        os.write(self._go, b"." * number)

    def puller(self, sweep: Path, nonce: str, slots: int = 1) -> subprocess.Popen[str]:
        """Start a puller whose jobs stop here."""
        command = [
            sys.executable,
            str(HERE / "gated_puller.py"),
            str(sweep),
            nonce,
            str(slots),
            str(self.folder),
        ]
        env = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{HERE}"}
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
