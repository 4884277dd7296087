"""Previews, selections, limits, diff and clean: on real folders, with hand-written executions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gates import run_cli
from plans import finish, write_plan

from experiments.attempts import Attempt, create_run_folder, try_claim
from gagar_core.errors import ConfigError, GagarError, LaunchError
from gagar_core.records import publish_once, read_json, to_json
from sweeps.clean import clean
from sweeps.estimate import estimate
from sweeps.jobs import Job
from sweeps.launchers import Local, Slurm
from sweeps.ledger import Ledger
from sweeps.plan_source import PlanSource, config_of
from sweeps.puller import Puller
from sweeps.selection import select
from sweeps.status import look_at, table
from sweeps.submit import missing

GONE = {"host": "h", "pid": 2**22 + 1, "pid_start": 1}


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of every file."""
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in sorted(root.rglob("*")) if p.is_file()}


def begin(ledger: Ledger, index: int, number: int = 1, **by: object) -> Attempt:
    """Claim one run."""
    attempt = try_claim(create_run_folder(config_of(ledger.runs[index], ledger)), number, **by)
    assert attempt is not None
    return attempt


def end(attempt: Attempt, cpu_s: float = 100.0) -> None:
    """A result and an exit file."""
    publish_once(attempt.folder / "result.json", to_json({"status": "finished", "attempt": attempt.number}))
    attempt.exit("ok", cpu_s=cpu_s, max_rss_mb=300.0)


def build_artifacts(ledger: Ledger) -> None:
    """As if they had been built."""
    for line in ledger.artifacts:
        ledger.artifact_folder(line).mkdir(parents=True)
        publish_once(ledger.artifact_folder(line) / "done.json", to_json({}))


# ---- dry run and estimate


