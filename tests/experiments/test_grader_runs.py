"""Runs with a grader that was trained, watched by a gold set and fitted again: records, ledger, resume."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from experiments import artifacts
from experiments.attempts import claim, create_run_folder
from experiments.compose import compose
from experiments.execute import execute
from experiments.grader_artifact import PARAMETERS, SNAPSHOT, load_snapshot
from experiments.schema import RunConfig, check_together
from experiments.train_grader import main
from gagar_core import records
from gagar_core.errors import ArtifactError, ConfigError

WORDS = [
    "algorithm=gagar", "budget=smoke", "budget.steps=4", "budget.eval_tasks=6", "budget.eval_attempts=1",
    "tasks.public_tests=1", "tracking=none", "checkpoint_every=1", "grader=distilled_xs", "grader.data_steps=1",
    "grader.gold_every=2", "grader.recalibrate_every=2", "grader.recalibrate_groups=6",
]  # fmt: skip


def config(root: Path, *words: str) -> RunConfig:
    return compose([*WORDS, f"root={root}", *words])


def finish(one: RunConfig) -> Path:
    folder = create_run_folder(one)
    execute(folder, claim(folder).number)
    return folder


def test_what_a_run_needs_is_a_chain_and_one_snapshot_serves_many_runs(tmp_path: Path) -> None:
    one = config(tmp_path)
    assert [spec.kind for spec in artifacts.required(one)] == ["sft", "graded_groups", "grader"]
    quiet = compose(
        [*WORDS, f"root={tmp_path}", "grader.gold_every=0", "grader.swap_prob=0.3", "weighting=dcg"]
    )
    assert artifacts.grader_of(quiet).digest == artifacts.grader_of(one).digest
    noisy = config(tmp_path, "grader.label_noise=0.5")
    assert artifacts.grader_of(noisy).digest != artifacts.grader_of(one).digest
    other = config(tmp_path, "grader.trained_on=weak_tests")
    assert [spec.kind for spec in artifacts.required(other)] == [
        "sft", "graded_groups", "sft", "graded_groups", "grader",
    ]  # fmt: skip
    rule = compose([f"root={tmp_path}", "algorithm=gagar"])
    assert [spec.kind for spec in artifacts.required(rule)] == ["sft"]


def test_impossible_words_are_refused_before_anything_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"grader.trained_on must be one of .*; got 'nothing'"):
        check_together(config(tmp_path, "grader.trained_on=nothing"))
    for words, told in (
        (["grader=none"], "judges nothing"),
        (["seeds=0"], "from 1 to 1000"),
        (["grader=distilled_xxl"], "distilled_xs"),
        (["grader=distilled_s", "grader.view=sideways"], "pairwise"),
    ):
        assert main([*words, f"root={tmp_path}"]) == 2
        assert told in capsys.readouterr().err
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.slow
def test_a_learned_grader_is_watched_fitted_again_and_resumed_to_the_same_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finish(config(tmp_path))
    steps = records.read(folder, "steps").sort("step")
    assert steps["gold_tau"].is_not_null().to_list() == [True, False, True, False]
    assert steps["recalibrated"].to_list() == [False, False, True, False]
    assert steps["gold_consistency"].drop_nulls().min() == pytest.approx(1.0, abs=0.01)
    cost = steps["recalibrate_cpu_s"].fill_null(0).to_list()  # asking whether it is due costs microseconds
    assert cost[2] > 100 * max(cost[0], cost[1], cost[3])
    grades = records.read(folder, "grades")
    gold = grades.filter(pl.col("is_gold"))
    assert sorted(gold["order_seed"].unique()) == [0, 1]
    assert gold["gold_rank"].is_not_null().all()
    done = [json.loads(path.read_text()) for path in tmp_path.glob("artifacts/*/*/done.json")]
    assert len(done) == 3
    assert all(one["cpu_s"] > 0 for one in done)

    # the same run, ended after step 3 as by kill -9: only what a checkpoint holds is left
    copy = config(tmp_path, "name=again")
    again = create_run_folder(copy)
    first = claim(again)
    stopped = execute_until(again, first.number, step=3)
    assert stopped == 3
    execute(again, claim(again).number)
    assert records.digest(again) == records.digest(folder)

    # a snapshot of another version costs the grades, not the run
    snapshot = artifacts.grader_of(config(tmp_path)).path()
    facts = json.loads((snapshot / SNAPSHOT).read_text())
    (snapshot / SNAPSHOT).write_text(json.dumps(facts | {"format": 99}))
    with pytest.raises(ArtifactError, match="format is 99"):
        load_snapshot(snapshot, config(tmp_path).grader)
    old = config(tmp_path, f"grader.snapshot={snapshot}", "budget.steps=1")
    groups = records.read(finish(old), "groups").filter(pl.col("kept"))
    assert groups["abstain"].str.contains("format is 99").all()
    assert groups.height == 0 or groups["adv_sum_used"].to_list() == groups["adv_sum_base"].to_list()
    assert "abstains on every group" in capsys.readouterr().err
    assert (snapshot / PARAMETERS).exists()


def execute_until(folder: Path, attempt: int, step: int) -> int:
    """Run until ``step`` steps are done, then break off without any tidying."""

    class Gone(BaseException):
        pass

    def progress(line: dict[str, object]) -> None:
        if line["step"] == step:
            raise Gone

    with pytest.raises(Gone):
        execute(folder, attempt, progress)
    return step
