"""Tuning: a study shared by workers without a coordinator, and the source that runs its trials."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from gates import Gate
from plans import finish

from experiments.lease import lease
from gagar_core.errors import ConfigError, RecordsError
from gagar_core.records import read_json
from sweeps.cli import main
from sweeps.jobs import Job
from sweeps.ledger import Ledger, Submission
from sweeps.plan_source import PlanSource
from sweeps.puller import Puller
from sweeps.status import look_at, summary
from sweeps.study import MAX_RETRIES, Study, point_of
from sweeps.tuning import Tuning, build_tuning, space_of
from sweeps.tuning_report import write_tuning
from sweeps.tuning_source import TuningSource

WORDS = ("budget=smoke", "tracking=none", "weighting=linear,geometric_step")


def make(root: Path, *words: str, seeds: str = "0,1") -> Ledger:
    """A tuning over two weighting schemes."""
    tuning = _tuning(*WORDS, f"seed={seeds}", *words)
    return replace(tuning, folder=root / "tune").write()


@cache
def _tuning(*words: str) -> Tuning:
    return build_tuning("quality_weight", words)


def nobody(worker: str) -> bool:
    """No other worker lives."""
    return False


def everybody(worker: str) -> bool:
    """All other workers live."""
    return True


def points(study: Study) -> list[tuple[str, dict[str, Any]]]:
    """Points of all trials."""
    return [point_of(trial) for trial in study.trials]


# --- the space ---------------------------------------------------------------------------------------------


def test_the_space_comes_from_the_classes_and_every_point_of_it_is_valid() -> None:
    space = space_of("weighting")
    assert "linear" in space
    assert "uniform" not in space  # nothing to search
    assert space["linear"]["floor"] == {"low": 0.05, "high": 0.9, "log": False, "int": False}
    assert space["geometric_step"]["floor"]["log"] is True
    assert "choices" in space["linear"]["ties"]
    assert "tiers" not in space  # reads what not every grader gives
    assert list(space_of("weighting", ["tiers"])) == ["tiers"]


@pytest.mark.parametrize(
    ("what", "words", "says"),
    [
        ("quality", [], "cannot tune 'quality'; choose one of quality_weight"),
        ("quality_weight", ["trials=0"], "trials must be an integer >= 1"),
        ("quality_weight", ["trials=many"], "got trials=many"),
        ("quality_weight", ["weighting=linaer"], "unknown weighting 'linaer'"),
        ("quality_weight", ["loss=token_mean,prompt_mean"], "only weighting is searched"),
        ("quality_weight", ["algorithm=grpo"], "no effect with redistribution=none"),
        ("quality_weight", ["seed=a"], "seeds must be"),
        ("quality_weight", ["budget.stepz=3"], "stepz"),
    ],
)
def test_bad_requests_are_named(what: str, words: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build_tuning(what, [*words, f"root={tmp_path}"])
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_another_search_does_not_enter_the_same_folder(tmp_path: Path) -> None:
    make(tmp_path)
    assert make(tmp_path, "trials=99").head["seeds"] == [0, 1]  # the total may grow
    with pytest.raises(ConfigError, match="already holds another plan"):
        make(tmp_path, "budget.steps=4")


# --- the study ---------------------------------------------------------------------------------------------


def test_asking_stops_at_the_total_whoever_asks(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    first, second = Study(ledger), Study(ledger)
    asked = [study.ask(3, name, everybody) for study, name in ((first, "a"), (second, "b"), (first, "a"))]
    assert [trial.number for trial in asked if trial] == [0, 1, 2]
    assert second.ask(3, "b", everybody) is None
    first.tell(0, 0.5)
    assert second.ask(3, "b", everybody) is None
    assert second.counts().complete == 1


def test_a_resumed_study_goes_on_as_an_uninterrupted_one(tmp_path: Path) -> None:
    def run(study: Study, number: int) -> None:
        for _ in range(number):
            trial = study.ask(100, "w", everybody)
            assert trial is not None
            study.tell(trial.number, trial.settings["floor"])

    whole, parts = make(tmp_path / "whole"), make(tmp_path / "parts")
    run(Study(whole), 12)
    for _ in range(4):
        run(Study(parts), 3)
    assert points(Study(parts)) == points(Study(whole))
    floors = [settings["floor"] for _, settings in points(Study(parts))]
    assert len(set(floors)) == 12  # nothing is drawn twice


def test_the_point_of_a_dead_worker_is_tried_once_more(tmp_path: Path) -> None:
    study = Study(make(tmp_path))
    lost = study.ask(2, "dead", everybody)
    again = study.ask(2, "alive", lambda worker: worker != "dead")
    assert lost is not None
    assert again is not None
    assert (again.number, again.choice, again.settings) == (1, lost.choice, lost.settings)
    assert study.trials[0].state.name == "FAIL"
    assert study.reason(0) == "its worker died"
    study.tell(0, 0.9)  # the dead worker was only slow: its word comes too late
    assert study.trials[0].value is None
    study.tell(1, 0.5)
    last = study.ask(2, "alive", nobody)
    assert last is not None
    study.tell(last.number, 0.4)
    assert (study.counts().complete, study.counts().used, study.counts().lost) == (2, 2, 1)
    assert study.ask(2, "alive", nobody) is None


def test_a_point_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    study = Study(make(tmp_path))
    asked = [study.ask(1, f"w{number}", nobody) for number in range(MAX_RETRIES + 2)]
    assert [trial is not None for trial in asked] == [True] * (MAX_RETRIES + 1) + [False]
    assert (study.counts().failed, study.counts().lost) == (1, MAX_RETRIES)


def test_a_trial_that_nobody_signed_has_lost_its_asker(tmp_path: Path) -> None:
    study = Study(make(tmp_path))
    study._study.ask()  # killed before it could sign or draw a point
    trial = study.ask(1, "w", everybody)
    assert trial is not None
    assert study.counts().lost == 1
    assert point_of(study.trials[0]) == ("", {})


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_values_that_are_no_numbers_never_win(tmp_path: Path, value: float) -> None:
    study = Study(make(tmp_path))
    study.ask(1, "w", everybody)
    study.tell(0, value)
    assert study.counts().failed == 1
    assert "its value is" in study.reason(0)


def test_a_torn_last_line_is_cut_and_the_study_goes_on(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    study = Study(ledger)
    study.ask(9, "w", everybody)
    study.tell(0, 0.5)
    whole = study.path.read_bytes()
    study.path.write_bytes(whole + b'{"op_code": 4, "wor')
    again = Study(ledger)
    assert again.path.read_bytes()[: len(whole)] == whole
    trial = again.ask(9, "w", everybody)
    assert trial is not None
    assert trial.number == 1
    assert all(json.loads(line) for line in again.path.read_text().splitlines())


def test_a_damaged_or_foreign_journal_is_refused(tmp_path: Path) -> None:
    ledger = make(tmp_path / "a")
    study = Study(ledger)
    other = make(tmp_path / "b", "budget.steps=4")
    (other.path / "optuna.journal").write_bytes(study.path.read_bytes())
    with pytest.raises(ConfigError, match="belongs to another search"):
        Study(other)
    study.path.write_bytes(b"garbage\n" + study.path.read_bytes())
    with pytest.raises(RecordsError, match=r"optuna\.journal line 1 is damaged"):
        Study(ledger)


def test_a_refused_journal_is_told_by_the_command_not_by_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = make(tmp_path)
    words = [*WORDS, "seed=0,1", "name=tune", f"root={tmp_path}", "--wait"]
    journal = ledger.path / "optuna.journal"
    journal.write_bytes(Study(make(tmp_path / "b", "budget.steps=4")).path.read_bytes())
    assert main(["tune", "quality_weight", *words]) == 2
    assert "belongs to another search" in capsys.readouterr().err
    journal.write_text("{\n")
    assert main(["tune", "quality_weight", *words]) == 2
    assert "optuna.journal line 1 is damaged" in capsys.readouterr().err
    assert not ledger.submissions()


# --- the source --------------------------------------------------------------------------------------------


def open_submission(ledger: Ledger, trials: int) -> Submission:
    """A submission as ``tune`` opens it."""
    return ledger.open_submission({"launcher": {"kind": "local"}, "retry": [], "trials": trials})


def tune(ledger: Ledger, trials: int, perform: Callable[[Job], None], slots: int = 1) -> dict[str, int]:
    """Work a tuning off in this process."""
    submission = open_submission(ledger, trials)
    source = TuningSource(ledger, submission.nonce, f"{submission.nonce}/me", trials)
    return dict(Puller(source, slots, perform, say=lambda text: None).work())


def floor_is_the_value(job: Job) -> None:
    """Finish a run; its value is the floor plus a hundredth of the seed."""
    value = 0.0
    if job.kind == "run":
        config = read_json(job.attempt.folder / "config.json")
        value = config["config"]["weighting"]["floor"] + config["seed"] / 100
    finish(job, {"status": "finished", "reason": "", "last": {"held_out_pass": value}})


@pytest.mark.parametrize("slots", [1, 3])
def test_trials_are_run_per_seed_and_their_mean_is_told(tmp_path: Path, slots: int) -> None:
    ledger = make(tmp_path)
    assert tune(ledger, 6, floor_is_the_value, slots) == {"ok": 2 + 6 * 2}
    study = Study(ledger)
    assert study.counts().complete == 6
    for trial in study.trials:
        assert trial.value == pytest.approx(point_of(trial)[1]["floor"] + 0.005)
    assert "6 trials complete" in write_tuning(ledger)
    assert look_at(ledger).complete


def test_the_best_point_and_the_table(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    tune(ledger, 5, floor_is_the_value)
    write_tuning(ledger)
    best = yaml.safe_load((ledger.path / "best.yaml").read_text())
    table = pl.read_parquet(ledger.path / "trials.parquet")
    assert table.height == 10
    means = table.group_by("trial").agg(pl.col("value").mean()).sort("value")
    assert best["trial"] == means["trial"][-1]
    assert best["value"] == pytest.approx(means["value"][-1])
    assert best["values"] == pytest.approx([best["value"] - 0.005, best["value"] + 0.005])
    floor = next(word for word in best["overrides"] if word.startswith("weighting.floor="))
    assert float(floor.split("=")[1]) == pytest.approx(best["value"] - 0.005)
    assert best["trials"] == {"complete": 5, "failed": 0, "lost": 0}
    assert "seed=2,3,4,5,6" in best["measure"]  # other seed blocks than those that chose it
    first = table.row(0, named=True)
    assert ledger.run_folder(first["run_id"]).exists()
    assert json.loads(first["params"])["floor"] == pytest.approx(first["value"] - first["seed"] / 100)
    assert table["state"].unique().to_list() == ["complete"]


def test_the_words_of_the_best_point_compose_to_its_run(tmp_path: Path) -> None:
    from experiments.compose import compose
    from experiments.identity import run_id

    ledger = make(tmp_path)
    tune(ledger, 3, floor_is_the_value)
    write_tuning(ledger)
    best = yaml.safe_load((ledger.path / "best.yaml").read_text())
    config = compose([*best["base"], *best["overrides"], "seed=0"])
    table = pl.read_parquet(ledger.path / "trials.parquet").filter(trial=best["trial"], seed=0)
    assert run_id(config) == table["run_id"][0]


def test_a_failed_run_fails_its_trial_and_the_study_goes_on(tmp_path: Path) -> None:
    ledger = make(tmp_path)

    def perform(job: Job) -> None:
        if job.kind == "run" and job.spec["trial"] == 1:
            raise ValueError("no luck")
        if job.kind == "run" and job.spec["trial"] == 2:
            finish(job, {"status": "diverged", "reason": "loss is nan at step 3", "last": {}})
            return
        floor_is_the_value(job)

    tune(ledger, 4, perform)
    study = Study(ledger)
    assert (study.counts().complete, study.counts().failed) == (2, 2)
    assert study.reason(1) == "seed 0: ValueError: no luck"
    assert study.reason(2) == "seed 0: diverged: loss is nan at step 3"
    write_tuning(ledger)
    table = pl.read_parquet(ledger.path / "trials.parquet")
    # a seed of the failed trials may have finished: its value is no objective of theirs
    assert table.filter(state="fail")["value"].is_null().all()
    assert table.filter(state="complete")["value"].is_not_null().all()
    assert tune(ledger, 4, floor_is_the_value) == {}  # failed trials are part of the total


def test_a_killed_run_is_tried_again_in_a_new_trial(tmp_path: Path) -> None:
    ledger = make(tmp_path)

    def perform(job: Job) -> None:
        if job.kind == "run" and job.spec["trial"] == 1 and job.spec["seed"] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        floor_is_the_value(job)

    assert tune(ledger, 4, perform) == {"ok": 2 + 4 * 2, "killed": 1}  # seed 0 of the point was done already
    study = Study(ledger)
    assert (study.counts().complete, study.counts().failed, study.counts().lost) == (4, 0, 1)
    assert study.reason(1) == "seed 1: ended by SIGKILL"


def test_a_point_that_was_tried_before_is_not_run_again(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    tune(ledger, 1, floor_is_the_value)
    study = Study(ledger)
    study._study.enqueue_trial(study.trials[0].params)
    assert tune(ledger, 2, floor_is_the_value) == {}
    values = [trial.value for trial in Study(ledger).trials]
    assert len(values) == 2
    assert values[0] == values[1]


def test_a_failed_artifact_ends_the_tuning(tmp_path: Path) -> None:
    ledger = make(tmp_path)

    def perform(job: Job) -> None:
        raise ValueError("no demonstrations")

    assert tune(ledger, 3, perform) == {"failed": 2}
    assert Study(ledger).trials == []
    with pytest.raises(RecordsError, match="nothing has been tried"):
        Study(make(tmp_path / "other"), create=False)


def test_two_workers_one_killed_end_with_exactly_the_total(tmp_path: Path, gate: Gate) -> None:
    ledger = make(tmp_path, seeds="0")
    built = PlanSource(ledger, "x")
    for _ in ledger.artifacts:
        job = built.next()
        assert isinstance(job, Job)
        finish(job)
        built.report(job, result=None)  # type: ignore[arg-type]
    submission = open_submission(ledger, 10)
    workers = [gate.puller(ledger.path, submission.nonce) for _ in range(2)]
    by_puller = {}
    for _ in range(2):
        begun = gate.next()
        by_puller[read_json(ledger.run_folder(begun.identity) / "attempts/1/claim.json")["pid"]] = begun
    victim = next(worker for worker in workers if worker.pid in by_puller)
    held = by_puller[victim.pid]
    victim.kill()
    gate.open(50)
    for worker in workers:
        worker.communicate()
    study = Study(ledger)
    assert (study.counts().complete, study.counts().running, study.counts().lost) == (10, 0, 1)
    zombie = read_json(ledger.run_folder(held.identity) / "attempts/1/claim.json")["trial"]
    same = [t.number for t in study.trials if point_of(t) == point_of(study.trials[zombie])]
    assert len(same) == 2
    assert study.trials[zombie].state.name == "FAIL"
    results = list((ledger.path / "runs").glob("*/result.json"))
    assert len(results) == len(list((ledger.path / "runs").iterdir())) == 10


def test_status_of_a_tuning_counts_trials(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    tune(ledger, 2, floor_is_the_value)
    status = look_at(ledger)
    assert not status.complete  # nothing reported yet
    assert "2 of 2 trials have ended" in summary(status)  # but told, for those who wait
    write_tuning(ledger)
    assert look_at(ledger).complete
    assert look_at(ledger).counts == {"done": 4}
    open_submission(ledger, 5)
    assert not look_at(ledger).complete


@pytest.fixture(autouse=True)
def no_lease_is_left(tmp_path: Path) -> Iterator[None]:
    """Whatever happened, the study can be asked again."""
    yield
    for path in tmp_path.rglob("optuna.lease"):
        with lease(path):
            pass
