"""States of runs, each from the files that make it, and claims seen from another place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from plans import finish, write_plan

from experiments.attempts import Attempt, create_run_folder, try_claim
from experiments.liveness import STALE_S, alive, file_time, whoami
from gagar_core.errors import RecordsError
from gagar_core.records import publish_once, read_json, to_json
from sweeps.jobs import WAIT, Job
from sweeps.ledger import Ledger
from sweeps.plan_source import PlanSource, config_of
from sweeps.state import look
from sweeps.status import status_of, table, to_json_data

ELSEWHERE = {"host": "node7", "pid": 1, "place": "another kernel", "pid_start": 5}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """One run whose artifact is built."""
    made = write_plan(tmp_path, seeds=[0], factors={"list": ["algorithm=grpo"]})
    (made.artifact_folder(made.artifacts[0])).mkdir(parents=True)
    (made.artifact_folder(made.artifacts[0]) / "done.json").write_text("{}")
    return made


def claimed(ledger: Ledger, **by: Any) -> Attempt:
    """A claim of the one run by somebody."""
    folder = create_run_folder(config_of(ledger.runs[0], ledger))
    attempt = try_claim(folder, 1, **by)
    assert attempt is not None
    return attempt


def state(ledger: Ledger, scheduler: Any = None) -> str:
    """State of the one run."""
    return look(ledger.run_folder(ledger.runs[0]["run_id"]), file_time(ledger.path), scheduler).state


def make_old(attempt: Attempt, seconds: float) -> None:
    """Set the last sign of life back."""
    moment = file_time(attempt.folder) - seconds
    os.utime(attempt.path / "beat", (moment, moment))


def test_a_living_owner_means_running_and_a_dead_one_lost(ledger: Ledger) -> None:
    assert state(ledger) == "todo"
    attempt = claimed(ledger)
    assert state(ledger) == "running"
    make_old(attempt, 10 * STALE_S)
    assert state(ledger) == "running"  # the process is there: no clock overrules that


def test_a_recycled_process_number_is_not_the_owner(ledger: Ledger) -> None:
    claimed(ledger, pid_start=whoami()["pid_start"] - 1)
    assert state(ledger) == "lost"


def test_from_another_place_the_age_of_the_last_sign_of_life_decides(ledger: Ledger) -> None:
    attempt = claimed(ledger, **ELSEWHERE)
    assert state(ledger) == "running"
    make_old(attempt, STALE_S + 5)
    assert state(ledger) == "lost"


def test_the_scheduler_is_asked_about_owners_elsewhere(ledger: Ledger) -> None:
    claimed(ledger, **ELSEWHERE, slurm_job="7_1")

    def scheduler(claim: Mapping[str, Any]) -> tuple[str, str]:
        return "killed", f"OUT_OF_MEMORY {claim['slurm_job']}"

    assert state(ledger, scheduler) == "killed"


@pytest.mark.parametrize(
    ("status", "expected"), [("failed", "failed"), ("killed", "killed"), ("ok", "failed")]
)
def test_an_exit_file_without_a_result(ledger: Ledger, status: str, expected: str) -> None:
    claimed(ledger).exit(status, "why")
    assert state(ledger) == expected


def test_a_torn_exit_file_is_named(ledger: Ledger) -> None:
    attempt = claimed(ledger)
    (attempt.path / "exit.json").write_text("{")
    with pytest.raises(RecordsError, match=r"exit\.json is not valid JSON"):
        state(ledger)


def test_a_result_means_done_whatever_else_is_there(ledger: Ledger) -> None:
    attempt = claimed(ledger)
    attempt.exit("killed", "late")
    publish_once(attempt.folder / "result.json", to_json({}))
    assert status_of(ledger).complete


def test_an_attempt_is_claimed_by_exactly_one(ledger: Ledger) -> None:
    first = claimed(ledger, submission="a")
    assert try_claim(first.folder, 1, submission="b") is None
    assert read_json(first.path / "claim.json")["submission"] == "a"
    assert [path.name for path in (first.folder / "attempts").iterdir()] == ["1"]


def test_progress_is_told_by_the_beat_and_outlives_bare_beats(ledger: Ledger) -> None:
    attempt = claimed(ledger)
    attempt.beat({"step": 3, "steps": 9})
    attempt.beat()
    row = status_of(ledger).runs[0]
    assert dict(row.said) == {"step": 3, "steps": 9}


def test_a_submission_at_work_makes_missing_runs_pending(ledger: Ledger) -> None:
    submission = ledger.open_submission({"launcher": {"kind": "local"}, "retry": []})
    publish_once(submission.path / "ack.json", to_json(whoami()))
    assert status_of(ledger).counts == {"pending": 1}
    submission.cancel()
    assert status_of(ledger).counts == {"todo": 1}


def test_a_submission_does_not_take_up_again_what_it_ended(ledger: Ledger) -> None:
    submission = ledger.open_submission({"launcher": {"kind": "local"}, "retry": []})
    publish_once(submission.path / "ack.json", to_json(whoami()))
    claimed(ledger, submission=submission.nonce).exit("killed", "out of memory")
    assert status_of(ledger).counts == {"killed": 1}
    other = ledger.open_submission({"launcher": {"kind": "local"}, "retry": []})
    publish_once(other.path / "ack.json", to_json(whoami()))
    assert status_of(ledger).counts == {"pending": 1}


def test_a_foreign_claim_is_left_alone_once_it_moves(ledger: Ledger) -> None:
    attempt = claimed(ledger, **ELSEWHERE, submission="a")
    make_old(attempt, 10)
    source = PlanSource(ledger, "b")
    assert source.next() is WAIT  # it may be what a killed worker left behind
    attempt.beat()
    assert source.next() is None


def test_a_foreign_claim_that_falls_silent_is_taken_over(ledger: Ledger) -> None:
    attempt = claimed(ledger, **ELSEWHERE, submission="a")
    source = PlanSource(ledger, "b")
    assert source.next() is WAIT
    make_old(attempt, STALE_S + 5)
    job = source.next()
    assert isinstance(job, Job)
    assert job.attempt.number == 2
    assert read_json(attempt.path / "exit.json")["status"] == "killed"


def test_a_provably_living_owner_is_not_waited_for(ledger: Ledger) -> None:
    claimed(ledger, submission="a")
    assert PlanSource(ledger, "b").next() is None


def test_a_folder_copied_elsewhere_can_be_looked_at(ledger: Ledger, tmp_path: Path) -> None:
    import shutil

    claimed(ledger).exit("failed", "ValueError: x")
    copied = tmp_path / "copy"
    shutil.copytree(ledger.path, copied)
    copied.chmod(0o500)
    row = to_json_data(status_of(Ledger(copied)))["runs"][0]
    assert (row["state"], row["evidence"]) == ("failed", "ValueError: x")
    copied.chmod(0o700)


def test_what_a_grader_was_flagged_for_is_shown_of_runs_at_work_and_of_ended_ones(ledger: Ledger) -> None:
    attempt = claimed(ledger)
    assert "flagged" not in table(status_of(ledger))
    attempt.beat({"step": 9, "steps": 9, "grader_flags": ["step 0: a", "step 5: tau-b 0.70 -> 0.10"]})
    assert "grader flagged: step 5: tau-b 0.70 -> 0.10" in table(status_of(ledger))
    publish_once(attempt.folder / "result.json", to_json({"status": "finished"}))
    done = next(line for line in table(status_of(ledger)).splitlines() if line.startswith("done"))
    assert done.endswith("9/9   grader flagged: step 5: tau-b 0.70 -> 0.10")


def test_status_as_data_is_versioned_and_complete(ledger: Ledger) -> None:
    data = to_json_data(status_of(ledger))
    assert data["schema_version"] == 1
    assert (data["sweep"], data["complete"], data["counts"]) == ("tiny", False, {"todo": 1})
    assert data["runs"][0]["variant"] == "grpo"
    assert data["artifacts"][0]["state"] == "done"


def test_identity_of_a_process_includes_its_start() -> None:
    me = whoami()
    assert alive(me) is True
    assert alive({**me, "pid_start": me["pid_start"] + 1}) is False
    assert alive({**me, "place": "elsewhere"}) is None


def test_job_double_finishes_what_the_plan_asks_for(ledger: Ledger) -> None:
    source = PlanSource(ledger, "a")
    job = source.next()
    assert isinstance(job, Job)
    assert source.next() is None  # nothing else, and a run in hand is not waited for
    finish(job)
    assert status_of(ledger).complete


def test_a_result_that_comes_between_two_looks_is_seen(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = claimed(ledger, submission="a")

    def late(*args: Any) -> Any:
        publish_once(attempt.folder / "result.json", to_json({}))
        attempt.exit("ok")
        return look(*args)

    with monkeypatch.context() as patched:
        patched.setattr("sweeps.status.look", late)
        assert status_of(ledger).counts == {"done": 1}
    (attempt.folder / "result.json").unlink()
    (attempt.path / "exit.json").unlink()
    with monkeypatch.context() as patched:
        patched.setattr("sweeps.plan_source.look", late)
        assert PlanSource(ledger, "b", retry=("failed",)).next() is None
