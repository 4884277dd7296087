"""The warm start: likelihood rises, every demonstration is used once per epoch, same seed same weights."""

from __future__ import annotations

import numpy as np
import torch

from gagar_core.agent.demonstrations import Demonstration, Demonstrator
from gagar_core.policies.embedded import EmbeddedPolicy
from gagar_core.policies.gru import Gru
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import stream
from gagar_core.tasks.list_functions import ListFunctions
from gagar_core.tasks.suite import Suite
from gagar_core.training.sft import _batches, _loss, _schedule, warm_start


def demonstrations(
    suite: Suite, sandbox: ProcessSandbox, policy: EmbeddedPolicy, count: int
) -> list[Demonstration]:
    return Demonstrator(policy.codec, sandbox, stream(0, "d")).demonstrations(suite.sft, count)


def test_likelihood_rises_and_is_reproducible(suite: Suite, sandbox: ProcessSandbox) -> None:
    def train() -> tuple[EmbeddedPolicy, float, float]:
        policy = Gru(size="xs").build(ListFunctions(), sandbox, 0)
        result = warm_start(policy, demonstrations(suite, sandbox, policy, 320), 2, stream(0, "o"))
        assert result.updates == 40
        return policy, result.first_nll, result.last_nll

    one, first, last = train()
    two, _, again = train()
    assert last < 0.5 * first
    assert last == again
    for a, b in zip(one.network.parameters(), two.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_observations_are_not_learned(suite: Suite, sandbox: ProcessSandbox) -> None:
    policy = Gru(size="xs").build(ListFunctions(), sandbox, 0)
    demo = next(d for d in demonstrations(suite, sandbox, policy, 60) if not all(d.is_agent))
    with torch.no_grad():
        loss = float(_loss(policy, [demo]))
        specs = torch.tensor([policy.codec.encode_spec(demo.task.spec)])
        tokens = torch.tensor([demo.tokens])
        chosen = policy.network(specs, tokens).gather(2, tokens.unsqueeze(2)).squeeze()
        by_hand = -float(np.mean([float(c) for c, agent in zip(chosen, demo.is_agent, strict=True) if agent]))
    assert abs(loss - by_hand) < 1e-5


def test_every_demonstration_once_per_epoch(suite: Suite, sandbox: ProcessSandbox) -> None:
    policy = Gru(size="xs").build(ListFunctions(), sandbox, 0)
    demos = demonstrations(suite, sandbox, policy, 100)
    seen = [id(demo) for batch in _batches(demos, np.random.default_rng(0)) for demo in batch]
    assert sorted(seen) == sorted(id(demo) for demo in demos)


def test_schedule_warms_up_and_decays() -> None:
    assert _schedule(0.0) < 0.03
    assert _schedule(0.05) > 0.9
    assert _schedule(1.0) == 1.0 * (1 - 0.95)
