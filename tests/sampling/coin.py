"""A policy without a network: every attempt at a task passes with the task's own probability."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from gagar_core.grading.live import LiveGrader
from gagar_core.grading.rules import NoGrader
from gagar_core.protocols import SamplingPolicy
from gagar_core.training.feed import TaskFeed
from gagar_core.training.step import StepData
from gagar_core.training.trainer import Parts, Trainer
from gagar_core.types import Group, Task, Trajectory

PLAIN = Trajectory(
    task_id="t", segments=(), files={}, verdict="pass", stop_reason="submit", gen_tokens=1, obs_tokens=0, turns=1,
    tool_calls=1, tool_errors=0, test_runs=0, redundant_test_runs=0, edits=0, program_lines=0, program_nodes=0,
)  # fmt: skip


def tasks(count: int, difficulty: float = 0.5) -> list[Task]:
    return [
        Task(
            id=f"t{i}",
            kind="code",
            statement="s",
            spec=(),
            entry_point="f",
            public=(),
            reward=(),
            label=(),
            audit=(),
            difficulty=difficulty,
        )
        for i in range(count)
    ]


def group(words: str, task: Task | None = None, number: int = 0) -> Group:
    """A group by the verdicts of its trajectories."""
    rows = tuple(replace(PLAIN, verdict=verdict) for verdict in words.split())
    return Group(number, task or tasks(1)[0], rows)


class Coin:
    """Passes with the probability of a task; one attempt in fifty is lost to infrastructure."""

    def __init__(self, pass_rate: Callable[[Task], float]) -> None:
        self._pass_rate = pass_rate
        self.asked: list[str] = []

    def rollouts(self, tasks: Sequence[Task], generator: torch.Generator) -> list[Trajectory]:
        self.asked += [task.id for task in tasks]
        draws = torch.rand(len(tasks), 2, generator=generator).tolist()
        verdicts = [
            "pass" if a < self._pass_rate(t) else "wrong" for t, (a, _) in zip(tasks, draws, strict=True)
        ]
        return [
            replace(PLAIN, task_id=task.id, verdict="infra" if lost < 0.02 else verdict, gen_tokens=7)
            for task, verdict, (_, lost) in zip(tasks, verdicts, draws, strict=True)
        ]

    def logprobs(self, trajectories: Sequence[Trajectory], tasks: Sequence[Task]) -> Any:
        raise NotImplementedError


def sampler(
    sampling: SamplingPolicy,
    pass_rate: Callable[[Task], float],
    count: int = 60,
    per_step: int = 8,
    group_size: int = 6,
    seed: int = 0,
) -> Trainer:
    """A real trainer of which only the sampling parts are used."""
    nothing: Any = None
    parts = Parts(
        policy=Coin(pass_rate), sampling=sampling, grader=LiveGrader(NoGrader(), 0), shaping=nothing, estimator=nothing,
        weighting=nothing, redistribution=nothing, updater=nothing, feed=TaskFeed(tasks(count), per_step, seed),
        sandbox=nothing, clock=nothing, group_size=group_size, seed=seed,
    )  # fmt: skip
    return Trainer(parts)


def play(trainer: Trainer, steps: Sequence[int]) -> list[StepData]:
    """The sampling parts of these steps."""
    done = []
    for step in steps:
        data = StepData(step)
        for _, part in trainer.parts_of_step[:3]:
            part(data)
        done.append(data)
    return done


def fingerprint(steps: Sequence[StepData], state: Mapping[str, Any]) -> str:
    """What was drawn and decided, as one hash."""
    told = [
        [data.step, data.rounds, data.drop_reasons]
        + [[g.id, g.task.id, [t.verdict for t in g.trajectories]] for g in data.groups]
        for data in steps
    ]
    return hashlib.sha256(json.dumps([told, state]).encode()).hexdigest()
