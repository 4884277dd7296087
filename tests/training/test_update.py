"""One update: exactly the plain policy gradient, with measures that follow from their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gagar_core.errors import DivergedError
from gagar_core.policies.embedded import EmbeddedPolicy
from gagar_core.policies.gru import Gru
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import torch_stream
from gagar_core.tasks.list_functions import ListFunctions
from gagar_core.tasks.suite import Suite
from gagar_core.training.losses import TokenMean
from gagar_core.training.policy_gradient import PolicyGradient
from gagar_core.training.update import Updater
from gagar_core.types import Task, Trajectory


@pytest.fixture
def policy(sandbox: ProcessSandbox) -> EmbeddedPolicy:
    return Gru(size="xs").build(ListFunctions(token_budget=48), sandbox, 0)


@pytest.fixture
def batch(policy: EmbeddedPolicy, suite: Suite) -> tuple[list[Trajectory], list[Task]]:
    tasks = list(suite.train[:8])
    return policy.rollouts(tasks, torch_stream(0, "t")), tasks


ADVANTAGES = np.array([0.5, -0.25, 1.0, 0.0, -1.0, 0.125, 0.75, -0.5])
CODES = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def test_gradient_is_the_plain_policy_gradient(
    policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]
) -> None:
    """With ratio 1 the gradient of the surrogate is -Σ A ∇log p / tokens; SGD of rate 1 shows it."""
    trajectories, tasks = batch
    view = policy.logprobs(trajectories, tasks)
    column = torch.from_numpy(ADVANTAGES).float().unsqueeze(1)
    (-(column * view.logprobs * view.mask).sum() / view.mask.sum()).backward()
    expected = [p.grad.clone() for p in policy.network.parameters() if p.grad is not None]
    policy.network.zero_grad()
    updater = Updater(policy, PolicyGradient(lr=1e-12, grad_clip=1e9), TokenMean())
    updater.update(trajectories, tasks, ADVANTAGES, CODES)
    for parameter, gradient in zip(policy.network.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-4)


def test_measures(policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]) -> None:
    trajectories, tasks = batch
    with torch.no_grad():
        view = policy.logprobs(trajectories, tasks)
    stats = Updater(policy, PolicyGradient(), TokenMean()).update(trajectories, tasks, ADVANTAGES, CODES)
    lengths = np.array([t.gen_tokens for t in trajectories])
    # the surrogate's value at ratio 1 is the token-weighted mean of -A
    assert stats.loss == pytest.approx(-(ADVANTAGES * lengths).sum() / lengths.sum(), abs=1e-6)
    entropies = (view.entropies * view.mask).sum(1).numpy() / lengths
    assert stats.entropy_traj == pytest.approx(entropies.mean(), abs=1e-5)
    assert stats.entropy_tok == pytest.approx((entropies * lengths).sum() / lengths.sum(), abs=1e-5)
    assert stats.logprob_gap < 1e-4
    assert stats.is_ess == pytest.approx(1.0, abs=1e-6)
    assert stats.ratio_max == pytest.approx(1.0, abs=1e-4)


def test_an_update_raises_what_has_a_positive_advantage(
    policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]
) -> None:
    trajectories, tasks = batch
    before = policy.logprobs(trajectories, tasks).logprobs.detach().sum(1)
    advantages = np.array([1.0, -1.0, 0, 0, 0, 0, 0, 0])
    updater = Updater(policy, PolicyGradient(lr=1e-3), TokenMean())
    updater.update(trajectories, tasks, advantages, CODES)
    change = policy.logprobs(trajectories, tasks).logprobs.detach().sum(1) - before
    assert float(change[0] - change[1]) > 0


def test_divergence_is_told(policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]) -> None:
    trajectories, tasks = batch
    with torch.no_grad():
        next(policy.network.parameters()).fill_(float("nan"))
    with pytest.raises(DivergedError, match="loss nan, gradient norm nan"):
        Updater(policy, PolicyGradient(), TokenMean()).update(trajectories, tasks, ADVANTAGES, CODES)
