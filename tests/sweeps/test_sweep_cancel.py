"""Single runs are cancelled: in hand, not begun, or lost; resume leaves them alone unless told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from gates import Gate, run_cli
from plans import finish, write_plan

from experiments.attempts import create_run_folder, try_claim
from gagar_core.errors import ConfigError
from gagar_core.records import publish_once, read_json, to_json
from sweeps.cancel import cancel_runs
from sweeps.jobs import Job
from sweeps.ledger import Ledger, Submission
from sweeps.plan_source import PlanSource, config_of
from sweeps.puller import Puller
from sweeps.state import CANCEL, look
from sweeps.status import look_at, table
from sweeps.submit import missing


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Four runs, whose artifacts are there."""
    made = write_plan(tmp_path)
    for line in made.artifacts:
        made.artifact_folder(line).mkdir(parents=True)
        publish_once(made.artifact_folder(line) / "done.json", to_json({}))
    return made


def opened(ledger: Ledger, **intent: object) -> Submission:
    """A submission whose worker is played by the test."""
    return ledger.open_submission({"launcher": {"kind": "local"}, "retry": [], **intent})


def pull(ledger: Ledger, *retry: str) -> None:
    """Work off what a submission may take."""
    submission = opened(ledger, retry=list(retry))
    source = PlanSource(ledger, submission.nonce, retry=retry, limits=True)
    Puller(source, 1, finish, say=lambda text: None).work()
    publish_once(submission.path / "void.json", to_json({"reason": "its worker has ended"}))


def states(ledger: Ledger) -> list[str]:
    """States of the runs in the order of the plan."""
    return [row.state for row in look_at(ledger).runs]


def test_what_was_not_begun_is_kept_from_beginning(ledger: Ledger) -> None:
    done = run_cli("cancel", "tiny", "algorithm=rloo", "seed<1", f"root={ledger.root}")
    assert done.stdout == "tiny: told 0 running to stop, kept 1 from beginning; 0 had ended\n"
    assert states(ledger) == ["todo", "cancelled", "todo", "todo"]
    assert len(missing(look_at(ledger))) == 3
    pull(ledger)
    assert states(ledger) == ["done", "cancelled", "done", "done"]
    assert "--retry cancelled" in table(look_at(ledger))
    assert cancel_runs(look_at(ledger), ["seed=0"])["ended"] == [r["run_id"] for r in ledger.runs[:2]]
    assert missing(look_at(ledger), ["cancelled"]) == [ledger.runs[1]["run_id"]]
    pull(ledger, "cancelled")
    assert states(ledger) == ["done"] * 4
    assert read_json(ledger.run_folder(ledger.runs[1]["run_id"]) / "attempts" / "1" / "exit.json")[
        "reason"
    ] == ("cancelled before it began")


def test_only_the_named_run_in_hand_is_ended(ledger: Ledger, gate: Gate) -> None:
    nonce = opened(ledger).nonce
    puller = gate.puller(ledger.path, nonce, slots=2)
    first, second = gate.next(), gate.next()
    assert cancel_runs(look_at(ledger), [first.identity])["told"] == [first.identity]
    third = gate.next()  # its slot is free again
    assert len({first.identity, second.identity, third.identity}) == 3
    gate.open(3)
    out, _ = puller.communicate()
    assert out.count("'ok': 3") == 1
    found = look(ledger.run_folder(first.identity), 0.0)
    assert (found.state, found.evidence, found.attempt) == ("cancelled", "cancelled", 1)
    assert sorted(states(ledger)) == ["cancelled", "done", "done", "done"]


def test_a_lost_run_is_settled_and_kept_from_beginning(ledger: Ledger) -> None:
    gone = {"host": "h", "pid": 2**22 + 1, "pid_start": 1}
    folder = create_run_folder(config_of(ledger.runs[2], ledger))
    assert try_claim(folder, 1, **gone)
    assert cancel_runs(look_at(ledger), ["state=lost"])["withheld"] == [folder.name]
    assert states(ledger)[2] == "cancelled"
    assert [read_json(p)["status"] for p in sorted(folder.glob("attempts/*/exit.json"))] == ["killed"] * 2


def test_a_worker_that_was_quicker_is_told(ledger: Ledger) -> None:
    status = look_at(ledger)  # the canceller looks, and then a worker claims
    folder = create_run_folder(config_of(ledger.runs[0], ledger))
    attempt = try_claim(folder, 1, submission="s")
    assert attempt
    assert cancel_runs(status, [folder.name])["told"] == [folder.name]
    assert (attempt.path / CANCEL).exists()


def test_a_run_that_ends_well_all_the_same_is_done(ledger: Ledger) -> None:
    submission = opened(ledger)

    def perform(job: Job) -> None:
        publish_once(job.attempt.path / CANCEL, to_json({}))
        finish(job)

    Puller(PlanSource(ledger, submission.nonce), 1, perform, say=lambda text: None).work()
    assert states(ledger) == ["done"] * 4


def test_what_cannot_be_cancelled_is_named(ledger: Ledger) -> None:
    folder = create_run_folder(config_of(ledger.runs[0], ledger))
    assert try_claim(folder, 1, command="experiments.run")
    for words, says in (
        (["seed=7"], "fits no run"),
        (["seed=0"], "which no sweep started: stop it there"),
        (["nonsense"], "names 0 runs"),
    ):
        with pytest.raises(ConfigError, match=says):
            cancel_runs(look_at(ledger), words)
    assert states(ledger) == ["running", "todo", "todo", "todo"]


def test_runs_are_selected_by_the_evidence_of_their_end(ledger: Ledger) -> None:
    for index, reason in enumerate(("Slurm job 7_0 TIMEOUT 0:0", "Slurm job 7_1 OUT_OF_MEMORY 0:125")):
        attempt = try_claim(create_run_folder(config_of(ledger.runs[index], ledger)), 1, submission="s")
        assert attempt
        attempt.exit("killed", reason)
    out = run_cli("status", "tiny", "evidence=*TIMEOUT*", f"root={ledger.root}").stdout
    assert ledger.runs[0]["run_id"] in out
    assert ledger.runs[1]["run_id"] not in out
