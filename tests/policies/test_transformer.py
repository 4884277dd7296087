"""The attention policy: cache and full pass agree, the past is not changed by the future."""

from __future__ import annotations

import pytest
import torch

from gagar_core.policies.transformer import SHAPES, Transformer
from gagar_core.policies.transformer_network import TransformerNetwork, TransformerSampler
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import torch_stream
from gagar_core.tasks.list_functions import ListFunctions
from gagar_core.tasks.suite import Suite


@pytest.mark.parametrize("size", SHAPES)
def test_cache_and_full_pass_agree(size: str, suite: Suite, sandbox: ProcessSandbox) -> None:
    policy = Transformer(size=size).build(ListFunctions(token_budget=48), sandbox, 0)
    tasks = [task for task in suite.train[::25] for _ in range(3)]
    trajectories = policy.rollouts(tasks, torch_stream(0, "t"))
    batch = policy.logprobs(trajectories, tasks)
    gap = ((batch.logprobs - batch.sampled_logprobs) * batch.mask).abs().max()
    assert float(gap.detach()) < 1e-4
    assert max(t.gen_tokens + t.obs_tokens for t in trajectories) > 32  # the cache has grown twice


def test_a_later_token_does_not_change_earlier_probabilities(sandbox: ProcessSandbox) -> None:
    network = Transformer(size="xs").build(ListFunctions(), sandbox, 0).network
    specs = torch.zeros(1, 5, dtype=torch.long)
    with torch.no_grad():
        one, other = (
            network(specs, torch.tensor([[20, 30, 40]])),
            network(specs, torch.tensor([[20, 30, 41]])),
        )
    assert torch.equal(one[:, :2], other[:, :2])


def test_rows_can_be_dropped_while_sampling(sandbox: ProcessSandbox) -> None:
    network = Transformer(size="xs").build(ListFunctions(), sandbox, 0).network
    assert isinstance(network, TransformerNetwork)
    specs = torch.tensor([[1, 4, 11, 19, 25], [1, 5, 12, 20, 26], [1, 6, 13, 21, 27]])
    with torch.no_grad():
        whole = TransformerSampler(network)
        state = whole.start(specs)
        whole.step(state, torch.tensor([1, 1, 1]))
        kept = whole.keep(state, torch.tensor([2, 0]))
        got = whole.step(kept, torch.tensor([30, 31]))
        alone = whole.start(specs[2:])
        whole.step(alone, torch.tensor([1]))
        expected = whole.step(alone, torch.tensor([30]))
    torch.testing.assert_close(got[0], expected[0])
