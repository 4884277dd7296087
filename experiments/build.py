"""From a configuration to live parts: the only place that wires."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from experiments import artifacts
from experiments.identity import changed_fields, digest_of
from experiments.live_grader import live_grader
from experiments.schema import RunConfig, kind_of
from experiments.sft_artifact import WEIGHTS
from gagar_core.grading.live import LiveGrader
from gagar_core.policies.embedded import EmbeddedPolicy
from gagar_core.policies.weights import load_weights
from gagar_core.records import RunWriter
from gagar_core.sandbox import ProcessSandbox, open_sandbox
from gagar_core.tasks.suite import Suite
from gagar_core.training.clock import PhaseClock, TimedSandbox
from gagar_core.training.evaluate import Evaluation
from gagar_core.training.feed import TaskFeed
from gagar_core.training.recording import StepRecorder
from gagar_core.training.trainer import Parts, Trainer
from gagar_core.training.update import Updater


@dataclass(frozen=True)
class LiveRun:
    """The parts of a run that its loop touches."""

    suite: Suite
    policy: EmbeddedPolicy
    trainer: Trainer
    grader: LiveGrader
    evaluation: Evaluation
    updater: Updater
    writer: RunWriter
    recorder: StepRecorder
    sandbox: TimedSandbox
    process: ProcessSandbox
    clock: PhaseClock

    def close(self) -> None:
        """Stop the sandbox."""
        self.process.close()


def build_run(config: RunConfig, folder: Path, run_id: str, attempt: int) -> LiveRun:
    """Wire a run; builds or waits for the artifacts that it needs."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for spec in artifacts.required(config):
        artifacts.ensure(spec)
    sft = artifacts.sft_of(config).path()
    process = open_sandbox(config.sandbox)
    try:
        process.check_for_training()
        return _wire(config, folder, run_id, attempt, sft, process)
    except BaseException:
        process.close()
        raise


def _wire(
    config: RunConfig, folder: Path, run_id: str, attempt: int, sft: Path, process: ProcessSandbox
) -> LiveRun:
    clock = PhaseClock(lambda: process.cpu_s)
    sandbox = TimedSandbox(process, clock)
    suite = config.tasks.load()
    policy = config.policy.build(config.tasks, sandbox, config.seed)
    load_weights(policy.network, sft / WEIGHTS)
    grader = live_grader(config, policy, suite)
    updater = Updater(policy, config.trainer, config.loss, config.budget.steps, config.seed)
    budget = config.budget
    parts = Parts(
        policy=policy,
        sampling=config.sampling,
        grader=grader,
        shaping=config.shaping,
        estimator=config.estimator,
        weighting=config.weighting,
        redistribution=config.redistribution,
        updater=updater,
        feed=TaskFeed(suite.train, budget.groups_per_step, config.seed),
        sandbox=sandbox,
        clock=clock,
        group_size=budget.group_size,
        seed=config.seed,
    )
    writer = RunWriter(folder, run_id, attempt)
    learned = (
        [artifacts.grader_of(config).digest] if config.grader.learned and not config.grader.snapshot else []
    )
    grader_version = digest_of([kind_of("grader", config.grader), changed_fields(config.grader), *learned])
    return LiveRun(
        suite=suite,
        policy=policy,
        trainer=Trainer(parts),
        grader=grader,
        evaluation=Evaluation(suite.held_out, budget.eval_tasks, budget.eval_attempts, config.seed, sandbox),
        updater=updater,
        writer=writer,
        recorder=StepRecorder(writer, kind_of("grader", config.grader), grader_version),
        sandbox=sandbox,
        process=process,
        clock=clock,
    )
