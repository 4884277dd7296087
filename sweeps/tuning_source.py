"""Jobs of a tuning: asks for a trial, hands out its runs, one per seed block, and tells their mean."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.attempts import Attempt, create_run_folder, try_claim
from experiments.liveness import file_time
from experiments.schema import RunConfig
from gagar_core.records import RunFolder
from sweeps.jobs import WAIT, Job, JobResult, Wait
from sweeps.ledger import Ledger
from sweeps.plan_source import PlanSource
from sweeps.state import look
from sweeps.status import worker_lives
from sweeps.study import Asked, Study
from sweeps.tuning import OBJECTIVE, trial_config


@dataclass
class TrialInHand:
    """A trial that this worker runs. ``values`` by seed; a seed in ``started`` is in this worker's slots."""

    asked: Asked
    runs: dict[int, RunConfig]
    values: dict[int, float] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    fault: str = ""
    killed: bool = False

    @property
    def settled(self) -> bool:
        """Whether it can be told: all values are there, or one run failed and none is under way."""
        return len(self.values) == len(self.runs) or (bool(self.fault) and not self.started)


class TuningSource:
    """Source over a study: artifacts, then runs of this worker's trials, then new trials up to ``total``.

    A worker finishes its trials before it asks for another one; while others run the last trials it waits,
    because their points are asked again if they die.
    """

    def __init__(
        self,
        ledger: Ledger,
        submission: str,
        worker: str,
        total: int,
        *,
        by: Any = None,
        retry: tuple[str, ...] = (),
    ) -> None:
        self._ledger = ledger
        self._worker = worker
        self._total = total
        self._by = {**(by or {}), "submission": submission}
        self._artifacts = PlanSource(ledger, submission, retry=retry, by=by)
        self._study = Study(ledger)
        self._hand: list[TrialInHand] = []

    def next(self) -> Job | Wait | None:
        """A run of a trial in hand, or of a new one."""
        artifact = self._artifacts.next()
        if artifact is not None:
            return artifact
        if any(not self._ledger.is_done(line) for line in self._ledger.artifacts):
            return None  # an artifact failed: no trial can run
        for trial in list(self._hand):
            job = self._next_run(trial)
            self._settle(trial)
            if job is not None:
                return job
        return self._ask()

    def report(self, job: Job, result: JobResult) -> None:
        """Take the value of a run, or the reason why it has none."""
        if job.kind == "artifact":
            self._artifacts.report(job, result)
            return
        for trial in list(self._hand):
            if trial.asked.number == job.spec["trial"]:
                trial.started.discard(job.spec["seed"])
                self._take(trial, job.spec["seed"], job.attempt.folder, result)
                self._settle(trial)

    def _ask(self) -> Job | Wait | None:
        while True:
            asked = self._study.ask(self._total, self._worker, self._lives)
            if asked is None:
                return WAIT if self._others_run() else None
            seeds = self._ledger.head["seeds"]
            runs = {seed: trial_config(self._ledger, asked.choice, asked.settings, seed) for seed in seeds}
            trial = TrialInHand(asked, runs)
            self._hand.append(trial)
            job = self._next_run(trial)
            self._settle(trial)  # a point that was tried before is known at once
            if job is not None:
                return job
            if trial in self._hand:  # its runs are in other hands
                return WAIT

    def _others_run(self) -> bool:
        mine = len(self._hand)
        return self._study.counts().running > mine

    def _lives(self, worker: str) -> bool:
        if worker == self._worker:
            return True
        path = self._ledger.path / "submissions" / worker
        return path.exists() and worker_lives(path, file_time(self._ledger.path))

    def _next_run(self, trial: TrialInHand) -> Job | None:
        for seed, config in trial.runs.items():
            if seed in trial.values or seed in trial.started or trial.fault:
                continue
            folder = create_run_folder(config)
            if RunFolder(folder).finished:
                self._take(trial, seed, folder, JobResult("ok"))
                continue
            job = self._claim(trial, seed, folder)
            if job is not None:
                trial.started.add(seed)
                return job
        return None

    def _claim(self, trial: TrialInHand, seed: int, folder: Path) -> Job | None:
        found = look(folder, file_time(self._ledger.path))
        if found.state == "running":
            return None  # the same point in another trial: its result is ours as well
        if found.state == "failed":
            trial.fault = f"seed {seed}: {found.evidence}"
            return None
        if found.state == "lost":
            Attempt(folder, found.attempt).exit("killed", found.evidence)
        attempt = try_claim(folder, found.attempt + 1, trial=trial.asked.number, **self._by)
        if attempt is None:
            return None
        spec: Mapping[str, Any] = {"seed": seed, "trial": trial.asked.number, "root": str(self._ledger.root)}
        return Job("run", folder.name, attempt, spec)

    def _take(self, trial: TrialInHand, seed: int, folder: Path, result: JobResult) -> None:
        content = RunFolder(folder).result
        if not content:
            trial.fault = f"seed {seed}: {result.reason or 'ended without a result'}"
            trial.killed = result.status == "killed"
        elif content["status"] != "finished":
            trial.fault = f"seed {seed}: {content['status']}: {content['reason']}"
        else:
            trial.values[seed] = float(content["last"][OBJECTIVE])

    def _settle(self, trial: TrialInHand) -> None:
        if not trial.settled or trial not in self._hand:
            return
        self._hand.remove(trial)
        if trial.killed:
            self._study.lose(trial.asked.number, trial.fault)
            return
        if trial.fault:
            self._study.fail(trial.asked.number, trial.fault)
        else:
            self._study.tell(trial.asked.number, statistics.fmean(trial.values.values()))
        self._ledger.note_trial(trial.asked.number)
