"""``python -m experiments replay``: the recorded advantages again, and what others would have been."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.__main__ import main
from experiments.attempts import create_run_folder
from experiments.compose import compose
from experiments.recorded.replaying import Recipe, StepRows, compare, step_rows
from experiments.replay import recipe
from gagar_core import records
from gagar_core.advantages.estimators import DrGrpo
from gagar_core.advantages.redistribution import NoRedistribution, Paper, SumPreserving
from gagar_core.advantages.weightings import Linear, Uniform
from gagar_core.records import RunFolder
from tests.experiments.recorded_run import FEW_TASKS

NAN = float("nan")
LINEAR = Recipe(DrGrpo(), Linear(), SumPreserving())

ROWS = StepRows(
    step=0,
    groups=np.array([7, 7, 7, 7]),
    passed=np.array([True, True, True, False]),
    rewards=np.array([1.0, 1.0, 1.0, 0.0]),
    lengths=np.array([10.0, 20.0, 30.0, 40.0]),
    graded=np.ones(4, np.bool_),
    grades={"ranks": np.array([1.0, 2.0, 3.0, NAN])},
    recorded=np.array([0.25 * 20 / 11, 0.25 * 11 / 11, 0.25 * 2 / 11, -0.75]),
)
"""Weights 1, .55, .1 on a base of .25: λ = .75 / .4125 = 20 / 11."""


def test_measures_are_those_worked_out_by_hand() -> None:
    found = compare(ROWS, LINEAR, Recipe(DrGrpo(), Linear(floor=0.4), SumPreserving()))
    # weights 1, .7, .4: λ = 3 / 2.1 = 10 / 7, advantages .25 * (10, 7, 4) / 7
    after = 0.25 * np.array([10 / 7, 1.0, 4 / 7])
    before = ROWS.recorded[:3]
    assert found.change == pytest.approx(np.abs(after - before).sum() / 4)
    assert (found.groups, found.comparable, found.reordered) == (1, 1, 0)
    assert [found.before.lambda_, found.after.lambda_] == pytest.approx([20 / 11, 10 / 7])
    assert found.after.moved == pytest.approx(0.0, abs=1e-15)
    assert found.after.ess == pytest.approx(1.5**2 / ((after**2).sum() + 0.5625) / 4)
    assert found.after.covariance == pytest.approx(
        (-15 * after[0] - 5 * after[1] + 5 * after[2] - 15 * 0.75) / 4
    )


def test_order_caps_and_sums_are_told_apart() -> None:
    equal = compare(ROWS, LINEAR, Recipe(DrGrpo(), Uniform(), SumPreserving()))
    assert (equal.reordered, equal.after.fallback) == (1, 1)  # an order became a tie
    plain = compare(ROWS, LINEAR, Recipe(DrGrpo(), Linear(), NoRedistribution()))
    assert (plain.reordered, plain.after.capped) == (1, 0)
    assert np.isnan(plain.after.lambda_)
    cut = compare(ROWS, LINEAR, Recipe(DrGrpo(), Linear(), Paper()))
    # λ = 1.5 leaves .25 * 1.5 * 1.65 = .61875 on the passes; the missing .13125 goes to all four rows alike
    assert cut.after.capped == 1
    assert cut.after.moved == pytest.approx(0.13125 / 4)


def test_ungraded_kinds_are_exempt_as_in_training() -> None:
    rows = replace(ROWS, graded=np.zeros(4, np.bool_))
    assert compare(rows, LINEAR, LINEAR).after.fallback == 1


def test_the_recorded_advantages_come_back_from_the_records(recorded_run: Path) -> None:
    run = RunFolder(recorded_run)
    steps = list(step_rows(run))
    assert [step.step for step in steps] == [0, 1]
    again = recipe(run, [])
    assert again == LINEAR
    assert np.allclose(sorted(steps[1].recorded[:4]), sorted(ROWS.recorded), atol=0, rtol=1e-12)
    assert [len(step.groups) for step in steps] == [2, 6]  # the dropped group is not there
    assert recipe(run, ["weighting.floor=0.4"]).weighting == Linear(floor=0.4)
    assert recipe(run, ["redistribution=paper"]).redistribution == Paper()


def test_a_run_whose_grader_abstained_throughout_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["algorithm=gagar", "tracking=none", f"root={tmp_path}", "grader=constitution", *FEW_TASKS]
    folder = create_run_folder(compose(words))
    writer = records.RunWriter(folder, folder.name, 1)
    own = {"group_id": 0, "kept": True, "valid": True, "task_kind": "code", "gen_tokens": 9}
    for index, (passed, advantage) in enumerate([(True, 0.5), (False, -0.5)]):
        row = {"sample_idx": index, "passed": passed, "reward": float(passed), "adv_used": advantage}
        writer.add("trajectories", 0, [own | row])
    writer.end_step()
    writer.flush()
    for weighting in ("dcg", "softmax_score", "tiers"):
        assert main(["replay", str(folder), f"weighting={weighting}"]) == 0
        assert "bit for bit, in 1 of 1 steps" in " ".join(capsys.readouterr().out.split())


def test_command(recorded_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recorded_run), "redistribution=paper"]) == 0
    out = capsys.readouterr().out
    assert "3 groups in 2 steps entered the loss" in out
    assert re.search(r"order of passing rows changes in 0 of 1 group", out)
    assert "0→1" in out  # one group at the cap
    assert "1.82→1.5" in out


def test_faults_are_gathered_and_answered(recorded_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    label = f"gagar {' '.join(FEW_TASKS)}:0"
    root = f"root={recorded_run.parents[2]}"
    for words, said in (
        ([str(recorded_run)], ["say what to change"]),
        (
            ["a", "b", "loss=x", "--bins", "0"],
            ["one RUN; got 2", "loss=x: only estimator", "at least 1; got 0"],
        ),
        ([label, root, "weighting=lin"], ["lin", "geometric_span"]),
        ([label, root, "weighting.flor=0.2"], ["flor"]),
        ([label, root, "weighting=tiers"], ["needs tiers", "grader=trajectory_rule"]),
        (["nowhere", root, "weighting=linear"], [recorded_run.name]),
    ):
        assert main(["replay", *words]) == 2
        err = capsys.readouterr().err
        assert all(part in err for part in said), err