def test_a_dry_run_shows_gpu_hours_and_script_and_touches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs = tmp_path / "bin"
    stubs.mkdir()
    for name in ("sbatch", "srun", "squeue", "sacct", "scancel"):
        (stubs / name).write_text(f'#!/bin/sh\necho {name} >> "{tmp_path}/called"\n')
        (stubs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{stubs}:{os.environ['PATH']}")
    root = tmp_path / "runs"
    words = (
        "submit", "algorithm=grpo,rloo,dr_grpo", "seed=range(10)", f"root={root}", "name=dry", "--dry-run",
        "launcher=slurm", "launcher.gpus=2", "launcher.time_min=240", "workers=30", "launcher.partition=big",
    )  # fmt: skip
    done = run_cli(*words)
    assert done.returncode == 0, done.stderr
    assert "30 runs, 10 artifacts" in done.stdout
    assert "30 x 2 GPU x 4 h = 240 GPU-hours at most" in done.stdout
    for line in ("--gpus-per-node=2", "--time=240", "--partition=big", "--array=0-29%30", "--no-requeue"):
        assert f"#SBATCH {line}" in done.stdout
    assert not root.exists()
    assert not (tmp_path / "called").exists()


def test_the_cost_comes_from_past_runs_of_the_same_configuration(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    assert estimate(ledger.runs, tmp_path, Local()).known == 0
    end(begin(ledger, 0), cpu_s=1800.0)  # grpo, seed 0
    cost = estimate(ledger.runs[1:], tmp_path, Local())
    assert (cost.runs, cost.known, cost.cpu_hours, cost.peak_mb) == (3, 3, 1.5, 300.0)
    end(begin(ledger, 1), cpu_s=3600.0)  # rloo, seed 0: each variant has its own past now
    assert estimate(ledger.runs[2:], tmp_path, Local()).cpu_hours == pytest.approx(0.5 + 1.0)
    assert "2 runs to do: about 1.50 CPU-hours" in estimate(ledger.runs[2:], tmp_path, Local()).text(Local())
    slots = Slurm(workers=8, slots=2, gpus=1, time_min=90)
    assert estimate(ledger.runs, tmp_path, slots).gpu_hours_at_most == 2 * 1 * 1.5


def test_plan_as_data(tmp_path: Path) -> None:
    done = run_cli("plan", "algorithm=grpo", f"root={tmp_path}", "--json")
    data = json.loads(done.stdout)
    assert (data["schema_version"], [line["kind"] for line in data["lines"]]) == (1, ["artifact", "run"])
    assert data["estimate"]["runs"] == 1
    assert list(tmp_path.iterdir()) == []


# ---- selection


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["algorithm=grpo"], [("grpo", 0), ("grpo", 1)]),
        (["seed<1"], [("grpo", 0), ("rloo", 0)]),
        (["algorithm=rloo", "seed>=1"], [("rloo", 1)]),
        (["state=failed"], [("rloo", 0)]),
        (["state!=failed", "seed=0"], [("grpo", 0)]),
        (["state=failed,todo", "seed=0,1"], [("grpo", 0), ("rloo", 0), ("grpo", 1), ("rloo", 1)]),
        (["variant=g*"], [("grpo", 0), ("grpo", 1)]),
        (["estimator=rloo"], [("rloo", 0), ("rloo", 1)]),
        (["budget.steps<=3", "seed=1"], [("grpo", 1), ("rloo", 1)]),
        (["budget.steps>3"], []),
        (["sandbox.allow_no_isolation=true"], []),
        (["rloo:1"], [("rloo", 1)]),
        (["?loo"], [("rloo", 0), ("rloo", 1)]),
        (["attempt=1"], [("rloo", 0)]),
    ],
)
def test_what_a_selection_means(words: list[str], expected: list[tuple[str, int]], tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    begin(ledger, 1).exit("failed", "ValueError: x")
    rows = select(look_at(ledger).runs, words)
    assert [(row.line["variant"], row.line["seed"]) for row in rows] == expected


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("state=broken", "state must be one of done"),
        ("seed<many", "not a number"),
        ("sede=1", "cannot select by sede; keys: state, seed"),
        ("nobody", "names 0 runs; there are: "),
    ],
)
def test_a_selection_that_cannot_be_meant(word: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        select(look_at(write_plan(tmp_path)).runs, [word])


def test_status_and_logs_take_selections(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    attempt = begin(ledger, 1)
    (attempt.path / "log.txt").write_text("RuntimeError: cuda oom\n")
    attempt.exit("failed", "RuntimeError: cuda oom")
    done = run_cli("status", "tiny", f"root={tmp_path}", "state=failed", "--json", "--exit-code")
    (run,) = json.loads(done.stdout)["runs"]
    assert (done.returncode, run["evidence"]) == (1, "RuntimeError: cuda oom")
    assert run["log"] == str(attempt.path / "log.txt")
    assert "cuda oom" in run_cli("logs", "tiny", f"root={tmp_path}", "algorithm=rloo", "seed=0").stdout
    assert "names 2 runs" in run_cli("logs", "tiny", f"root={tmp_path}", "algorithm=rloo").stderr
    watched = run_cli("status", "tiny", f"root={tmp_path}", "--watch")  # nobody works: one look, then the end
    assert watched.stdout == run_cli("status", "tiny", f"root={tmp_path}").stdout


# ---- resume (what is missing) and limits


def test_resume_takes_the_lost_and_the_never_begun_and_leaves_the_done_alone(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path, seeds=3)
    build_artifacts(ledger)
    for index in range(3):
        end(begin(ledger, index))
    begin(ledger, 3).exit("failed", "ValueError: x")
    begin(ledger, 4, **GONE)  # its process is gone
    before = tree(ledger.path / "runs")
    status = look_at(ledger)
    assert [row.state for row in status.runs] == ["done"] * 3 + ["failed", "lost", "todo"]
    assert missing(status) == [ledger.runs[index]["run_id"] for index in (4, 5)]
    assert len(missing(status, ["failed"])) == 3
    submission = ledger.open_submission({"launcher": {"kind": "local"}, "retry": []})
    Puller(PlanSource(ledger, submission.nonce, limits=True), 1, finish, say=lambda text: None).work()
    assert look_at(ledger).counts == {"done": 5, "failed": 1}
    after = tree(ledger.path / "runs")
    done = [path for path in before if any(ledger.runs[index]["run_id"] in path for index in range(3))]
    assert {path: before[path] for path in done} == {path: after[path] for path in done}


def pull(ledger: Ledger, perform: Callable[[Job], None], **intent: object) -> None:
    """One submission with a worker of one slot."""
    submission = ledger.open_submission({"launcher": {"kind": "local"}, "retry": [], **intent})
    Puller(PlanSource(ledger, submission.nonce, limits=True), 1, perform, say=lambda text: None).work()
    publish_once(submission.path / "void.json", to_json({}))  # so that it does not look as if just started


def fails(job: Job) -> None:
    """A job that cannot work."""
    raise ImportError("no module named x")


@pytest.mark.parametrize(("most", "failed", "skipped"), [(2, 2, 8), (0, 10, 0)])
def test_no_more_is_begun_once_too_many_have_failed(
    most: int, failed: int, skipped: int, tmp_path: Path
) -> None:
    ledger = write_plan(tmp_path, seeds=5)
    build_artifacts(ledger)
    pull(ledger, fails, max_failures=most)
    status = look_at(ledger)
    assert (status.counts.get("failed", 0), status.counts.get("skipped", 0)) == (failed, skipped)
    assert ("2 runs failed and --max-failures is 2" in table(status)) == bool(skipped)
    assert len(missing(status)) == skipped
    pull(ledger, finish)  # another submission takes what was skipped
    assert look_at(ledger).counts == {"done": skipped, "failed": failed} if skipped else {"failed": 10}


def test_a_submission_restricted_to_some_runs_takes_no_others(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    chosen = ledger.runs[1]["run_id"]
    pull(ledger, finish, only=[chosen])
    assert [row.state for row in look_at(ledger).runs] == ["todo", "done", "todo", "todo"]
    assert [ledger.is_done(line) for line in ledger.artifacts] == [True, False]


# ---- diff


def test_diff_names_settings_code_and_environment(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    meta = {"code": {"commit": "a", "dirty": False}, "host": "n1", "versions": {"torch": "2.0", "numpy": "1"}}
    for index, changes in (
        (0, {}),
        (1, {"code": {"commit": "b", "dirty": True}, "versions": {"torch": "2.1", "numpy": "1"}}),
    ):
        publish_once(begin(ledger, index).folder / "meta.json", to_json({**meta, **changes}))
    done = run_cli("diff", "tiny", "grpo:0", "rloo:0", f"root={tmp_path}")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert '  estimator.kind: "grpo" -> "rloo"' in lines
    assert '  commit: "a" -> "b"' in lines
    assert '  versions.torch: "2.0" -> "2.1"' in lines
    assert not [line for line in lines if "numpy" in line or "host" in line or "policy" in line]
    data = json.loads(run_cli("diff", "tiny", "grpo:0", "rloo:0", f"root={tmp_path}", "--json").stdout)
    assert data["code"] == {"commit": ["a", "b"], "dirty": [False, True]}
    folders = [str(ledger.run_folder(line["run_id"])) for line in ledger.runs[:1]] * 2
    same = run_cli("diff", *folders)
    assert (same.returncode, same.stdout.count("the same")) == (0, 4)
    assert "no run was begun there" in run_cli("diff", "tiny", "grpo:0", "grpo:1", f"root={tmp_path}").stderr
    assert "diff compares two runs" in run_cli("diff", "tiny", "grpo:0", f"root={tmp_path}", "a", "b").stderr


# ---- clean


def test_a_second_run_is_asked_for_and_a_sweep_without_a_spec_is_resumed(tmp_path: Path) -> None:
    write_plan(tmp_path)
    root = f"root={tmp_path}"
    told = run_cli("diff", "tiny", "grpo:0", root).stderr
    assert "diff compares two runs; got grpo:0" in told
    for verb in ("submit", "plan"):
        told = run_cli(verb, "tiny", root).stderr
        assert f"no spec: `python -m sweeps resume tiny {root}` goes on with it" in told
    assert "there is no spec" in run_cli("plan", "other", root).stderr


def old(path: Path) -> Path:
    """As if written an hour ago."""
    moment = time.time() - 3600
    os.utime(path, (moment, moment))
    return path


def test_clean_prints_first_and_removes_only_what_nobody_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = write_plan(tmp_path)
    done, stopped = begin(ledger, 0), begin(ledger, 1)
    end(done)
    stopped.exit("killed", "time limit")
    for attempt in (done, stopped):
        (attempt.folder / "checkpoints").mkdir()
        (attempt.folder / "checkpoints" / "10.npz").write_bytes(b"x" * 1000)
    torn = old_file = done.folder / ".result.json.1.ab.tmp"
    torn.write_bytes(b"{")
    old(old_file)
    fresh = stopped.folder / ".x.2.cd.tmp"
    fresh.write_bytes(b"")
    before = tree(tmp_path)
    assert clean(ledger, [], yes=False) == 0
    assert "2 to remove, 0.00 MB; --yes does it" in capsys.readouterr().out
    assert tree(tmp_path) == before
    clean(ledger, [], yes=True)
    gone = before.keys() - tree(tmp_path).keys()
    assert gone == {str(done.folder / "checkpoints" / "10.npz"), str(torn)}


def test_clean_of_selected_runs_lets_them_begin_anew_but_never_a_done_one(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    end(begin(ledger, 0))
    begin(ledger, 1).exit("failed", "ValueError: x")
    with pytest.raises(ConfigError, match="results are never removed"):
        clean(ledger, ["seed=0"], yes=True)
    clean(ledger, ["state=failed"], yes=True)
    assert [row.state for row in look_at(ledger).runs] == ["done", "todo", "todo", "todo"]


def test_clean_refuses_a_sweep_at_work_and_does_not_follow_links_outside(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    attempt = begin(ledger, 0)
    with pytest.raises(LaunchError, match="is being worked on"):
        clean(ledger, [], yes=True)
    end(attempt)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (attempt.folder / "checkpoints").symlink_to(outside)
    clean(ledger, [], yes=True)
    assert (outside / "precious").exists()
    assert not (attempt.folder / "checkpoints").exists()


# ---- disks that refuse


def test_a_full_disk_is_told_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    ledger = write_plan(tmp_path)
    script = (
        "import resource, sys\nfrom pathlib import Path\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from sweeps.ledger import Ledger, create\n"
        "ledger = Ledger(Path(sys.argv[1])); head = dict(ledger.head); lines = ledger.planned\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "from gagar_core.errors import GagarError\n"
        "try:\n create(Path(sys.argv[2]), head, lines)\nexcept GagarError as err:\n print(err)\n"
    )
    import subprocess
    import sys

    from gates import CHECKOUT

    target = tmp_path / "full" / "tiny"
    command = [sys.executable, "-c", script, str(ledger.path), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert "give another root=" in done.stdout
    assert not (target / "sweep.json").exists()
    assert not (target / "plan.jsonl").exists()
    assert issubclass(LaunchError, GagarError)
    assert read_json(ledger.path / "sweep.json")
