"""Artifact ``sft``: the policy after its warm start, one per seed block."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.schema import RunConfig
from gagar_core.agent.demonstrations import Demonstrator
from gagar_core.policies.weights import save_weights
from gagar_core.sandbox import open_sandbox
from gagar_core.seeds import stream
from gagar_core.training.sft import warm_start

WEIGHTS = "policy.npz"


def build(config: RunConfig, folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
    """Generate and execute demonstrations, train on them, write the weights; return what to report."""
    torch.set_num_threads(1)
    sandbox = open_sandbox(config.sandbox)
    try:
        sandbox.check_for_training()
        started = time.process_time()
        suite = config.tasks.load()
        policy = config.policy.build(config.tasks, sandbox, config.seed)
        demonstrator = Demonstrator(policy.codec, sandbox, stream(config.seed, "demonstrations"))
        demonstrations = demonstrator.demonstrations(
            suite.sft, config.budget.sft_demos, config.tasks.token_budget
        )
        beat()

        def progress(done: int, total: int) -> None:
            if done % 50 == 0 or done == total:
                beat()

        result = warm_start(
            policy,
            demonstrations,
            config.budget.sft_epochs,
            stream(config.seed, "sft order"),
            config.policy.sft_lr,
            progress,
        )
        save_weights(policy.network, folder / WEIGHTS)
        cpu = time.process_time() - started + sandbox.cpu_s
    finally:
        sandbox.close()
    return {
        "first_nll": result.first_nll,
        "last_nll": result.last_nll,
        "updates": result.updates,
        "demonstrations": len(demonstrations),
        "suite_digest": suite.digest(),
        "cpu_s": cpu,
    }
