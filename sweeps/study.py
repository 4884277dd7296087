"""The Optuna study of a tuning: a journal file that any number of workers ask and tell without a coordinator.

Asking happens under a lease, so that workers together never ask for more than the total. A trial's sampler is
seeded from the study and the trial's number: a resumed study must not draw its first points again.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState

from experiments.lease import lease
from gagar_core.errors import ConfigError, RecordsError
from gagar_core.seeds import derive
from sweeps.ledger import Ledger

_STARTUP_TRIALS = 8
"""Random trials before the sampler models anything."""

MAX_RETRIES = 3
"""Times that the point of a trial is tried again after its worker died."""

_ASK_WAIT_S = 120.0
_CHOICE = "choice"

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class Asked:
    """A trial to be run: its number and the point that it tries."""

    number: int
    choice: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Counts:
    """How the total of a study is used up."""

    complete: int
    failed: int
    running: int
    lost: int

    @property
    def used(self) -> int:
        """Trials that count; a lost one does not, its point is asked again."""
        return self.complete + self.failed + self.running


class Study:
    """One study, opened by one worker."""

    def __init__(self, ledger: Ledger, *, create: bool = True) -> None:
        self._ledger = ledger
        self.path = ledger.path / "optuna.journal"
        if not create and not self.path.exists():
            msg = f"{self.path} does not exist: nothing has been tried yet"
            raise RecordsError(msg)
        with self._lease():
            repair(self.path)
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(self.path))),
                study_name="tuning",
                direction="maximize",
                load_if_exists=True,
            )
            self._check_space()

    def _lease(self) -> Any:
        return lease(self._ledger.path / "optuna.lease", wait_s=_ASK_WAIT_S)

    def _check_space(self) -> None:
        digest = self._ledger.head["plan_digest"]
        known = self._study.user_attrs.get("plan_digest")
        if known is None:
            self._study.set_user_attr("plan_digest", digest)
        elif known != digest:
            msg = (
                f"{self.path} belongs to another search ({known}, here {digest}): "
                "give another name=, or move the file away"
            )
            raise ConfigError(msg)

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, by number."""
        return self._study.get_trials(deepcopy=False)

    def counts(self) -> Counts:
        """Trials by what became of them."""
        states = Counter(trial.state for trial in self.trials)
        lost = sum(key.startswith("lost ") for key in self._study.user_attrs)
        failed = states[TrialState.FAIL] - lost
        return Counts(states[TrialState.COMPLETE], failed, states[TrialState.RUNNING], lost)

    def ask(self, total: int, worker: str, lives: Callable[[str], bool]) -> Asked | None:
        """The next trial, or None while ``total`` trials are done or in living hands.

        ``worker`` names the asker; ``lives`` tells whether another asker lives. Trials of dead askers
        are ended, and their points tried again.
        """
        with self._lease():
            self._reap(lives)
            if self.counts().used >= total:
                return None
            number = len(self.trials)
            self._study.sampler = self._sampler(number)
            trial = self._study.ask()
            trial.set_user_attr("worker", worker)
            choice, settings = self._suggest(trial)
            return Asked(trial.number, choice, settings)

    def _sampler(self, number: int) -> TPESampler:
        seed = derive(int(self._ledger.head["plan_digest"], 16), "trial", number)
        return TPESampler(seed=seed % 2**32, n_startup_trials=_STARTUP_TRIALS)

    def _suggest(self, trial: optuna.Trial) -> tuple[str, dict[str, Any]]:
        space: Mapping[str, Mapping[str, Any]] = self._ledger.head["space"]
        choice = trial.suggest_categorical(_CHOICE, list(space))
        ranges = space[choice].items()
        return choice, {name: _suggest(trial, f"{choice}.{name}", declared) for name, declared in ranges}

    def _reap(self, lives: Callable[[str], bool]) -> None:
        for trial in self.trials:
            worker = trial.user_attrs.get("worker")
            # under the lease nobody is between asking and signing, so an unsigned trial has lost its asker
            if trial.state == TrialState.RUNNING and (worker is None or not lives(worker)):
                self._end_lost(trial, "its worker died")

    def lose(self, number: int, reason: str) -> None:
        """End a trial that was killed from outside; its point is tried again, a few times at most."""
        with self._lease():
            self._end_lost(self.trials[number], reason)

    def _end_lost(self, trial: FrozenTrial, reason: str) -> None:
        retries = trial.user_attrs.get("retries", 0)
        self.fail(trial.number, reason)
        if retries < MAX_RETRIES:
            self._study.set_user_attr(f"lost {trial.number}", True)
            if trial.params:
                attrs = {"retries": retries + 1, "retry_of": trial.number}
                self._study.enqueue_trial(trial.params, user_attrs=attrs)

    def tell(self, number: int, value: float) -> None:
        """A trial's value; quietly nothing if others have taken this worker for dead and ended the trial."""
        if not math.isfinite(value):
            self.fail(number, f"its value is {value}")  # Optuna would make infinity the best of all
            return
        self._study.tell(number, value, skip_if_finished=True)

    def fail(self, number: int, reason: str) -> None:
        """End a trial without a value."""
        self._study.set_user_attr(f"reason {number}", reason)
        self._study.tell(number, state=TrialState.FAIL, skip_if_finished=True)

    def reason(self, number: int) -> str:
        """Why a trial has no value; "" if it has one."""
        return str(self._study.user_attrs.get(f"reason {number}", ""))


def _suggest(trial: optuna.Trial, name: str, declared: Mapping[str, Any]) -> Any:
    if "choices" in declared:
        return trial.suggest_categorical(name, declared["choices"])
    if declared["int"]:
        return trial.suggest_int(name, declared["low"], declared["high"], log=declared["log"])
    return trial.suggest_float(name, declared["low"], declared["high"], log=declared["log"])


def point_of(trial: FrozenTrial) -> tuple[str, dict[str, Any]]:
    """Choice and settings of a trial; an empty choice if its worker died before it had a point."""
    choice = str(trial.params.get(_CHOICE, ""))
    prefix = f"{choice}."
    settings = {name.removeprefix(prefix): value for name, value in trial.params.items() if name != _CHOICE}
    return choice, settings


def repair(path: Path) -> None:
    """Cut a last line that a killed writer left unfinished; refuse a journal that is damaged elsewhere.

    Optuna would glue the next record to the torn line and lose both.
    """
    if not path.exists():
        return
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        _check_lines(path, whole)
        if len(whole) < len(data):
            with path.open("r+b") as stream:
                stream.truncate(len(whole))
    finally:
        lock.release()


def _check_lines(path: Path, data: bytes) -> None:
    for number, line in enumerate(data.splitlines(), 1):
        try:
            json.loads(line)
        except ValueError as err:
            msg = f"{path} line {number} is damaged ({err}): restore the file, or tune under another name="
            raise RecordsError(msg) from err
