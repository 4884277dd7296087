"""The recurrent policy: sampler and trainer see the same probabilities, and weights come from one seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gagar_core.errors import ArtifactError, ConfigError
from gagar_core.policies.embedded import EmbeddedPolicy
from gagar_core.policies.gru import HIDDEN, Gru
from gagar_core.policies.gru_network import GruSampler
from gagar_core.policies.weights import load_weights, save_weights
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import torch_stream
from gagar_core.tasks.list_functions import ListFunctions
from gagar_core.tasks.suite import Suite


def build(sandbox: ProcessSandbox, seed: int = 0, size: str = "xs") -> EmbeddedPolicy:
    return Gru(size=size).build(ListFunctions(token_budget=64), sandbox, seed)


@pytest.mark.parametrize("size", HIDDEN)
def test_sampler_and_trainer_agree_on_every_logprob(size: str, suite: Suite, sandbox: ProcessSandbox) -> None:
    policy = build(sandbox, size=size)
    tasks = [task for task in suite.train[::20] for _ in range(4)]
    trajectories = policy.rollouts(tasks, torch_stream(0, "t"))
    batch = policy.logprobs(trajectories, tasks)
    gap = ((batch.logprobs - batch.sampled_logprobs) * batch.mask).abs().max()
    assert float(gap.detach()) < 1e-4
    assert int(batch.mask.sum()) == sum(t.gen_tokens for t in trajectories)


def test_batch_rows_keep_the_order_given_whatever_their_length(suite: Suite, sandbox: ProcessSandbox) -> None:
    policy = build(sandbox)
    tasks = list(suite.train[:60])  # more than one bucket
    trajectories = policy.rollouts(tasks, torch_stream(1, "t"))
    together = policy.logprobs(trajectories, tasks)
    for i in (0, 17, 59):
        alone = policy.logprobs([trajectories[i]], [tasks[i]])
        width = alone.logprobs.shape[1]
        torch.testing.assert_close(together.logprobs[i, :width], alone.logprobs[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(together.entropies[i, :width], alone.entropies[0], atol=1e-4, rtol=0)


def test_probabilities_sum_to_one_and_entropy_is_that_of_the_distribution(sandbox: ProcessSandbox) -> None:
    network = build(sandbox).network
    specs, tokens = torch.zeros(2, 5, dtype=torch.long), torch.tensor([[3, 9, 4], [20, 1, 5]])
    with torch.no_grad():
        logprobs = network(specs, tokens)
    torch.testing.assert_close(logprobs.exp().sum(2), torch.ones(2, 3))


def test_a_later_token_does_not_change_earlier_probabilities(sandbox: ProcessSandbox) -> None:
    network = build(sandbox).network
    specs = torch.zeros(1, 5, dtype=torch.long)
    with torch.no_grad():
        one, other = (
            network(specs, torch.tensor([[20, 30, 40]])),
            network(specs, torch.tensor([[20, 30, 41]])),
        )
    assert torch.equal(one[:, :2], other[:, :2])


def test_one_step_by_hand(sandbox: ProcessSandbox) -> None:
    """The GRU equations of its definition (arXiv 1406.1078), written out in NumPy."""
    network = build(sandbox).network
    weights = {name: value.detach().numpy().astype(np.float64) for name, value in network.named_parameters()}

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    spec = weights["spec_embedding.weight"][[1, 4, 11, 19, 25]].sum(0)
    spec = np.maximum(weights["spec_mlp.0.weight"] @ spec + weights["spec_mlp.0.bias"], 0)
    spec = weights["spec_mlp.2.weight"] @ spec + weights["spec_mlp.2.bias"]
    hidden, size = np.zeros(HIDDEN["xs"]), HIDDEN["xs"]
    for token in (1, 33):
        x = np.concatenate([weights["embedding.weight"][token], spec])
        from_x = weights["gru.weight_ih_l0"] @ x + weights["gru.bias_ih_l0"]
        from_h = weights["gru.weight_hh_l0"] @ hidden + weights["gru.bias_hh_l0"]
        reset, update = sigmoid(from_x[:size] + from_h[:size]), sigmoid((from_x + from_h)[size : 2 * size])
        hidden = (1 - update) * np.tanh(from_x[2 * size :] + reset * from_h[2 * size :]) + update * hidden
    logits = weights["head.weight"] @ np.concatenate([hidden, spec]) + weights["head.bias"]
    expected = logits - np.log(np.exp(logits).sum())
    sampler = GruSampler(network)  # type: ignore[arg-type]
    state = sampler.start(torch.tensor([[1, 4, 11, 19, 25]]))
    with torch.no_grad():
        sampler.step(state, torch.tensor([1]))
        got = sampler.step(state, torch.tensor([33]))
    np.testing.assert_allclose(got[0].numpy(), expected, atol=1e-5)


def test_same_seed_same_bytes_in_another_process(sandbox: ProcessSandbox) -> None:
    code = (
        "import hashlib; from gagar_core.policies.gru import Gru; from gagar_core.tasks.list_functions import *\n"
        "n = Gru(size='xs').build(ListFunctions(), None, {}).network\n"
        "print(hashlib.sha256(b''.join(p.detach().numpy().tobytes() for p in n.parameters())).hexdigest())"
    )

    def digest(seed: int) -> str:
        run = subprocess.run(
            [sys.executable, "-c", code.format(seed)], capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    assert digest(0) == digest(0)
    assert digest(0) != digest(1)


def test_same_generator_same_trajectories(suite: Suite, sandbox: ProcessSandbox) -> None:
    policy, tasks = build(sandbox), list(suite.train[:12])
    assert policy.rollouts(tasks, torch_stream(0, "t")) == policy.rollouts(tasks, torch_stream(0, "t"))
    assert policy.rollouts(tasks, torch_stream(0, "t")) != policy.rollouts(tasks, torch_stream(1, "t"))


def test_a_row_does_not_depend_on_the_other_rows(suite: Suite, sandbox: ProcessSandbox) -> None:
    policy = build(sandbox)
    one = policy.rollouts([suite.train[0], *suite.train[1:8]], torch_stream(0, "t"))
    two = policy.rollouts([suite.train[0], *suite.train[50:57]], torch_stream(0, "t"))
    assert one[0].files == two[0].files
    assert [s.token_ids for s in one[0].segments] == [s.token_ids for s in two[0].segments]


def test_weights_survive_the_disk_and_damage_is_named(tmp_path: Path, sandbox: ProcessSandbox) -> None:
    one, other = build(sandbox, seed=0), build(sandbox, seed=1)
    path = tmp_path / "policy.npz"
    save_weights(one.network, path)
    load_weights(other.network, path)
    for a, b in zip(one.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ArtifactError, match=r"policy\.npz does not hold the weights"):
        load_weights(build(sandbox, size="s").network, path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match="remove its folder"):
        load_weights(one.network, path)


def test_a_pickle_in_place_of_weights_is_not_loaded(tmp_path: Path, sandbox: ProcessSandbox) -> None:
    import pickle

    path = tmp_path / "policy.npz"
    path.write_bytes(pickle.dumps({"embedding.weight": 1}))
    with pytest.raises(ArtifactError):
        load_weights(build(sandbox).network, path)


def test_unknown_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="size must be one of l, m, s, xs; got 'huge'"):
        Gru(size="huge")
