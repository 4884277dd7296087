"""Whole stories: a submission outlives its shell; many runs are packed into few workers and one goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gates import CHECKOUT, HERE, Gate, run_cli
from plans import begun, recorder, write_plan

from gagar_core.records import publish_once, to_json
from sweeps.ledger import Ledger
from sweeps.plan_source import PlanSource
from sweeps.puller import Puller
from sweeps.status import look_at
from sweeps.submit import missing

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{HERE}"}


def build_artifacts(ledger: Ledger) -> None:
    """As if they had been built."""
    for line in ledger.artifacts:
        ledger.artifact_folder(line).mkdir(parents=True)
        publish_once(ledger.artifact_folder(line) / "done.json", to_json({}))


@pytest.mark.slow
def test_a_submission_outlives_the_shell_that_made_it(tmp_path: Path, gate: Gate) -> None:
    ledger = write_plan(tmp_path, seeds=4)
    build_artifacts(ledger)
    submit = f"{sys.executable} {HERE / 'gated_submit.py'} {ledger.path} 8 {gate.folder}"
    shell = subprocess.Popen(
        f"{submit}; exec sleep 600", shell=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
        start_new_session=True,
    )  # fmt: skip
    assert shell.stdout is not None
    nonce = shell.stdout.readline().strip()  # it has returned, and no run has been let through the gate
    os.killpg(shell.pid, signal.SIGKILL)
    shell.communicate()
    assert [submission.nonce for submission in ledger.submissions()] == [nonce]
    assert len({gate.next().identity for _ in range(8)}) == 8
    fresh = subprocess.run(
        [sys.executable, "-m", "sweeps", "status", str(ledger.path), "--json"],
        env=ENVIRONMENT, capture_output=True, text=True, check=True, cwd=CHECKOUT,
    )  # fmt: skip
    assert json.loads(fresh.stdout)["counts"] == {"running": 8}
    gate.open(8)
    assert run_cli("wait", str(ledger.path)).stdout.endswith("tiny: 8 runs: 8 done\n")


@pytest.mark.slow
def test_64_runs_packed_into_4_pullers_of_which_one_run_dies(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path, seeds=32)
    build_artifacts(ledger)
    bad = ledger.runs[37]["run_id"]
    nonce = ledger.open_submission({"launcher": {"kind": "local"}, "retry": []}).nonce
    command = [sys.executable, str(HERE / "packed_puller.py"), str(ledger.path), nonce, "16", bad]
    pullers = [subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE) for _ in range(4)]
    assert [puller.wait() for puller in pullers if puller.communicate()] == [0] * 4
    status = look_at(ledger)
    assert status.counts == {"done": 63, "failed": 1}
    (failed,) = [row for row in status.runs if row.state == "failed"]
    assert (failed.line["run_id"], failed.look.evidence) == (bad, "exit code 9")
    logs = sorted((ledger.path / "runs").glob("*/attempts/*/log.txt"))
    assert len(logs) == 64  # every run was begun once, by one puller
    assert all(log.read_text() == f"{log.parents[2].name} at work\n" for log in logs)

    assert missing(look_at(ledger), ["failed"]) == [bad]
    log = tmp_path / "begun"
    source = PlanSource(ledger, "again", retry=("failed",))
    assert Puller(source, 16, recorder(log), say=lambda text: None).work() == {"ok": 1}
    assert begun(log) == [("run", bad, 2)]
    assert look_at(ledger).complete
