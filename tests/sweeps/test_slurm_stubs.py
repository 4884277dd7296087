"""Slurm's commands as stubs on PATH that count their calls: costs, refusals, rare states."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gates import Done, run_cli
from plans import write_plan

from experiments.attempts import create_run_folder, try_claim
from gagar_core.errors import LaunchError
from sweeps.launchers import Slurm
from sweeps.ledger import Ledger
from sweeps.plan_source import config_of
from sweeps.slurm_submit import arrays_of, check_private, sbatch_parameters
from sweeps.slurm_view import Answer, SlurmView
from sweeps.status import status_of, to_json_data

STUB = """#!/bin/bash
here=$(dirname "$0"); name=$(basename "$0")
echo "$name $*" >> "$here/calls"
[ "$name" = sbatch ] && cp "${@: -1}" "$here/script"
cat "$here/$name.out" 2>/dev/null
cat "$here/$name.err" >&2 2>/dev/null
exit "$(cat "$here/$name.rc" 2>/dev/null || echo 0)"
"""


class Stubs:
    """A folder of stub commands, first on PATH."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        for name in ("sbatch", "srun", "squeue", "sacct", "scancel", "scontrol"):
            path = folder / name
            path.write_text(STUB)
            path.chmod(0o755)
        self.answer("sbatch", "Submitted batch job 4242\n")

    def answer(self, name: str, out: str = "", err: str = "", rc: int = 0) -> None:
        """What a command says from now on."""
        (self.folder / f"{name}.out").write_text(out)
        (self.folder / f"{name}.err").write_text(err)
        (self.folder / f"{name}.rc").write_text(str(rc))

    def calls(self) -> list[str]:
        """Calls since the last question."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def sweeps(self, *words: str) -> Done:
        """``python -m sweeps`` in this process, where the stubs are first on PATH."""
        return run_cli(*words)


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stubs:
    """Stub commands that accept everything."""
    made = Stubs(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


def names(calls: list[str]) -> list[str]:
    """Commands of calls."""
    return [call.split()[0] for call in calls]


def test_an_array_of_200_costs_one_sbatch_and_a_status_one_squeue_and_one_sacct(
    stubs: Stubs, tmp_path: Path
) -> None:
    words = ("algorithm=grpo", "seed=range(200)", "tracking=none", "name=big", f"root={tmp_path}")
    done = stubs.sweeps("submit", *words, "launcher=slurm", "workers=200", "launcher.parallel=16")
    assert done.returncode == 0, done.stderr
    assert "200 of 200 runs to do" in done.stdout
    assert "Slurm job 4242" in done.stdout
    calls = stubs.calls()
    assert names(calls).count("sbatch") == 1
    assert set(names(calls)) <= {"sbatch", "squeue", "sacct", "scontrol"}
    assert "#SBATCH --array=0-199%16" in (stubs.folder / "script").read_text()

    ledger = Ledger(tmp_path / "big")
    (submission,) = ledger.submissions()
    for line in ledger.runs[:50]:  # claims of elements whose jobs are gone
        folder = create_run_folder(config_of(line, ledger))
        number = line["index"]
        elsewhere = {"place": "node", "host": "n1", "slurm_job": f"4242_{number}"}
        assert try_claim(folder, 1, submission=submission.nonce, **elsewhere)
    job = f"big-{submission.nonce}"
    stubs.answer("squeue", "".join(f"4242_{n}|PENDING|{job}|Resources\n" for n in range(60, 200)))
    gone = [line["index"] for line in ledger.runs[:50]]
    stubs.answer("sacct", "".join(f"4242_{n}|OUT_OF_MEMORY|0:125\n" for n in gone))
    data = json.loads(stubs.sweeps("status", "big", f"root={tmp_path}", "--json").stdout)
    assert sorted(names(stubs.calls())) == ["sacct", "squeue"]
    assert data["counts"] == {"pending": 150, "killed": 50}
    assert data["runs"][0]["evidence"] == f"Slurm job 4242_{gone[0]} OUT_OF_MEMORY 0:125"
    done = stubs.sweeps("cancel", "big", f"root={tmp_path}")
    assert [call for call in stubs.calls() if call.startswith("scancel")] == [f"scancel --name={job}"]


LIMIT = "SlurmctldPort           = 6817\nMaxArraySize            = 101\nMaxJobCount = 10000\n"


def test_more_elements_than_an_array_takes_are_several_arrays(stubs: Stubs, tmp_path: Path) -> None:
    stubs.answer("scontrol", LIMIT)
    words = ("algorithm=grpo", "seed=range(250)", "tracking=none", "name=wide", f"root={tmp_path}")
    launcher = ("launcher=slurm", "workers=250", "launcher.parallel=20")
    shown = stubs.sweeps("submit", *words, *launcher, "--dry-run").stdout
    assert "--array=0-83%7" in shown
    assert "# and the same for --array=0-82%7, 0-82%6" in shown
    assert set(names(stubs.calls())) <= {"scontrol"}
    done = stubs.sweeps("submit", *words, *launcher)
    assert done.returncode == 0, done.stderr
    assert names(stubs.calls()).count("sbatch") == 3
    (submission,) = Ledger(tmp_path / "wide").submissions()
    assert submission.ack == {"job": "4242", "jobs": ["4242"] * 3, "elements": 250}
    scripts = [path.read_text() for path in (submission.path / "slurm").glob("*.sh")]
    assert f"--job-name=wide-{submission.nonce}" in scripts[0]  # one name: squeue and scancel go by it


@pytest.mark.parametrize(
    ("elements", "parallel", "most", "expected"),
    [
        (250, 20, 100, [(84, 7), (83, 7), (83, 6)]),
        (100, 20, 100, [(100, 20)]),
        (101, 0, 100, [(51, 0), (50, 0)]),
        (250, 2, 100, [(100, 1), (100, 1)]),
        (250, 1, 100, [(100, 1)]),
        (9, 4, 0, [(9, 4)]),
    ],
)
def test_shares_of_arrays(elements: int, parallel: int, most: int, expected: list[tuple[int, int]]) -> None:
    assert arrays_of(elements, parallel, most) == expected


def test_a_second_array_that_is_refused_leaves_the_first_at_work(stubs: Stubs, tmp_path: Path) -> None:
    stubs.answer("scontrol", LIMIT)
    refuse = '[ "$name" = sbatch ] && [ $(grep -c ^sbatch "$here/calls") -gt 1 ] && exit 1\n'
    sbatch = stubs.folder / "sbatch"
    sbatch.write_text(STUB.replace('cat "$here/$name.out', refuse + 'cat "$here/$name.out', 1))
    words = ("algorithm=grpo", "seed=range(150)", "name=half", f"root={tmp_path}", "workers=150")
    done = stubs.sweeps("submit", *words, "launcher=slurm")
    assert done.returncode == 2
    assert "1 of 2 arrays were taken (jobs 4242)" in done.stderr
    (submission,) = Ledger(tmp_path / "half").submissions()
    assert (submission.void, submission.ack["elements"]) == ({}, 75)


def test_no_more_elements_than_runs_and_any_option_of_sbatch(stubs: Stubs, tmp_path: Path) -> None:
    options = [
        "launcher.time_min=7",
        "launcher.mem_gb=2.5",
        "launcher.cpus=2",
        "launcher.gpus=1",
        "launcher.partition=fast",
        "launcher.account=lab",
        "launcher.options={nice: 5, exclude: n7, exclusive: true}",
        "launcher.setup=[module load cuda, source env/bin/activate]",
        "launcher.python=/opt/py/bin/python",
    ]
    words = ["submit", "algorithm=grpo", "seed=0,1", "name=s", f"root={tmp_path}", "launcher=slurm", *options]
    done = stubs.sweeps(*words)
    assert done.returncode == 0, done.stderr
    script = (stubs.folder / "script").read_text()
    for line in (
        "--array=0-1%2",
        "--time=7",
        "--mem=2560MB",
        "--cpus-per-task=2",
        "--gpus-per-node=1",
        "--partition=fast",
        "--account=lab",
        "--nice=5",
        "--exclude=n7",
        "--exclusive",
        "--no-requeue",
        "--signal=USR2@60",
    ):
        assert f"#SBATCH {line}\n" in script
    assert "wckey" not in script
    assert script.index("module load cuda") < script.index("source env/bin/activate") < script.index("srun")
    assert "/opt/py/bin/python -u -m submitit.core._submit" in script


def test_only_one_fixed_function_with_strings_is_pickled(stubs: Stubs, tmp_path: Path) -> None:
    import pickletools

    stubs.sweeps("submit", "algorithm=grpo", "seed=0,1", "name=s", f"root={tmp_path}", "launcher=slurm")
    (submission,) = Ledger(tmp_path / "s").submissions()
    pickles = sorted((submission.path / "slurm").glob("*_submitted.pkl"))
    assert len(pickles) == 2
    named = {
        arg for path in pickles for _, arg, _ in pickletools.genops(path.read_bytes()) if isinstance(arg, str)
    }
    assert {"sweeps.worker", "work", submission.nonce} <= named
    code = {word for word in named if word.startswith(("experiments", "gagar_core", "torch"))}
    assert code == set()


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        ("sbatch: error: invalid partition specified: nope", "launcher.partition"),
        ("sbatch: error: Invalid generic resource (gres) specification", "launcher.gpus or"),
        ("sbatch: error: Memory specification can not be satisfied", "launcher.mem_gb"),
        ("sbatch: error: Invalid account or account/partition combination specified", "launcher.account"),
        (
            "sbatch: error: Requested time limit is invalid (missing or exceeds some limit)",
            "launcher.time_min",
        ),
        ("sbatch: error: Invalid job array specification", "workers"),
        ("sbatch: error: something nobody has seen", "doctor"),
    ],
)
def test_a_refusal_gives_sbatchs_words_and_the_option(
    stubs: Stubs, tmp_path: Path, words: str, setting: str
) -> None:
    stubs.answer("sbatch", err=words + "\n", rc=1)
    done = stubs.sweeps("submit", "algorithm=grpo", "name=s", f"root={tmp_path}", "launcher=slurm")
    assert done.returncode == 2
    assert words in done.stderr
    assert setting in done.stderr
    assert "Traceback" not in done.stderr
    stubs.calls()
    data = json.loads(stubs.sweeps("status", "s", f"root={tmp_path}", "--json").stdout)
    assert (data["at_work"], data["counts"]) == (False, {"todo": 1})
    assert stubs.calls() == []  # nothing was accepted, so nobody is asked


def test_an_unclear_answer_is_not_taken_for_a_refusal(stubs: Stubs, tmp_path: Path) -> None:
    stubs.answer("sbatch", err="sbatch: error: Socket timed out on send/recv operation\n", rc=1)
    done = stubs.sweeps("submit", "algorithm=grpo", "name=s", f"root={tmp_path}", "launcher=slurm")
    assert done.returncode == 2
    assert "may have been accepted" in done.stderr
    (submission,) = Ledger(tmp_path / "s").submissions()
    stubs.answer("squeue", f"77|RUNNING|s-{submission.nonce}|None\n")  # it had been
    data = json.loads(stubs.sweeps("status", "s", f"root={tmp_path}", "--json").stdout)
    assert data["counts"] == {"pending": 1}


def test_without_slurm_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run_cli("submit", "algorithm=grpo", f"root={tmp_path}", "launcher=slurm")
    assert done.returncode == 2
    assert "there is no sbatch, srun, squeue, scancel on this machine" in done.stderr
    assert "launcher=local" in done.stderr
    assert list(tmp_path.glob("*/submissions")) == []


def test_status_without_a_scheduler_says_so_and_goes_by_files(stubs: Stubs, tmp_path: Path) -> None:
    stubs.sweeps("submit", "algorithm=grpo", "name=s", f"root={tmp_path}", "launcher=slurm")
    stubs.answer("squeue", err="slurm_load_jobs error: Unable to contact slurm controller\n", rc=1)
    done = stubs.sweeps("status", "s", f"root={tmp_path}")
    assert done.returncode == 0
    assert "Slurm was not reached" in done.stdout
    assert "Unable to contact" in done.stdout


# --- the view ----------------------------------------------------------------------------------------------


class Told:
    """Answers of squeue and sacct, counted."""

    def __init__(self, squeue: Answer, sacct: Answer) -> None:
        self.answers = {"squeue": squeue, "sacct": sacct}

    def __call__(self, command: Any) -> Answer:
        return self.answers[command[0]]


def view(squeue: Answer, sacct: Answer | None = None) -> SlurmView:
    """A view of one submission called ``n1``."""
    return SlurmView({"n1": "s-n1"}, since=0.0, ask=Told(squeue, sacct or Answer()))


CLAIM: Mapping[str, Any] = {"slurm_job": "7_1"}


@pytest.mark.parametrize(
    ("squeue", "sacct", "expected"),
    [
        (("7_1|RUNNING|s-n1|None",), (), ("running", "Slurm job 7_1 RUNNING")),
        (("7_1|COMPLETING|s-n1|None",), (), ("running", "Slurm job 7_1 COMPLETING")),
        (("7_1|PENDING|s-n1|BeginTime",), (), ("killed", "Slurm job 7_1 was requeued (PENDING)")),
        ((), ("7_1|TIMEOUT|0:0",), ("killed", "Slurm job 7_1 TIMEOUT 0:0")),
        ((), ("7_1|CANCELLED by 1000|0:0",), ("killed", "Slurm job 7_1 CANCELLED by 1000 0:0")),
        ((), ("7_1|NODE_FAIL|0:0",), ("killed", "Slurm job 7_1 NODE_FAIL 0:0")),
        ((), ("7_1|RUNNING|0:0",), None),  # accounting lags: the files decide
        ((), ("7_2|FAILED|1:0",), None),
        ((), (), None),
    ],
)
def test_verdicts(squeue: tuple[str, ...], sacct: tuple[str, ...], expected: object) -> None:
    assert view(Answer(squeue), Answer(sacct)).verdict(CLAIM) == expected


def test_a_failed_query_is_evidence_of_nothing() -> None:
    blind = view(Answer(error="no answer"), Answer(("7_1|FAILED|1:0",)))
    assert blind.verdict(CLAIM) is None
    assert blind.queued("n1") is None
    assert view(Answer()).verdict({"host": "n1"}) is None


def test_sacct_is_asked_once_and_only_if_a_job_is_gone() -> None:
    busy = view(Answer(("7_1|RUNNING|s-n1|None",)))
    busy.verdict(CLAIM)
    assert busy.asked == ["squeue"]
    for job in ("8_1", "8_2"):
        busy.verdict({"slurm_job": job})
    assert busy.asked == ["squeue", "sacct"]
    assert busy.queued("n1") is True


def test_a_submission_absent_from_the_queue_leaves_its_runs_to_do(tmp_path: Path) -> None:
    """One pending element that is cancelled leaves no trace anywhere: the runs are simply to do."""
    ledger = write_plan(tmp_path)
    submission = ledger.open_submission({"launcher": {"kind": "slurm"}, "retry": []})
    (submission.path / "ack.json").write_text('{"job": "7"}')
    names_of = {submission.nonce: "tiny-x"}
    queued = SlurmView(names_of, 0.0, Told(Answer(("7_0|PENDING|tiny-x|None",)), Answer()))
    assert status_of(ledger, queued).counts == {"pending": 4}
    gone = SlurmView(names_of, 0.0, Told(Answer(), Answer()))
    assert status_of(ledger, gone).counts == {"todo": 4}
    assert to_json_data(status_of(ledger, gone))["scheduler"] == {"asked": ["squeue"], "error": ""}


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    with pytest.raises(LaunchError, match="chmod go-w"):
        check_private(tmp_path)
    tmp_path.chmod(0o700)
    check_private(tmp_path)


def test_options_of_the_user_have_the_last_word() -> None:
    parameters = sbatch_parameters(Slurm(options={"no-requeue": False, "requeue": True}), "n", 2)
    assert parameters["additional_parameters"] == {"requeue": True}
