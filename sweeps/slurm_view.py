"""What Slurm says about the jobs of a sweep: one squeue, and one sacct if that leaves a question open.

"Not in the queue" is evidence only when the query itself succeeded; a failed query is evidence of nothing.
sacct may be silent about jobs that it has not seen yet, that were cancelled while pending, or altogether (no
accounting): then the files decide.
"""

from __future__ import annotations

import getpass
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gagar_core.errors import LaunchError
from sweeps.ledger import Ledger, Submission

_TIMEOUT_S = 30.0
_ALIVE = ("RUNNING", "COMPLETING", "STOPPED", "SUSPENDED", "SIGNALING", "STAGE_OUT", "RESIZING")
_NOT_STARTED = (
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
)


@dataclass(frozen=True)
class Answer:
    """Output of a query, or the reason why there is none."""

    lines: tuple[str, ...] = ()
    error: str = ""


Ask = Callable[[Sequence[str]], Answer]
"""Runs a command of Slurm."""


def ask(command: Sequence[str]) -> Answer:
    """Run a query; never raises, never waits long."""
    if shutil.which(command[0]) is None:
        return Answer(error=f"there is no {command[0]} on this machine")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as err:
        return Answer(error=str(err))
    if done.returncode:
        return Answer(
            error=(done.stderr or done.stdout).strip() or f"{command[0]} ended with {done.returncode}"
        )
    return Answer(tuple(line for line in done.stdout.splitlines() if line.strip()))


@dataclass
class SlurmView:
    """One look at Slurm. ``queue`` is asked when made, sacct at the first job that is not in it."""

    names: Mapping[str, str]
    """Job name of each submission's nonce."""
    since: float
    """Time of the oldest submission, seconds since the epoch; older records (recycled ids) are not read."""
    ask: Ask = ask
    asked: list[str] = field(default_factory=list)
    """Commands run, for tests and for the curious."""

    @cached_property
    def _answer(self) -> Answer:
        names = ",".join(self.names.values())
        return self._run(
            ["squeue", "-h", "-r", "-u", getpass.getuser(), f"--name={names}", "-o", "%i|%T|%j|%r"]
        )

    @property
    def error(self) -> str:
        """Why the queue is not known; "" if it is."""
        return self._answer.error

    @cached_property
    def queue(self) -> dict[str, tuple[str, str, str]]:
        """Job id (``123`` or ``123_4``) to state, job name and reason."""
        rows = (line.split("|", 3) for line in self._answer.lines)
        return {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) == 4}

    @cached_property
    def ended(self) -> dict[str, str]:
        """Job id to state and exit code, from accounting; empty if there is none."""
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self.since - 60))
        names = ",".join(self.names.values())
        command = ["sacct", "-X", "-n", "-P", "-S", start, f"--name={names}", "-o", "JobID,State,ExitCode"]
        rows = (line.split("|") for line in self._run(command).lines)
        return {row[0]: f"{row[1]} {row[2]}" for row in rows if len(row) == 3}

    def queued(self, nonce: str) -> bool | None:
        """Whether a submission has a job in the queue; None if that is not known."""
        if self.error or nonce not in self.names:
            return None
        return any(name == self.names[nonce] for _, name, _ in self.queue.values())

    def verdict(self, claim: Mapping[str, Any]) -> tuple[str, str] | None:
        """State and evidence of the attempt whose claim was made in a job; None if Slurm does not know."""
        job = claim.get("slurm_job")
        if not job or self.error:
            return None
        if job in self.queue:
            state = self.queue[job][0]
            if state in _NOT_STARTED:
                return "killed", f"Slurm job {job} was requeued ({state})"
            return "running", f"Slurm job {job} {state}"
        told = self.ended.get(job, "")
        if not told or told.startswith((*_ALIVE, *_NOT_STARTED)):  # accounting lags behind the queue
            return None
        return "killed", f"Slurm job {job} {told}"

    def _run(self, command: Sequence[str]) -> Answer:
        self.asked.append(command[0])
        return self.ask(command)


def job_name(ledger: Ledger, submission: Submission) -> str:
    """Name under which a submission's array is known to squeue and sacct."""
    return f"{ledger.name[:24]}-{submission.nonce}"


def view_of(ledger: Ledger) -> SlurmView | None:
    """The view for a sweep; None if it has never been on Slurm."""
    on_slurm = [s for s in ledger.submissions() if s.intent["launcher"]["kind"] == "slurm" and not s.void]
    if not on_slurm:
        return None
    since = min((s.path / "intent.json").stat().st_mtime for s in on_slurm)
    return SlurmView({s.nonce: job_name(ledger, s) for s in on_slurm}, since)


def check_slurm() -> None:
    """Raise ``LaunchError`` where there is no Slurm."""
    absent = [name for name in ("sbatch", "srun", "squeue", "scancel") if shutil.which(name) is None]
    if absent:
        msg = (
            f"launcher=slurm, but there is no {', '.join(absent)} on this machine: submit from a login node "
            "of the cluster, or give launcher=local (`python -m sweeps doctor` tells more)"
        )
        raise LaunchError(msg)


def max_array() -> int:
    """Most elements of one array that this cluster takes; 0 if that is not known."""
    for line in ask(["scontrol", "show", "config"]).lines:
        key, _, value = line.partition("=")
        if key.strip() == "MaxArraySize" and value.strip().isdecimal():
            return max(1, int(value) - 1)  # the limit is on the index, and sites count it from 0 or from 1
    return 0


def cancel_job(name: str) -> None:
    """Cancel a submission's array, by name: that works also where its number was never learnt."""
    done = subprocess.run(["scancel", f"--name={name}"], capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"scancel: {done.stderr.strip()}. Running workers stop by themselves, pending ones may not"
        raise LaunchError(msg)


__all__ = ["Answer", "SlurmView", "ask", "cancel_job", "check_slurm", "job_name", "max_array", "view_of"]
