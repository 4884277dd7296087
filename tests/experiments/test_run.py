"""One run end to end, on real programs: identical twice, killed and started again, refused when it must be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from experiments.attempts import Attempt, claim, create_run_folder
from experiments.compose import compose
from experiments.execute import execute
from experiments.run import run
from experiments.schema import RunConfig
from gagar_core import records
from gagar_core.errors import GagarError, RecordsError, SandboxError, StoppedError

WORDS = [
    "budget=smoke",
    "budget.eval_tasks=6",
    "budget.eval_attempts=1",
    "tasks.public_tests=1",
    "tracking=none",
]
"""A smoke run whose policy passes now and then, so that there are mixed groups."""

ROOT = Path(__file__).parent.parent.parent


def config(root: Path, *words: str) -> RunConfig:
    return compose([*WORDS, f"root={root}", *words])


@pytest.fixture(scope="module")
def finished(shared_root: Path) -> Path:
    """A finished gagar run."""
    folder = create_run_folder(config(shared_root, "algorithm=gagar"))
    execute(folder, claim(folder).number)
    return folder


def test_tables_are_complete_and_consistent(finished: Path) -> None:
    steps = records.read(finished, "steps")
    trajectories = records.read(finished, "trajectories")
    segments = records.read(finished, "segments")
    evals = records.read(finished, "evals")
    assert steps["step"].to_list() == [0, 1, 2]
    assert trajectories.height == 3 * 6 * 6
    assert trajectories["group_id"].n_unique() == 18
    assert sorted(evals["step"].unique()) == [0, 3]
    assert evals.height == 2 * 6
    # the step table is the trajectories, summed up
    again = trajectories.group_by("step").agg(
        pl.col("passed").mean().alias("pass_rate"),
        pl.col("gen_tokens").cast(pl.Int64).sum(),
        pl.col("test_runs").mean().alias("mean_test_runs"),
        pl.col("truncated").mean().alias("truncated_rate"),
        pl.col("kept").sum().alias("traj_used"),
    )
    for row in again.to_dicts():
        step = steps.filter(pl.col("step") == row["step"]).to_dicts()[0]
        for name in ("pass_rate", "gen_tokens", "mean_test_runs", "truncated_rate"):
            assert step[name] == pytest.approx(row[name])
    # token counts of trajectories are those of their segments
    tokens = segments.group_by("step", "group_id", "sample_idx", "role").agg(pl.col("num_tokens").sum())
    agent = tokens.filter(pl.col("role") == "agent").join(trajectories, on=["step", "group_id", "sample_idx"])
    assert agent.height == trajectories.height
    assert (agent["num_tokens"] == agent["gen_tokens"]).all()


def test_audit_is_measured_and_stricter_than_pass(finished: Path) -> None:
    trajectories = records.read(finished, "trajectories")
    assert trajectories["audit_n"].unique().to_list() == [24]
    assert not trajectories.filter(pl.col("audit_passed") & ~pl.col("passed")).height


def test_seconds_are_told_by_phase(finished: Path) -> None:
    steps = records.read(finished, "steps")
    phases = ("rollout", "execute", "grade", "train")
    parts = sum(steps[f"{phase}_s"].fill_null(0.0) for phase in phases)
    assert (parts <= steps["step_s"] * 1.01).all()
    assert (parts >= steps["step_s"] * 0.5).all()


def test_same_seed_same_digest_other_seed_other_digest(finished: Path, tmp_path: Path) -> None:
    words = ("algorithm=gagar",)
    again = create_run_folder(config(tmp_path, *words))  # another root: its artifact is built again as well
    execute(again, claim(again).number)
    assert records.digest(again) == records.digest(finished)
    other = create_run_folder(config(tmp_path, *words, "seed=1"))
    execute(other, claim(other).number)
    assert records.digest(other) != records.digest(finished)


def test_killed_and_started_again_gives_the_same_result(
    finished: Path, shared_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "artifacts").symlink_to(shared_root / "artifacts")
    words = [*WORDS, "algorithm=gagar", f"root={tmp_path}"]
    folder = create_run_folder(compose(words))
    code = (
        "import sys; from pathlib import Path; from experiments.attempts import claim\n"
        "from experiments.execute import execute\n"
        f"folder = Path({str(folder)!r}); attempt = claim(folder)\n"
        "execute(folder, attempt.number, lambda line: print('step', flush=True))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "step\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not records.RunFolder(folder).finished
    run(compose(words))
    assert records.RunFolder(folder).attempts() == [1, 2]
    assert records.RunFolder(folder).result["attempt"] == 2
    assert records.digest(folder) == records.digest(finished)


def test_a_finished_run_is_not_run_again(
    finished: Path, shared_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    run(config(shared_root, "algorithm=gagar"))
    assert "is already done" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()} == before


def test_a_run_in_progress_is_not_started_twice(shared_root: Path) -> None:
    words = ("algorithm=rloo", "seed=5")
    claim(create_run_folder(config(shared_root, *words)))  # held by this living process
    with pytest.raises(GagarError, match="being run by another process"):
        run(config(shared_root, *words))


def test_a_folder_of_another_version_is_refused_untouched(tmp_path: Path) -> None:
    folder = create_run_folder(config(tmp_path))
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    text = path.read_text()
    with pytest.raises(RecordsError, match="version 2; this code reads version 1"):
        run(config(tmp_path))
    assert path.read_text() == text
    assert not (folder / "attempts").exists()


def test_an_unwritable_root_is_named() -> None:
    with pytest.raises(RecordsError, match=r"cannot write to /proc/nowhere.*give another root="):
        create_run_folder(config(Path("/proc/nowhere")))


def test_divergence_is_a_result_that_names_the_step(shared_root: Path) -> None:
    words = ("algorithm=dr_grpo", "sampling=keep_all", "trainer.lr=1e30", "budget.steps=5")
    folder = create_run_folder(config(shared_root, *words))
    result = execute(folder, claim(folder).number)
    assert result["status"] == "diverged"
    assert "at step" in result["reason"]


def test_audit_tests_reach_neither_training_nor_selection(finished: Path, shared_root: Path) -> None:
    """Other audit tests, same everything else: only audit columns may differ."""
    import gagar_core.tasks.list_functions as suite_module
    from gagar_core.types import Case

    original = suite_module.ListFunctions._task

    def with_other_audits(self, *args):  # type: ignore[no-untyped-def]
        from dataclasses import replace

        task = original(self, *args)
        return replace(task, audit=tuple(Case(case.args, 10**6) for case in task.audit[:5]))

    words = ("algorithm=gagar", "name=other_audits")
    folder = create_run_folder(config(shared_root, *words))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite_module.ListFunctions, "_task", with_other_audits)
        execute(folder, claim(folder).number)
    for table in records.schema.RUN_TABLES:
        names = records.schema.column_names(table, result_only=True)
        kept = [name for name in names if "audit" not in name and not name.startswith("sandbox_")]
        one, two = (records.read(path, table).select(kept) for path in (finished, folder))
        assert one.equals(two, null_equal=True), table
    assert records.read(folder, "trajectories")["audit_passed"].sum() == 0


def test_advantages_of_a_run_recomputed_by_hand(finished: Path) -> None:
    """Dr. GRPO base; the passing sum is kept, in proportion to the recorded weights; failing rows stay."""
    frame = records.read(finished, "trajectories").filter(pl.col("kept"))
    groups = frame.partition_by("group_id")
    assert groups
    for group in groups:
        passed = group["passed"].to_numpy()
        base = passed - passed.mean()
        np.testing.assert_allclose(group["adv_base"].to_numpy(), base, atol=1e-12)
        used, weight = group["adv_used"].to_numpy(), group["weight"].to_numpy()
        np.testing.assert_allclose(used[passed].sum(), base[passed].sum(), atol=1e-12)
        np.testing.assert_array_equal(used[~passed], base[~passed])
        np.testing.assert_allclose(
            used[passed] / used[passed].max(), weight[passed] / weight[passed].max(), atol=1e-12
        )


def test_attempt_numbers_never_collide(tmp_path: Path) -> None:
    folder = create_run_folder(config(tmp_path))
    numbers = [claim(folder).number for _ in range(3)]
    assert numbers == [1, 2, 3]
    Attempt(folder, 3).exit("ok")
    Attempt(folder, 3).exit("failed", "too late")
    assert records.read_json(folder / "attempts/3/exit.json")["status"] == "ok"


STEPS = 7


def test_killed_at_any_step_and_resumed_three_times_in_a_row(shared_root: Path, tmp_path: Path) -> None:
    """The digest of a run that is interrupted over and over is that of one that is not."""
    words = ("algorithm=gagar", f"budget.steps={STEPS}", "budget.eval_every=2", "checkpoint_every=1")
    whole = create_run_folder(config(shared_root, *words))
    execute(whole, claim(whole).number)
    (tmp_path / "artifacts").symlink_to(shared_root / "artifacts")
    folder = create_run_folder(config(tmp_path, *words))
    rng = np.random.default_rng(0)
    for number in range(1, 4):
        kill_after(folder, int(rng.integers(1, 3)), signal.SIGKILL)
        assert records.RunFolder(folder).attempts() == list(range(1, number + 1))
    result = run(config(tmp_path, *words))
    assert result["attempt"] == 4
    assert records.digest(folder) == records.digest(whole)
    attempts = records.read(folder, "steps").sort("step")["attempt"].to_list()
    assert len(set(attempts)) > 1  # steps of earlier attempts were kept, not run again
    assert attempts == sorted(attempts)


def test_sigterm_stops_after_a_checkpoint(shared_root: Path, tmp_path: Path) -> None:
    words = ("algorithm=gagar", f"budget.steps={STEPS}", "budget.eval_every=2", "checkpoint_every=0")
    (tmp_path / "artifacts").symlink_to(shared_root / "artifacts")
    folder = create_run_folder(config(tmp_path, *words))
    code, output = kill_after(folder, 2, signal.SIGTERM)
    assert code == 1
    assert "StoppedError: stopped by a signal after step" in output
    assert len(list((folder / "checkpoints").iterdir())) == 1
    run(config(tmp_path, *words))
    whole = create_run_folder(
        config(shared_root, *words)
    )  # checkpoints are bookkeeping: the same run as above
    if not records.RunFolder(whole).finished:
        execute(whole, claim(whole).number)
    assert records.digest(folder) == records.digest(whole)


def kill_after(folder: Path, steps: int, number: signal.Signals) -> tuple[int, str]:
    """Start an attempt in a process of its own and signal it after some steps; its exit code and stderr."""
    code = (
        "from pathlib import Path; from experiments.attempts import claim; from experiments.execute import execute\n"
        f"folder = Path({str(folder)!r}); attempt = claim(folder)\n"
        "execute(folder, attempt.number, lambda line: print('step', flush=True))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(steps):
        assert process.stdout.readline() == "step\n"
    process.send_signal(number)
    _, errors = process.communicate()
    return process.returncode, errors


def test_an_attempt_that_was_replaced_meanwhile_publishes_nothing(finished: Path, shared_root: Path) -> None:
    folder = create_run_folder(config(shared_root, "algorithm=gagar", "name=replaced"))
    first = claim(folder)
    claim(folder)  # someone took this run for dead and began again
    with pytest.raises(StoppedError, match=r"attempt 2 of .* was begun meanwhile"):
        execute(folder, first.number)
    assert not (folder / "result.json").exists()


def test_a_refused_level_leaves_nothing_behind_and_can_be_put_right(tmp_path: Path) -> None:
    words = [
        *WORDS,
        "algorithm=grpo",
        "budget.steps=1",
        "budget.sft_demos=64",
        "budget.sft_epochs=1",
        f"root={tmp_path}",
    ]
    with pytest.raises(SandboxError, match="rlimits"):
        run(compose([*words, "sandbox.level=rlimits", "sandbox.allow_no_isolation=true"]))
    assert not list(tmp_path.glob("artifacts/sft/*/done.json"))
    assert run(compose(words))["status"] == "finished"
