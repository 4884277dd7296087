"""Groups of tasks that nobody grades keep their base advantages, whatever the method does to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gagar_core.advantages.estimators import DrGrpo, Grpo
from gagar_core.advantages.graded_weightings import BradleyTerry, LengthBucket, SoftmaxScore, Tiers, TiersFlat
from gagar_core.advantages.redistribution import NoRedistribution, SumPreserving
from gagar_core.advantages.shaping import NoShaping, ProductReward
from gagar_core.advantages.weightings import Linear
from gagar_core.grading.agentic import AgenticS
from gagar_core.grading.live import LiveGrader
from gagar_core.grading.rules import TrajectoryRule
from gagar_core.sampling.outcome import KeepAll
from gagar_core.sandbox import ProcessSandbox
from gagar_core.tasks.mixed import Mixed
from gagar_core.training.clock import PhaseClock
from gagar_core.training.feed import TaskFeed
from gagar_core.training.recording import StepRecorder
from gagar_core.training.step import NOT_GRADED, StepData
from gagar_core.training.trainer import Parts, Trainer
from gagar_core.types import Task, Trajectory
from tests.sampling.coin import PLAIN


class Sloppy:
    """Passes now and then, with more or less waste."""

    def rollouts(self, tasks: Sequence[Task], generator: torch.Generator) -> list[Trajectory]:
        draws = torch.randint(0, 5, (len(tasks), 3), generator=generator).tolist()
        return [
            replace(
                PLAIN, task_id=t.id, verdict="wrong" if a == 0 else "pass", edits=b, gen_tokens=10 + 9 * c
            )
            for t, (a, b, c) in zip(tasks, draws, strict=True)
        ]

    def logprobs(self, trajectories: Sequence[Trajectory], tasks: Sequence[Task]) -> Any:
        raise NotImplementedError


def step(
    sandbox: ProcessSandbox,
    redistribution: Any,
    weighting: Any,
    estimator: Any,
    grader: LiveGrader | None = None,
    shaping: Any = None,
) -> StepData:
    suite = Mixed().load()
    tasks = (*suite.train[:6], *suite.train[-6:])
    nothing: Any = None
    parts = Parts(
        policy=Sloppy(), sampling=KeepAll(), grader=grader or LiveGrader(TrajectoryRule(), 0),
        shaping=shaping or NoShaping(), estimator=estimator,
        weighting=weighting, redistribution=redistribution, updater=nothing, feed=TaskFeed(tasks, 12, 0),
        sandbox=sandbox, clock=PhaseClock(), group_size=6, seed=0,
    )  # fmt: skip
    data = StepData(0)
    for _, part in Trainer(parts).parts_of_step[:6]:
        part(data)
    return data


@pytest.mark.parametrize("weighting", [Linear(), LengthBucket()])
@pytest.mark.parametrize("all_pass", ["zero", "leave_one_out"])
@pytest.mark.parametrize("estimator", [DrGrpo(), Grpo()])
def test_redistribution_touches_code_groups_only(
    weighting: Any, all_pass: str, estimator: Any, sandbox: ProcessSandbox
) -> None:
    data = step(sandbox, SumPreserving(all_pass=all_pass), weighting, estimator)
    assert data.advantages is not None
    base, used = data.advantages.base, data.advantages.advantages
    code = np.array([data.task(row).kind == "code" for row in data.rows])
    assert 0 < code.sum() < len(code)
    np.testing.assert_array_equal(used[~code], base[~code])  # bit for bit
    assert np.count_nonzero(used[code] != base[code]) > 10
    assert (data.advantages.weights[~code] == 1.0).all()
    for group in data.groups:
        told = data.rankings[group.id].abstain
        assert told == (NOT_GRADED if group.task.kind == "answer" else "")


def test_no_grade_and_no_abstention_is_recorded_for_them(sandbox: ProcessSandbox) -> None:
    class Rows:
        def __init__(self) -> None:
            self.tables: dict[str, list[dict[str, Any]]] = {}

        def add(self, table: str, step: int, rows: list[dict[str, Any]]) -> None:
            self.tables.setdefault(table, []).extend(rows)

    data = step(sandbox, SumPreserving(), Linear(), DrGrpo())
    writer = Rows()
    audits = [0] * sum(len(group.trajectories) for group in data.groups)
    row = StepRecorder(writer, "trajectory_rule", "v").record(data, audits, {})  # type: ignore[arg-type]
    kinds = {g["group_id"]: g["task_kind"] for g in writer.tables["groups"]}
    assert set(kinds.values()) == {"code", "answer"}
    assert {kinds[grade["group_id"]] for grade in writer.tables["grades"]} == {"code"}
    assert row["groups_abstained"] == 0
    told = {g["abstain"] for g in writer.tables["groups"] if g["task_kind"] == "answer"}
    assert told == {NOT_GRADED}
    assert {t["task_kind"] for t in writer.tables["trajectories"]} == {"code", "answer"}


@pytest.mark.parametrize("weighting", [Linear(), SoftmaxScore(), BradleyTerry(), Tiers(), TiersFlat()])
def test_a_grader_that_abstains_throughout_leaves_base_advantages_to_every_reader_of_grades(
    weighting: Any, sandbox: ProcessSandbox
) -> None:
    grader = LiveGrader(AgenticS(), 0, reason="its snapshot is lost")
    for shaping in (NoShaping(), ProductReward()):
        data = step(sandbox, SumPreserving(), weighting, DrGrpo(), grader, shaping)
        assert data.advantages is not None
        assert np.array_equal(data.advantages.advantages, data.advantages.base)
        plain = step(sandbox, NoRedistribution(), Linear(), DrGrpo(), grader)
        assert plain.advantages is not None
        assert np.array_equal(data.advantages.base, plain.advantages.base)
        graded = [data.rankings[group.id].abstain for group in data.kept if group.task.kind == "code"]
        assert set(graded) == {"its snapshot is lost"}
