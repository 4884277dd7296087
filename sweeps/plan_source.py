"""Claims jobs from a plan: artifacts first, then runs whose artifacts are there, each by an atomic create."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.attempts import Attempt, create_run_folder, try_claim
from experiments.liveness import age, file_time
from experiments.schema import RunConfig, from_record
from gagar_core.errors import LaunchError
from gagar_core.records import read_json
from sweeps.jobs import WAIT, Job, JobResult, Wait
from sweeps.ledger import Ledger
from sweeps.state import RETRIED, Look, look

MAX_LOST = 2
"""Times that one submission takes up a line whose worker died: a run may kill its worker, not all of them."""


def config_of(line: Mapping[str, Any], ledger: Ledger) -> RunConfig:
    """The configuration in a line of a plan, for the place where the sweep folder now lies."""
    try:
        return from_record({**line["config"], "root": str(ledger.root), "name": ledger.name})
    except (KeyError, TypeError, ValueError) as err:
        msg = f"the plan of {ledger.path} was made by other code ({err}): submit it under another name="
        raise LaunchError(msg) from err


def chosen_lines(ledger: Ledger, only: frozenset[str]) -> list[dict[str, Any]]:
    """The lines of a plan, or those of some of its runs and of what they need."""
    if not only:
        return ledger.planned
    runs = [line for line in ledger.planned if line.get("run_id") in only]
    needed = {digest for line in runs for digest in line["needs"]}
    return [*(line for line in ledger.artifacts if line["digest"] in needed), *runs]


class PlanSource:
    """Source over the lines of a plan that have no result yet.

    ``submission`` is the nonce that claims carry: what ended within it is not begun again by it. ``retry``
    may hold ``failed`` and ``cancelled``. ``by`` are further facts for the claims (a Slurm job id). With
    ``limits`` the submission's own ``only`` and ``max_failures`` are kept to.
    """

    def __init__(
        self,
        ledger: Ledger,
        submission: str,
        *,
        retry: tuple[str, ...] = (),
        by: Any = None,
        limits: bool = False,
    ) -> None:
        self._ledger = ledger
        self._submission = submission
        self._retry = retry
        self._by = {**(by or {}), "submission": submission}
        self._within = ledger.submission(submission)
        self._open: dict[int, dict[str, Any]] = {
            line["index"]: line for line in chosen_lines(ledger, self._within.only if limits else frozenset())
        }
        self._limits = limits
        self._unbuilt = {line["digest"]: line for line in ledger.artifacts}
        self._mine: set[int] = set()
        self._given_up: set[str] = set()
        self._beats: dict[Path, float] = {}

    def next(self) -> Job | Wait | None:
        """The first line that can be taken; ``WAIT`` while an artifact is built or a claim is in doubt."""
        if self._limits and self._within.halted:
            return None
        now = file_time(self._ledger.path)
        waiting = False
        for index, line in list(self._open.items()):
            if index in self._mine:
                waiting |= line["kind"] == "artifact"
                continue
            answer = self._try(line, now)
            if isinstance(answer, Job):
                self._mine.add(index)
                return answer
            if answer is WAIT:
                waiting = True
            else:
                del self._open[index]
                if line["kind"] == "artifact" and not self._ledger.is_done(line):
                    self._given_up.add(line["digest"])
        return WAIT if waiting else None

    def report(self, job: Job, result: JobResult) -> None:
        """Look at the line afresh: it is done now, or given up."""
        self._mine.discard(job.spec["index"])
        if self._limits and job.kind == "run" and result.status == "failed":
            self._within.note_failure(job.identity)

    def _try(self, line: Mapping[str, Any], now: float) -> Job | Wait | None:
        if self._ledger.is_done(line):
            return None
        missing = self._missing_artifacts(line)
        if missing:
            return None if missing & self._given_up else WAIT
        folder = self._ledger.folder_of(line)
        found = look(folder, now)
        if found.state == "running":
            return self._watch(line, folder, found, now)
        if self._ledger.is_done(line) or not self._may_take(found, folder):  # done since we last looked
            return None
        return self._claim(line, folder, found)

    def _missing_artifacts(self, line: Mapping[str, Any]) -> set[str]:
        awaited = self._unbuilt.keys() & set(line.get("needs", ()))
        built = {digest for digest in awaited if self._ledger.is_done(self._unbuilt[digest])}
        for digest in built:
            del self._unbuilt[digest]
        return awaited - built

    def _may_take(self, found: Look, folder: Path) -> bool:
        ours = found.attempt > 0 and found.submission == self._submission
        if found.state == "lost":
            return not ours or self._taken(folder) < MAX_LOST
        if found.state in RETRIED:
            return not ours and found.state in self._retry
        return found.state == "todo" or not ours

    def _taken(self, folder: Path) -> int:
        claims = [read_json(path) for path in (folder / "attempts").glob("[0-9]*/claim.json")]
        return sum(claim.get("submission") == self._submission for claim in claims)

    def _claim(self, line: Mapping[str, Any], folder: Path, found: Look) -> Job | Wait | None:
        if line["kind"] == "run":
            made = create_run_folder(config_of(line, self._ledger))
            if made.name != line["run_id"]:
                msg = f"run {line['run_id']} is {made.name} under this code: submit under another name="
                raise LaunchError(msg)
        if found.state == "lost":
            Attempt(folder, found.attempt).exit("killed", found.evidence, settled_by=self._submission)
        attempt = try_claim(folder, found.attempt + 1, **self._by)
        if attempt is None:  # somebody was quicker
            return WAIT if line["kind"] == "artifact" else None
        identity = line["run_id"] if line["kind"] == "run" else line["digest"]
        return Job(line["kind"], identity, attempt, {**line, "root": str(self._ledger.root)})

    def _watch(self, line: Mapping[str, Any], folder: Path, found: Look, now: float) -> Wait | None:
        # Artifacts are awaited. A run in other hands is let go once its owner has given a sign of life since
        # we came, or is provably alive; before that it may be the remains of a worker that was just killed.
        if line["kind"] == "artifact":
            return WAIT
        if found.submission == self._submission or "last seen" not in found.evidence:
            return None
        last = now - age(folder / "attempts" / str(found.attempt) / "beat", now)
        first = self._beats.setdefault(folder, last)
        return None if last > first else WAIT
