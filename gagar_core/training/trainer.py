"""The training loop: a list of named parts, blind to which estimator, grader or loss it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gagar_core.advantages import compute_advantages
from gagar_core.errors import GagarError
from gagar_core.grading.live import LiveGrader
from gagar_core.protocols import (
    Estimator,
    Policy,
    SamplingPolicy,
    SamplingRound,
    Sandbox,
    Shaping,
)
from gagar_core.seeds import torch_stream
from gagar_core.training.clock import PhaseClock, untimed
from gagar_core.training.feed import TaskFeed
from gagar_core.training.step import NOT_GRADED, StepData
from gagar_core.training.update import Updater
from gagar_core.types import GRADED_KINDS, Group, Ranking, Task

MAX_ROUNDS = 64
"""Sampling rounds of a step before a sampling policy is taken to be stuck."""


@dataclass(frozen=True)
class Parts:
    """Everything a trainer is made of; wired in one place by whoever owns the configuration."""

    policy: Policy
    sampling: SamplingPolicy
    grader: LiveGrader
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
        self._sampling_state = parts.sampling.start()
        self._next_group = 0
        self.parts_of_step: Sequence[tuple[str, Callable[[StepData], None]]] = (
            ("recalibrate", self._recalibrate),
            ("rollout", self._rollout),
            ("rollout", self._select),
            ("grade", self._grade),
            ("gold", self._gold),
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

    @property
    def state(self) -> dict[str, Any]:
        """What the next step depends on beside policy and optimiser, as plain data."""
        return {
            "sampling": self._sampling_state,
            "next_group": self._next_group,
            "grader": self._parts.grader.state,
        }

    def restore(self, state: dict[str, Any], grader_weights: dict[str, Any] | None = None) -> None:
        """Take back what ``state`` gave; ``grader_weights`` where a grader was fitted again."""
        self._sampling_state, self._next_group = state["sampling"], state["next_group"]
        self._parts.grader.restore(state["grader"], grader_weights)

    def _rollout(self, data: StepData) -> None:
        parts = self._parts
        for number in range(MAX_ROUNDS):
            seen = SamplingRound(
                parts.feed, data.step, number, parts.group_size, data.groups, self._sampling_state
            )
            wanted = parts.sampling.request(seen)
            if not wanted:
                return
            data.groups += self._sample(wanted, data.step, number)
            data.rounds = number + 1
        name = type(parts.sampling).__name__
        msg = f"{name} asked for more than {MAX_ROUNDS} rounds in step {data.step}; it must end with []"
        raise GagarError(msg)

    def _sample(self, wanted: Sequence[tuple[Task, int]], step: int, number: int) -> list[Group]:
        """One round of groups. Random numbers of the first round do not depend on the sampling policy."""
        if any(size < 2 for _, size in wanted):
            msg = f"{type(self._parts.sampling).__name__} asked for a group of one: it has nothing to compare"
            raise GagarError(msg)
        names = ("rollouts", step, number) if number else ("rollouts", step)
        repeated = [task for task, size in wanted for _ in range(size)]
        trajectories = self._parts.policy.rollouts(repeated, torch_stream(self._parts.seed, *names))
        groups, at = [], 0
        for task, size in wanted:
            groups.append(Group(self._next_group, task, tuple(trajectories[at : at + size])))
            self._next_group += 1
            at += size
        return groups

    def _select(self, data: StepData) -> None:
        sampling, wanted = self._parts.sampling, self._parts.feed.per_step
        data.drop_reasons = sampling.select(data.groups, wanted)
        data.wanted_groups = wanted
        self._sampling_state = sampling.observe(data.groups, self._sampling_state)
        data.rows = [
            (position, index)
            for position, (group, reason) in enumerate(zip(data.groups, data.drop_reasons, strict=True))
            if not reason
            for index, trajectory in enumerate(group.trajectories)
            if trajectory.valid
        ]

    def _grade(self, data: StepData) -> None:
        graded = [group for group in data.kept if group.task.kind in GRADED_KINDS]
        rankings = self._parts.grader.grade(graded, untimed(self._parts.sandbox), data.step)
        data.rankings = {group.id: ranking for group, ranking in zip(graded, rankings, strict=True)}
        for group in data.kept:
            if group.id not in data.rankings:
                nothing = (float("nan"),) * len(group.trajectories)
                data.rankings[group.id] = Ranking(ranks=nothing, abstain=NOT_GRADED)

    def _gold(self, data: StepData) -> None:
        data.gold = self._parts.grader.check(untimed(self._parts.sandbox), data.step)

    def _recalibrate(self, data: StepData) -> None:
        data.recalibrated = self._parts.grader.recalibrate(untimed(self._parts.sandbox), data.step)

    def _advantages(self, data: StepData) -> None:
        if not data.rows:
            return
        parts = self._parts
        trajectories = [data.trajectory(row) for row in data.rows]
        passed = np.array([trajectory.passed for trajectory in trajectories])
        lengths = np.array([trajectory.gen_tokens for trajectory in trajectories], dtype=np.float64)
        codes = np.array([position for position, _ in data.rows], dtype=np.int64)
        grades = self._grades(data)
        data.rewards = parts.shaping.shape(
            passed.astype(np.float64), passed, codes, lengths, grades.get("scores")
        )
        data.advantages = compute_advantages(
            data.rewards,
            codes.tolist(),
            estimator=parts.estimator,
            redistribution=parts.redistribution.at_step(data.step),
            weighting=parts.weighting,
            passed=passed,
            lengths=lengths,
            **grades,
        )

    def _grades(self, data: StepData) -> dict[str, Any]:
        """Ranks, and scores and tiers where the grader gives them, parallel to ``data.rows``.

        In a step in which it abstains throughout they are all NaN, and whoever reads them leaves the base
        advantages as they are. Rows of groups that are not graded get weight 1 each: no weighting moves them.
        """
        grades: dict[str, Any] = {}
        for name in ("ranks", "scores", "tiers"):
            columns = {g.id: getattr(data.rankings[g.id], name) for g in data.kept}
            if name == "ranks" or name in self._parts.grader.settings.gives or any(columns.values()):
                values = [_pick(columns[data.groups[p].id], i) for p, i in data.rows]
                grades[name] = np.array(values, dtype=np.float64)
        exempt = [data.task(row).kind not in GRADED_KINDS for row in data.rows]
        if any(exempt):
            grades["weights"] = np.where(exempt, 1.0, np.nan)
        return grades

    def _update(self, data: StepData) -> None:
        if data.advantages is None or not np.any(data.advantages.advantages):
            return
        trajectories = [data.trajectory(row) for row in data.rows]
        tasks = [data.task(row) for row in data.rows]
        data.update = self._parts.updater.update(
            trajectories, tasks, data.advantages.advantages, data.advantages.codes, data.step
        )


def _pick(values: Sequence[float], index: int) -> float:
    return values[index] if values else float("nan")
