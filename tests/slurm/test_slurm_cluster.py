"""Sweeps and tunings on a real Slurm cluster (``pytest -m slurm tests/slurm``)."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from gates import Done, run_cli

from gagar_core.records import digest, read_json
from sweeps.ledger import Ledger

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
]

TINY = (
    "budget=smoke",
    "budget.steps=2",
    "budget.groups_per_step=2",
    "budget.sft_demos=60",
    "budget.eval_tasks=4",
    "tracking=none",
)
LONG = ("budget=smoke", "budget.steps=100000", "budget.sft_demos=60", "budget.eval_tasks=4", "tracking=none")
DEADLINE_S = 180.0


def sweeps(*words: str) -> Done:
    """The command line, which must succeed."""
    done = run_cli(*words)
    assert done.returncode == 0, done.stderr + done.stdout
    return done


def status(name: str, root: Path) -> Any:
    """``status --json``."""
    return json.loads(sweeps("status", name, f"root={root}", "--json").stdout)


def until(name: str, root: Path, good: Callable[[Any], bool]) -> Any:
    """Look until ``good``; a cluster is waited for, with a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        data = status(name, root)
        if good(data):
            return data
        assert time.monotonic() < deadline, data
        time.sleep(0.5)


def slurm(*command: str) -> str:
    """A command of Slurm."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def elements(root: Path, name: str) -> list[str]:
    """Elements of the newest array that run."""
    job = Ledger(root / name).submissions()[-1].ack["job"]
    return slurm("squeue", "-h", "-r", "-j", job, "-t", "RUNNING", "-o", "%i").split()


def kill_hard(element: str) -> None:
    """End a job without warning, its steps and its batch shell."""
    slurm("scancel", "--signal=KILL", "--full", element)
    subprocess.run(["scancel", "--signal=KILL", element], capture_output=True, check=False)


def test_slurm_finds_out_what_local_workers_do(cluster: None, tmp_path: Path) -> None:
    words = ("algorithm=grpo,gagar", "seed=0,1", *TINY, "name=s")
    sweeps("submit", *words, f"root={tmp_path / 'local'}", "--wait")
    done = sweeps(
        "submit", *words, f"root={tmp_path / 'slurm'}", "launcher=slurm", "workers=3", "launcher.parallel=2"
    )
    assert "4 of 4 runs to do" in done.stdout
    assert until("s", tmp_path / "slurm", lambda data: not data["at_work"])["complete"]
    for run in (tmp_path / "local" / "s" / "runs").iterdir():
        assert digest(run) == digest(tmp_path / "slurm" / "s" / "runs" / run.name)
    (submission,) = Ledger(tmp_path / "slurm" / "s").submissions()
    assert "%2" in next(iter((submission.path / "slurm").glob("*_submission.sh"))).read_text()
    assert {p.stat().st_mode & 0o777 for p in (submission.path, submission.path / "slurm")} == {0o700}
    assert "run" in sweeps("logs", "s", f"root={tmp_path / 'slurm'}").stdout


def test_a_job_killed_mid_run_and_resume_give_one_result_per_run(cluster: None, tmp_path: Path) -> None:
    words = ("algorithm=grpo,gagar", "seed=0,1", *TINY, "budget.steps=40", "name=k", f"root={tmp_path}")
    sweeps("submit", *words, "launcher=slurm", "workers=2")
    until("k", tmp_path, lambda data: data["counts"].get("running", 0) >= 1)
    for element in elements(tmp_path, "k"):
        kill_hard(element)
    data = until("k", tmp_path, lambda data: not data["at_work"])
    lost = [run for run in data["runs"] if run["state"] in ("killed", "lost")]
    assert lost
    done = [
        tmp_path / "k" / "runs" / r["run_id"] / "result.json" for r in data["runs"] if r["state"] == "done"
    ]
    stamps = [path.stat().st_mtime_ns for path in done]
    sweeps("resume", "k", f"root={tmp_path}")  # the launcher of the first submission
    data = until("k", tmp_path, lambda data: not data["at_work"])
    assert data["complete"]
    assert {run["attempt"] for run in data["runs"] if run["run_id"] in {r["run_id"] for r in lost}} == {2}
    assert [path.stat().st_mtime_ns for path in done] == stamps
    assert len(list((tmp_path / "k" / "runs").glob("*/result.json"))) == 4
    for run in lost:
        first = read_json(tmp_path / "k" / "runs" / run["run_id"] / "attempts" / "1" / "exit.json")
        assert first["status"] == "killed"


def test_cancelled_while_pending_leaves_everything_to_do(cluster: None, tmp_path: Path) -> None:
    words = ("algorithm=grpo", "seed=0,1", *TINY, "name=p", f"root={tmp_path}")
    sweeps("submit", *words, "launcher=slurm", "workers=2", "launcher.options={hold: true}")
    assert status("p", tmp_path)["counts"] == {"pending": 2}
    sweeps("cancel", "p", f"root={tmp_path}")
    data = until("p", tmp_path, lambda data: not data["at_work"])
    assert data["counts"] == {"todo": 2}
    sweeps("resume", "p", f"root={tmp_path}", "launcher.options={}")
    assert until("p", tmp_path, lambda data: not data["at_work"])["complete"]


def test_one_pending_element_cancelled_does_not_hang_the_sweep(cluster: None, tmp_path: Path) -> None:
    words = ("algorithm=grpo", "seed=0,1", *TINY, "name=e", f"root={tmp_path}")
    sweeps("submit", *words, "launcher=slurm", "workers=2", "launcher.options={hold: true}")
    job = Ledger(tmp_path / "e").submissions()[-1].ack["job"]
    slurm("scancel", f"{job}_1")
    slurm("scontrol", "release", job)
    assert until("e", tmp_path, lambda data: not data["at_work"])["complete"]


def test_cancel_ends_running_jobs_and_says_so(cluster: None, tmp_path: Path) -> None:
    sweeps("submit", "algorithm=grpo", *LONG, "name=c", f"root={tmp_path}", "launcher=slurm", "workers=1")
    until("c", tmp_path, lambda data: data["counts"].get("running", 0) == 1)
    sweeps("cancel", "c", f"root={tmp_path}")
    (run,) = until("c", tmp_path, lambda data: not data["at_work"])["runs"]
    assert (run["state"], run["evidence"]) == ("killed", "cancelled")


def test_the_warning_before_the_time_limit_ends_runs_in_order(cluster: None, tmp_path: Path) -> None:
    sweeps("submit", "algorithm=grpo", *LONG, "name=t", f"root={tmp_path}", "launcher=slurm", "workers=1")
    until("t", tmp_path, lambda data: data["counts"].get("running", 0) == 1)
    (element,) = elements(tmp_path, "t")
    slurm("scancel", "--signal=USR2", element)
    (run,) = until("t", tmp_path, lambda data: not data["at_work"])["runs"]
    assert (run["state"], run["evidence"]) == ("killed", "worker was told to stop (SIGUSR2)")


@pytest.mark.parametrize(
    ("word", "setting"),
    [
        ("launcher.partition=nope", "launcher.partition"),
        ("launcher.options={gres: 'tpu:1'}", "launcher.gpus or launcher.options"),
        ("launcher.mem_gb=9000", "launcher.mem_gb"),
    ],
)
def test_a_refusal_of_the_real_sbatch_names_the_option(
    cluster: None, tmp_path: Path, word: str, setting: str
) -> None:
    done = run_cli("submit", "algorithm=grpo", "name=r", f"root={tmp_path}", "launcher=slurm", word)
    assert done.returncode == 2
    assert "sbatch refused: sbatch: error" in done.stderr
    assert setting in done.stderr
    assert not status("r", tmp_path)["at_work"]


def test_a_tuning_on_two_elements_one_killed_ends_with_exactly_ten(cluster: None, tmp_path: Path) -> None:
    words = ("quality_weight", "trials=10", "seed=0", *TINY, f"root={tmp_path}")
    sweeps("tune", *words, "launcher=slurm", "workers=2")
    name = "tune_quality_weight"
    until(
        name,
        tmp_path,
        lambda data: len(elements(tmp_path, name)) == 2 and data["counts"].get("running", 0) == 2,
    )
    kill_hard(elements(tmp_path, name)[0])
    data = until(name, tmp_path, lambda data: not data["at_work"])
    assert data["complete"]
    best = yaml.safe_load((tmp_path / name / "best.yaml").read_text())
    assert best["trials"]["complete"] == 10
    assert best["trials"]["failed"] == 0
    assert best["trials"]["lost"] <= 1
    import polars as pl

    table = pl.read_parquet(tmp_path / name / "trials.parquet")
    assert table.filter(state="complete").height == 10


def test_without_accounting_a_killed_job_is_not_taken_for_running(
    cluster_without_accounting: None, tmp_path: Path
) -> None:
    sweeps("submit", "algorithm=grpo", *LONG, "name=n", f"root={tmp_path}", "launcher=slurm", "workers=1")
    until("n", tmp_path, lambda data: data["counts"].get("running", 0) == 1)
    kill_hard(elements(tmp_path, "n")[0])
    (run,) = until("n", tmp_path, lambda data: not data["at_work"])["runs"]
    assert run["state"] in ("lost", "killed")
    assert run_cli("wait", "n", f"root={tmp_path}").returncode == 1  # and nobody waits for ever
