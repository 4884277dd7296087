"""The training loop: a list of named parts, blind to which estimator, grader or loss it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gagar_core.advantages import compute_advantages
from gagar_core.grading.grade import grade_groups
from gagar_core.protocols import Estimator, Grader, Policy, SamplingPolicy, Sandbox, Shaping
from gagar_core.seeds import torch_stream
from gagar_core.training.clock import PhaseClock, untimed
from gagar_core.training.feed import TaskFeed
from gagar_core.training.step import StepData
from gagar_core.training.update import Updater
from gagar_core.types import Group


@dataclass(frozen=True)
class Parts:
    """Everything a trainer is made of; wired in one place by whoever owns the configuration."""

    policy: Policy
    sampling: SamplingPolicy
    grader: Grader
    shaping: Shaping
    estimator: Estimator
    weighting: Any
    redistribution: Any
    updater: Updater
    feed: TaskFeed
    sandbox: Sandbox
    clock: PhaseClock
    group_size: int
    seed: int


class Trainer:
    """Runs training steps; ``parts_of_step`` is the order of things."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.parts_of_step: Sequence[tuple[str, Callable[[StepData], None]]] = (
            ("rollout", self._rollout),
            ("rollout", self._select),
            ("grade", self._grade),
            ("train", self._advantages),
            ("train", self._update),
        )

    def run_step(self, step: int) -> StepData:
        """Sample, filter, grade, redistribute, update; a step without a usable group updates nothing."""
        data = StepData(step)
        for phase, part in self.parts_of_step:
            with self._parts.clock.phase(phase):
                part(data)
        self._parts.sandbox.end_step()
        return data

    def _rollout(self, data: StepData) -> None:
        parts, size = self._parts, self._parts.group_size
        tasks = parts.feed.at(data.step)
        repeated = [task for task in tasks for _ in range(size)]
        generator = torch_stream(parts.seed, "rollouts", data.step)
        trajectories = parts.policy.rollouts(repeated, generator)
        for position, task in enumerate(tasks):
            own = tuple(trajectories[position * size : (position + 1) * size])
            data.groups.append(Group(data.step * len(tasks) + position, task, own))

    def _select(self, data: StepData) -> None:
        data.drop_reasons = self._parts.sampling.select(data.groups)
        data.rows = [
            (position, index)
            for position, (group, reason) in enumerate(zip(data.groups, data.drop_reasons, strict=True))
            if not reason
            for index, trajectory in enumerate(group.trajectories)
            if trajectory.valid
        ]

    def _grade(self, data: StepData) -> None:
        rankings = grade_groups(data.kept, self._parts.grader, untimed(self._parts.sandbox))
        data.rankings = {group.id: ranking for group, ranking in zip(data.kept, rankings, strict=True)}

    def _advantages(self, data: StepData) -> None:
        if not data.rows:
            return
        parts = self._parts
        trajectories = [data.trajectory(row) for row in data.rows]
        passed = np.array([trajectory.passed for trajectory in trajectories])
        lengths = np.array([trajectory.gen_tokens for trajectory in trajectories], dtype=np.float64)
        codes = np.array([position for position, _ in data.rows], dtype=np.int64)
        data.rewards = parts.shaping.shape(passed.astype(np.float64), passed, codes, lengths)
        data.advantages = compute_advantages(
            data.rewards,
            codes.tolist(),
            estimator=parts.estimator,
            redistribution=parts.redistribution.at_step(data.step),
            weighting=parts.weighting,
            passed=passed,
            lengths=lengths,
            **self._grades(data),
        )

    def _grades(self, data: StepData) -> dict[str, Any]:
        """Ranks, and scores and tiers where every ranking has them, parallel to ``data.rows``."""
        grades: dict[str, Any] = {}
        for name in ("ranks", "scores", "tiers"):
            columns = {g.id: getattr(data.rankings[g.id], name) for g in data.kept}
            if any(columns.values()):
                values = [_pick(columns[data.groups[p].id], i) for p, i in data.rows]
                grades[name] = np.array(values, dtype=np.float64)
        return grades

    def _update(self, data: StepData) -> None:
        if data.advantages is None or not np.any(data.advantages.advantages):
            return
        trajectories = [data.trajectory(row) for row in data.rows]
        tasks = [data.task(row) for row in data.rows]
        data.update = self._parts.updater.update(
            trajectories, tasks, data.advantages.advantages, data.advantages.codes
        )


def _pick(values: Sequence[float], index: int) -> float:
    return values[index] if values else float("nan")
