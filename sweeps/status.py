"""What has become of a sweep, from its files (and a scheduler). Imports nothing heavy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.liveness import STALE_S, age, alive, file_time
from gagar_core.records import RunFolder, read_json
from sweeps.ledger import Ledger, Submission
from sweeps.slurm_view import SlurmView, view_of
from sweeps.state import STATES, Look, look, progress

_WIDTH = 48  # of a variant in the table; --json has all of it

SCHEMA_VERSION = 1
"""Of ``status --json``; fields are only ever added within a version."""


@dataclass(frozen=True)
class Row:
    """One line of the plan and its state."""

    line: Mapping[str, Any]
    folder: Path
    look: Look
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """Name of the state."""
        return self.look.state


@dataclass(frozen=True)
class Status:
    """All rows of a sweep, and its submissions that are still at work."""

    ledger: Ledger
    rows: tuple[Row, ...]
    live: tuple[Submission, ...]
    view: SlurmView | None = None

    @property
    def runs(self) -> list[Row]:
        """Rows of runs."""
        return [row for row in self.rows if row.line["kind"] == "run"]

    @property
    def counts(self) -> dict[str, int]:
        """Number of runs per state, in the order of ``STATES``."""
        counted = Counter(row.state for row in self.runs)
        return {state: counted[state] for state in STATES if counted[state]}

    @property
    def complete(self) -> bool:
        """Whether every run is done; of a tuning, whether all trials that were asked for have ended."""
        if self.ledger.is_tuning:
            return self.ledger.trials_ended() >= self.ledger.trials_asked()
        return all(row.state == "done" for row in self.runs)

    @property
    def at_work(self) -> bool:
        """Whether anybody still works on it."""
        return bool(self.live) or any(row.state == "running" for row in self.rows)


def look_at(ledger: Ledger) -> Status:
    """Look at every line of the plan, and at Slurm if the sweep has been there and is not complete."""
    complete = not ledger.is_tuning and all(ledger.is_done(line) for line in ledger.lines)
    return status_of(ledger, None if complete else view_of(ledger))


@dataclass
class Watcher:
    """Looks again and again: at the files every time, at Slurm rarely."""

    ledger: Ledger
    slurm_period_s: float = 10.0
    _view: SlurmView | None = None
    _made: float = float("-inf")

    def __call__(self) -> Status:
        """The status now."""
        if time.monotonic() - self._made > self.slurm_period_s:
            self._view, self._made = view_of(self.ledger), time.monotonic()
        return status_of(self.ledger, self._view)


def status_of(ledger: Ledger, view: SlurmView | None = None) -> Status:
    """Look at every line of the plan, with the word of a view of Slurm."""
    now = file_time(ledger.path)
    submissions = ledger.submissions()
    live = tuple(s for s in submissions if is_live(s, now, view))
    newest = submissions[-1] if submissions else None
    failed: set[str] = set()
    rows = []
    for line in ledger.lines:
        row = _row(ledger, line, now, view, live, failed, newest)
        if line["kind"] == "artifact" and row.state == "failed":
            failed.add(line["digest"])
        rows.append(row)
    return Status(ledger, tuple(rows), live, view)


def is_live(submission: Submission, now: float, view: SlurmView | None = None) -> bool:
    """Whether a submission is in Slurm's queue, or has a worker that lives, or was only just started."""
    queued = view.queued(submission.nonce) if view else None
    if queued or (queued is not None and submission.ack):
        return queued
    workers = list(submission.path.glob("worker-*.json"))
    if not workers:
        return not submission.void and not submission.cancelled and _just_started(submission, now)
    return any(worker_lives(path, now) for path in workers)


def _just_started(submission: Submission, now: float) -> bool:
    ack = submission.ack
    if not ack:
        return not _never_started(submission) and age(submission.path / "intent.json", now) <= STALE_S
    known = alive(ack) if "pid" in ack else None
    return known if known is not None else age(submission.path / "ack.json", now) <= STALE_S


def _never_started(submission: Submission) -> bool:
    # A local submitter that died before it could say what it had started. Its worker may be about to report;
    # then two work on the plan, which claims allow. sbatch may be under way for longer: that is waited for.
    return submission.intent["launcher"]["kind"] == "local" and alive(submission.intent["by"]) is False


def worker_lives(path: Path, now: float) -> bool:
    """Whether the worker that wrote a presence file is still there."""
    if path.with_suffix(".exit").exists():
        return False
    known = alive(read_json(path))
    return age(path, now) <= STALE_S if known is None else known


def _row(
    ledger: Ledger,
    line: Mapping[str, Any],
    now: float,
    view: SlurmView | None,
    live: tuple[Submission, ...],
    failed: set[str],
    newest: Submission | None,
) -> Row:
    folder = ledger.folder_of(line)
    if ledger.is_done(line):
        number = max(RunFolder(folder).attempts(), default=0)
        return Row(line, folder, Look("done", "has its result", number), progress(folder, number))
    seen = look(folder, now, view.verdict if view else None)
    if seen.state == "failed" and ledger.is_done(line):  # its result came between the two looks
        return Row(line, folder, Look("done", "has its result", seen.attempt), progress(folder, seen.attempt))
    found = _with_submissions(seen, line, live, newest)
    missing = failed.intersection(line.get("needs", ()))
    if missing and found.state not in ("running", "failed"):
        found = Look("blocked", f"needs artifact {', '.join(missing)}, which failed", found.attempt)
    return Row(line, folder, found, progress(folder, found.attempt))


