"""Artifacts ``graded_groups`` and ``held_out_groups``: groups of real policies, labelled by the label tests.

Graders learn from what the SFT policy and a policy in its first RL steps write (the base algorithm: Dr. GRPO
on mixed groups, no grader), and are judged on tasks that they never saw. One labelled group per line:

    train.jsonl      training tasks whose groups the grader learns from
    gold.jsonl       training tasks kept apart for the gold set
    held_out.jsonl   (held_out_groups) held-out tasks, by the SFT policy, by one after a few RL steps, and by
                     one much later than what graders learn from; for judging graders, no run needs it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from experiments import artifacts
from experiments.schema import RunConfig
from experiments.sft_artifact import WEIGHTS
from gagar_core.advantages.estimators import DrGrpo
from gagar_core.advantages.redistribution import NoRedistribution
from gagar_core.advantages.shaping import NoShaping
from gagar_core.advantages.weightings import Uniform
from gagar_core.grading.labelled import LabelledGroup, label_groups, to_lines
from gagar_core.grading.live import LiveGrader
from gagar_core.grading.rules import NoGrader
from gagar_core.policies.embedded import EmbeddedPolicy
from gagar_core.policies.weights import load_weights
from gagar_core.records import publish
from gagar_core.sampling.outcome import MixedOnly
from gagar_core.sandbox import ProcessSandbox, open_sandbox
from gagar_core.seeds import derive, torch_stream
from gagar_core.tasks.suite import Suite
from gagar_core.training.clock import PhaseClock, TimedSandbox
from gagar_core.training.feed import TaskFeed
from gagar_core.training.losses import TokenMean
from gagar_core.training.policy_gradient import PolicyGradient
from gagar_core.training.trainer import Parts, Trainer
from gagar_core.training.update import Updater
from gagar_core.types import GRADED_KINDS, Group, Task

JUDGED_STEPS = (0, 20, 60)
"""RL steps behind the policies that graders are judged on; the last is later than what they learn from."""
GOLD_SHARE = 0.2
"""Share of the training tasks that are kept for the gold set."""


@dataclass
class _Source:
    """A policy of a seed block, trained on with the base algorithm as far as is asked for."""

    suite: Suite
    policy: EmbeddedPolicy
    trainer: Trainer
    sandbox: ProcessSandbox
    group_size: int
    seed: int
    steps: int = 0

    def train(self, steps: int, beat: Callable[[], None]) -> list[Group]:
        """Go on to ``steps`` RL steps; returns every group that was sampled on the way."""
        groups: list[Group] = []
        while self.steps < steps:
            groups += self.trainer.run_step(self.steps).groups
            self.steps += 1
            beat()
        return groups

    def labelled(self, tasks: Sequence[Task], name: str) -> list[LabelledGroup]:
        """One fresh group per task, labelled."""
        tasks = [task for task in tasks if task.kind in GRADED_KINDS]
        repeated = [task for task in tasks for _ in range(self.group_size)]
        generator = torch_stream(self.seed, "graded groups", name, self.steps)
        found = self.policy.rollouts(repeated, generator)
        size = self.group_size
        groups = [Group(i, task, tuple(found[i * size : (i + 1) * size])) for i, task in enumerate(tasks)]
        return self.label(groups)

    def label(self, groups: Sequence[Group]) -> list[LabelledGroup]:
        """Those that a grader can learn from, with their labels."""
        origin = f"step {self.steps}" if self.steps else "sft"
        graded = [group for group in groups if group.task.kind in GRADED_KINDS]
        labelled = label_groups(graded, self.sandbox, origin)
        self.sandbox.end_step()
        return labelled


def build(config: RunConfig, folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
    """Write the groups that graders learn from, the gold set and the held-out ones; return what to report."""
    started = time.process_time()
    with open_sandbox(config.sandbox) as sandbox:
        source = _source(config, sandbox)
        train_tasks = [task for task in source.suite.train if not _is_gold(task)]
        groups = source.labelled(train_tasks, "train")
        sampled = source.label(source.train(artifacts.data_steps(config), beat))
        groups += [one for one in sampled if not _is_gold(one.group.task)]
        gold = [one for one in sampled if _is_gold(one.group.task)]
        gold += source.labelled([t for t in source.suite.train if _is_gold(t)], "gold")
        cpu = time.process_time() - started + sandbox.cpu_s
    parts = {"train": groups, "gold": gold}
    for name, data in parts.items():
        _write(folder / f"{name}.jsonl", data)
    return {
        **{f"{name}_groups": len(data) for name, data in parts.items()},
        "lucky_share": _lucky_share(groups),
        "cpu_s": cpu,
    }


def build_held_out(config: RunConfig, folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
    """Write groups of the held-out tasks at every step of ``JUDGED_STEPS``: nothing learns from them."""
    started = time.process_time()
    held_out: list[LabelledGroup] = []
    with open_sandbox(config.sandbox) as sandbox:
        source = _source(config, sandbox)
        for steps in JUDGED_STEPS:
            source.train(steps, beat)
            held_out += source.labelled(source.suite.held_out, "held_out")
        cpu = time.process_time() - started + sandbox.cpu_s
    _write(folder / "held_out.jsonl", held_out)
    return {"held_out_groups": len(held_out), "lucky_share": _lucky_share(held_out), "cpu_s": cpu}


def _write(path: Path, data: Sequence[LabelledGroup]) -> None:
    numbered = [replace(one, group=replace(one.group, id=i)) for i, one in enumerate(data)]
    publish(path, to_lines(numbered))


def _source(config: RunConfig, sandbox: ProcessSandbox) -> _Source:
    """The SFT policy of the block under the base algorithm, whatever the run itself is trained with."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    sft = artifacts.ensure(artifacts.sft_of(config))
    sandbox.check_for_training()
    clock = PhaseClock(lambda: sandbox.cpu_s)
    suite, budget = config.tasks.load(), config.budget
    timed = TimedSandbox(sandbox, clock)
    policy = config.policy.build(config.tasks, timed, config.seed)
    load_weights(policy.network, sft / WEIGHTS)
    trainer = Trainer(
        Parts(
            policy=policy,
            sampling=MixedOnly(),
            grader=LiveGrader(NoGrader(), config.seed),
            shaping=NoShaping(),
            estimator=DrGrpo(),
            weighting=Uniform(),
            redistribution=NoRedistribution(),
            updater=Updater(policy, PolicyGradient(), TokenMean(), JUDGED_STEPS[-1], config.seed),
            feed=TaskFeed(suite.train, budget.groups_per_step, config.seed),
            sandbox=timed,
            clock=clock,
            group_size=budget.group_size,
            seed=derive(config.seed, "graded groups") % 2**31,
        )
    )
    return _Source(suite, policy, trainer, sandbox, budget.group_size, config.seed)


def _is_gold(task: Task) -> bool:
    """Which tasks the gold set is of follows from their ids alone, so that every seed block agrees."""
    return derive(0, "gold", task.id) % 1000 < 1000 * GOLD_SHARE


def _lucky_share(data: Sequence[LabelledGroup]) -> float | None:
    """Share of passing trajectories that fail a label test."""
    rows = [one.right(i) for one in data for i in one.ranked]
    return 1.0 - sum(rows) / len(rows) if rows else None
