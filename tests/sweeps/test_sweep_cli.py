"""The command line, as a user meets it: real processes, real (very small) runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gates import CHECKOUT, Done, run_cli

from gagar_core.records import digest, read_json

TINY = (
    "budget=smoke",
    "budget.steps=2",
    "budget.groups_per_step=2",
    "budget.sft_demos=60",
    "budget.eval_tasks=4",
    "tracking=none",
)
HEAVY = (
    "numpy",
    "torch",
    "mlflow",
    "optuna",
    "hydra",
    "omegaconf",
    "polars",
    "matplotlib",
    "submitit",
    "rich",
)


def sweeps(*words: str, check: bool = True) -> Done:
    """Run the command line to its end."""
    done = run_cli(*words)
    assert not check or done.returncode == 0, done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two runs, submitted and waited for."""
    root = tmp_path_factory.mktemp("root")
    done = sweeps("submit", "algorithm=grpo,gagar", *TINY, "name=two", f"root={root}", "--wait")
    assert "2 of 2 runs to do" in done.stdout
    assert done.stdout.endswith("two: 2 runs: 2 done\n")
    return root


def test_submit_runs_everything_and_again_runs_nothing(submitted: Path) -> None:
    words = ("submit", "algorithm=grpo,gagar", *TINY, "name=two", f"root={submitted}", "--wait")
    assert "nothing to submit" in sweeps(*words).stdout
    submissions = list((submitted / "two" / "submissions").iterdir())
    assert len(submissions) == 1


@pytest.mark.slow
def test_a_sweep_finds_out_what_a_single_run_does(submitted: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments.run", "algorithm=gagar", *TINY, f"root={tmp_path}"]
    subprocess.run(command, check=True, capture_output=True, cwd=CHECKOUT)
    (single,) = (tmp_path / "single" / "runs").iterdir()
    assert digest(single) == digest(submitted / "two" / "runs" / single.name)


def test_status_and_logs_of_a_finished_sweep(submitted: Path) -> None:
    data = json.loads(sweeps("status", "two", f"root={submitted}", "--json", "--exit-code").stdout)
    assert (data["schema_version"], data["complete"], data["counts"]) == (1, True, {"done": 2})
    assert [run["variant"].split()[0] for run in data["runs"]] == ["grpo", "gagar"]
    assert data["runs"][0]["progress"]["step"] == 2
    log = sweeps("logs", "two", data["runs"][0]["run_id"], f"root={submitted}").stdout
    assert "step 2/2" in log
    assert "ended: {'ok': 3}" in sweeps("logs", "two", f"root={submitted}").stdout
    assert sweeps("wait", "two", f"root={submitted}").stdout == "two: 2 runs: 2 done\n"


def test_resume_needs_no_spec_and_takes_what_is_missing(submitted: Path) -> None:
    run = next((submitted / "two" / "runs").iterdir())
    before = digest(run)
    (run / "result.json").unlink()
    done = sweeps("resume", "two", f"root={submitted}", "workers=1", "--wait", "--retry", "failed")
    assert "1 of 2 runs to do" in done.stdout
    assert digest(run) == before
    assert read_json(run / "result.json")["attempt"] == 2


def test_workers_survive_the_shell_and_cancel_stops_them(tmp_path: Path) -> None:
    words = f"submit algorithm=grpo budget=small name=long seed=0,1 root={tmp_path}"
    shell = subprocess.Popen(
        f"{sys.executable} -m sweeps {words}; echo submitted; exec sleep 600",
        shell=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        start_new_session=True,
    )
    assert shell.stdout is not None
    while shell.stdout.readline() != "submitted\n":
        pass
    os.killpg(shell.pid, signal.SIGKILL)
    shell.communicate()
    data = json.loads(sweeps("status", "long", f"root={tmp_path}", "--json").stdout)
    assert data["at_work"] is True
    assert "told 1 submissions to stop" in sweeps("cancel", "long", f"root={tmp_path}").stdout
    assert sweeps("wait", "long", f"root={tmp_path}", check=False).returncode == 1
    data = json.loads(sweeps("status", "long", f"root={tmp_path}", "--json").stdout)
    assert data["at_work"] is False
    assert {row["state"] for row in data["artifacts"]} <= {"killed", "todo"}
    assert "nobody is at work" in sweeps("cancel", "long", f"root={tmp_path}").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sumbit"], "unknown verb 'sumbit'; choose one of plan, submit"),
        (["status", "nothing"], "no sweep 'nothing' in runs"),
        (["status"], "which sweep?"),
        (["status", "a", "seed=1"], "no sweep 'a' in runs"),
        (["cancel", "a", "seed=1", "root=/nowhere"], "no sweep 'a' in /nowhere"),
        (["diff", "a"], "no sweep 'a'"),
        (["doctor", "seed=1"], "takes only root="),
        (["submit", "algorithm=grpo", "--max-failures", "-1"], "--max-failures must be in [0, inf); got -1"),
        (["submit"], "what is to run?"),
        (["submit", "mian"], "shipped ones: demo, "),
        (["submit", "algorithm=grpoo"], "grpoo"),
        (["submit", "algorithm=grpo", "budget.steps=abc"], "abc"),
        (["submit", "algorithm=grpo", "budget.stepz=1"], "stepz"),
        (["submit", "algorithm=grpo", "seed=-1"], "got [-1]"),
        (["submit", "algorithm=grpo", "launcher=slrum"], "choose one of local, slurm"),
        (["submit", "algorithm=grpo", "root=/proc/nowhere"], "give another root="),
        (
            ["submit", "algorithm=grpo", "--retry", "done"],
            "--retry must be one of cancelled, failed, killed, lost, skipped; got 'done'",
        ),
    ],
)
def test_bad_input_is_one_message_and_a_non_zero_exit(words: list[str], says: str, tmp_path: Path) -> None:
    has_root = words[0] != "submit" or any(word.startswith("root=") for word in words)
    done = sweeps(*words, *([] if has_root else [f"root={tmp_path}"]), check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())  # a plan left behind would refuse the corrected words


@pytest.mark.parametrize("words", [["--help"], ["submit", "--help"], ["status", "two"]])
def test_help_and_status_import_nothing_heavy(words: list[str], submitted: Path) -> None:
    program = (
        "import sys\nfrom sweeps.cli import main\ntry:\n main(sys.argv[1:])\nexcept SystemExit:\n pass\n"
        f"print('HEAVY', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    extra = [f"root={submitted}"] if words[0] == "status" else []
    command = [sys.executable, "-c", program, *words, *extra]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert done.stdout.endswith("HEAVY []\n")


def test_a_warm_worker_has_torch_on_one_thread_and_no_polars() -> None:
    program = (
        "import sys, os\nfrom sweeps.process import warm\nwarm()\n"
        "print('torch' in sys.modules, 'experiments.build' in sys.modules, 'polars' in sys.modules)\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    from sweeps.process import THREAD_VARIABLES

    env = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env, cwd=CHECKOUT
    )
    assert done.stdout == "True True False\n1\n"
