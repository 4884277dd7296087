"""The submitter is killed at each named point, then the sweep is resumed; two resumers interleaved at random."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gates import CHECKOUT, HERE
from plans import begun, write_plan

from gagar_core.errors import RecordsError
from gagar_core.records import publish_once, read_json, to_json
from sweeps import crash
from sweeps.ledger import Ledger, locate
from sweeps.status import Watcher, look_at
from sweeps.submit import missing


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan of one artifact and two runs, in a file of its own."""
    ledger = write_plan(tmp_path / "made", seeds=[0])
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"head": ledger.head, "lines": ledger.planned}))
    return path


def submit(plan: Path, crash_at: str = "") -> int:
    """Submit (or resume) in a process of its own; returns its exit code."""
    command = [sys.executable, str(HERE / "crashing_submit.py"), str(plan.parent / "root"), str(plan)]
    env = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{HERE}", "SWEEPS_CRASH_AT": crash_at}
    done = subprocess.run(
        [*command, str(plan.parent / "begun")], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def settle(plan: Path) -> Ledger:
    """Wait until nobody works on the sweep; every run has exactly one result then."""
    ledger = Ledger(plan.parent / "root" / "tiny")
    look = Watcher(ledger)
    while look().at_work:
        time.sleep(0.05)
    return ledger


@pytest.mark.parametrize("name", crash.POINTS)
def test_every_run_has_one_result_after_a_submitter_was_killed(name: str, plan: Path) -> None:
    assert submit(plan, crash_at=name) == -signal.SIGKILL
    if name == "plan written":
        with pytest.raises(RecordsError, match="not planned to its end: `python -m sweeps submit` it again"):
            locate("tiny", str(plan.parent / "root"))
    assert submit(plan) == 0
    ledger = settle(plan)
    status = look_at(ledger)
    assert status.complete, [(row.state, row.look.evidence) for row in status.rows]
    for line in ledger.runs:
        result = read_json(ledger.run_folder(line["run_id"]) / "result.json")
        assert result["attempt"] == 1
    began = [(kind, identity) for kind, identity, _ in begun(plan.parent / "begun")]
    assert sorted(began) == sorted(
        {(line["kind"], line.get("run_id", line.get("digest"))) for line in ledger.lines}
    )
    assert missing(status) == []
    assert submit(plan) == 0
    assert len(began) == len(begun(plan.parent / "begun"))


def test_an_sbatch_without_an_answer_is_looked_for_by_name_and_waited_for(tmp_path: Path) -> None:
    from sweeps.slurm_view import Answer, SlurmView, job_name
    from sweeps.status import status_of

    ledger = write_plan(tmp_path, seeds=[0])
    submission = ledger.open_submission({"launcher": {"kind": "slurm"}, "retry": []})
    name = job_name(ledger, submission)

    def view(queue: str) -> SlurmView:
        lines = (queue,) if queue else ()
        return SlurmView({submission.nonce: name}, 0.0, ask=lambda command: Answer(lines))

    assert status_of(ledger, view(f"7_0|PENDING|{name}|None")).counts == {"pending": 2}
    assert status_of(ledger, view("")).counts == {"pending": 2}  # it may still be on its way
    intent = submission.path / "intent.json"
    os.utime(intent, (time.time() - 3600,) * 2)
    assert status_of(ledger, view(f"7_0|PENDING|{name}|None")).counts == {"pending": 2}
    assert status_of(ledger, view("")).counts == {"todo": 2}
    publish_once(submission.path / "ack.json", to_json({"job": "7", "elements": 1}))
    assert status_of(ledger, view("")).counts == {"todo": 2}