def _with_submissions(
    found: Look, line: Mapping[str, Any], live: tuple[Submission, ...], newest: Submission | None
) -> Look:
    """``pending`` if a submission at work will take it: one that has not already ended it itself."""
    for submission in live:
        retried = found.state in ("todo", "killed", "lost") or found.state in submission.intent["retry"]
        wanted = not submission.only or line["kind"] != "run" or line["run_id"] in submission.only
        if retried and wanted and submission.nonce != found.submission and not submission.halted:
            return Look("pending", f"submission {submission.nonce}", found.attempt, found.submission)
    if found.state == "todo" and newest is not None and newest.halted:
        return Look("skipped", newest.halted)
    return found


def to_json_data(status: Status, chosen: Sequence[Row] | None = None) -> dict[str, Any]:
    """The versioned form of ``status --json``; ``chosen`` are the runs to list, all if None."""
    head = status.ledger.head
    return {
        "schema_version": SCHEMA_VERSION,
        "sweep": status.ledger.name,
        "path": str(status.ledger.path),
        "plan_digest": head["plan_digest"],
        "question": head.get("question", ""),
        "complete": status.complete,
        "at_work": status.at_work,
        "counts": status.counts,
        "scheduler": {"asked": status.view.asked, "error": status.view.error} if status.view else {},
        "runs": [_row_data(row) for row in (status.runs if chosen is None else chosen)],
        "artifacts": [_row_data(row) for row in status.rows if row.line["kind"] == "artifact"],
        "submissions": [
            {"nonce": s.nonce, "live": s in status.live, "cancelled": s.cancelled, **_launch(s)}
            for s in status.ledger.submissions()
        ],
    }


def _launch(submission: Submission) -> dict[str, Any]:
    return {"launcher": submission.intent["launcher"]["kind"], "job": submission.ack.get("job", "")}


def _row_data(row: Row) -> dict[str, Any]:
    names = ("run_id", "artifact", "digest", "variant", "seed")
    log = row.folder / "attempts" / str(row.look.attempt) / "log.txt"
    return {
        **{name: row.line[name] for name in names if name in row.line},
        "state": row.state,
        "evidence": row.look.evidence,
        "attempt": row.look.attempt,
        "progress": dict(row.said),
        "log": str(log) if row.look.attempt else "",
    }


def summary(status: Status) -> str:
    """One line: how many runs are in which state."""
    counts = ", ".join(f"{number} {state}" for state, number in status.counts.items())
    text = f"{status.ledger.name}: {len(status.runs)} runs: {counts or 'none'}"
    if not status.ledger.is_tuning:
        return text
    return f"{text}; {status.ledger.trials_told()} of {status.ledger.trials_asked()} trials have ended"


def table(status: Status, chosen: Sequence[Row] | None = None) -> str:
    """States of all (or chosen) runs and of artifacts that are not done; ends with what to do next."""
    shown = [row for row in status.rows if row.line["kind"] == "run" or row.state != "done"]
    if chosen is not None:
        shown = list(chosen)
    cells = [("state", "run", "variant", "seed", "try", "step", "evidence"), *(_cells(row) for row in shown)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    lines = [
        "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]
    return "\n".join([*lines, summary(status), *_advice(status)])


def _cells(row: Row) -> tuple[str, ...]:
    name = row.line.get("run_id") or row.line["digest"]
    variant = row.line["variant"][:_WIDTH] or f"artifact {row.line['artifact']}"
    step = f"{row.said['step']}/{row.said.get('steps', '?')}" if "step" in row.said else ""
    evidence = "" if row.state == "done" else row.look.evidence.splitlines()[0]
    flags = row.said.get("grader_flags")
    if flags:
        evidence = "; ".join([*filter(None, [evidence]), f"grader flagged: {flags[-1]}"])
    return row.state, name, variant, str(row.line["seed"]), str(row.look.attempt or ""), step, evidence


def _advice(status: Status) -> list[str]:
    counts, name = status.counts, status.ledger.path
    if status.view and status.view.error:
        return [f"Slurm was not reached ({status.view.error}): states are from files alone"]
    if status.at_work or status.complete:
        return []
    if status.ledger.is_single:
        return ["`python -m experiments.run` with the words of a run begins it anew, or goes on with it"]
    lines = []
    if any(counts.get(state) for state in ("todo", "killed", "lost", "skipped")):
        lines.append(f"`python -m sweeps resume {name}` runs what is missing")
    if counts.get("cancelled"):
        lines.append(f"`resume {name} --retry cancelled` runs what was cancelled by name")
    if counts.get("failed") or counts.get("blocked"):
        lines.append(
            f"`python -m sweeps logs {name} RUN` shows why a run failed; `resume {name} --retry failed`"
        )
    return lines
