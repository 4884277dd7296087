"""One update: exactly the plain policy gradient, with measures that follow from their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gagar_core.errors import DivergedError, GagarError
from gagar_core.policies.embedded import EmbeddedPolicy
from gagar_core.policies.gru import Gru
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import torch_stream
from gagar_core.tasks.list_functions import ListFunctions
from gagar_core.tasks.suite import Suite
from gagar_core.training.losses import SeqMeanTokenSum, TokenMean
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
    updater = Updater(policy, PolicyGradient(lr=1e-12, grad_clip=1e9), TokenMean(), 10, 0)
    updater.update(trajectories, tasks, ADVANTAGES, CODES, 0)
    for parameter, gradient in zip(policy.network.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-4)


def test_measures(policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]) -> None:
    trajectories, tasks = batch
    with torch.no_grad():
        view = policy.logprobs(trajectories, tasks)
    stats = Updater(policy, PolicyGradient(), TokenMean(), 10, 0).update(
        trajectories, tasks, ADVANTAGES, CODES, 0
    )
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
    updater = Updater(policy, PolicyGradient(lr=1e-3), TokenMean(), 10, 0)
    updater.update(trajectories, tasks, advantages, CODES, 0)
    change = policy.logprobs(trajectories, tasks).logprobs.detach().sum(1) - before
    assert float(change[0] - change[1]) > 0


def test_divergence_is_told(policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]) -> None:
    trajectories, tasks = batch
    with torch.no_grad():
        next(policy.network.parameters()).fill_(float("nan"))
    with pytest.raises(DivergedError, match="loss nan, gradient norm nan"):
        Updater(policy, PolicyGradient(), TokenMean(), 10, 0).update(
            trajectories, tasks, ADVANTAGES, CODES, 0
        )


def test_several_updates_clip_against_the_policy_that_sampled(
    policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]
) -> None:
    """A huge learning rate drives ratios out of the clip range: clip shares then are not null and not 0."""
    trajectories, tasks = batch
    settings = PolicyGradient(lr=0.05, epochs=3, minibatches=2)
    stats = Updater(policy, settings, TokenMean(), 10, 0).update(trajectories, tasks, ADVANTAGES, CODES, 0)
    assert stats.updates == 6
    assert stats.clip_low is not None
    assert stats.clip_high is not None
    assert stats.clip_low + stats.clip_high > 0.05
    assert stats.is_ess < 0.99
    one = Updater(policy, PolicyGradient(), TokenMean(), 10, 0).update(
        policy.rollouts(tasks, torch_stream(0, "u")), tasks, ADVANTAGES, CODES, 0
    )
    assert (one.clip_low, one.clip_high, one.updates) == (None, None, 1)


def test_a_zero_learning_rate_makes_epochs_repeat_the_same_gradient(
    policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]
) -> None:
    trajectories, tasks = batch
    once = Updater(policy, PolicyGradient(lr=1e-30), TokenMean(), 10, 0)
    thrice = Updater(policy, PolicyGradient(lr=1e-30, epochs=3), TokenMean(), 10, 0)
    a = once.update(trajectories, tasks, ADVANTAGES, CODES, 0)
    b = thrice.update(trajectories, tasks, ADVANTAGES, CODES, 0)
    assert b.loss == pytest.approx(a.loss, abs=1e-6)
    assert b.grad_norm == pytest.approx(a.grad_norm, rel=1e-4)
    assert (b.clip_low, b.clip_high) == (0.0, 0.0)


def test_kl_to_the_reference_is_zero_at_first_and_pulls_back(
    policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]
) -> None:
    trajectories, tasks = batch
    updater = Updater(policy, PolicyGradient(lr=0.01), TokenMean(kl_coef=0.1), 10, 0)
    first = updater.update(trajectories, tasks, ADVANTAGES, CODES, 0)
    fresh = policy.rollouts(tasks, torch_stream(0, "later"))
    second = updater.update(fresh, tasks, ADVANTAGES, CODES, 1)
    assert first.kl_ref == pytest.approx(0.0, abs=1e-9)
    assert second.kl_ref is not None
    assert second.kl_ref > 1e-5


def test_an_entropy_bonus_raises_entropy(
    policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]
) -> None:
    trajectories, tasks = batch
    updater = Updater(policy, PolicyGradient(lr=3e-3, entropy_coef=1.0), TokenMean(), 10, 0)
    nothing = np.zeros(8)
    before = policy.logprobs(trajectories, tasks)
    updater.update(trajectories, tasks, nothing, CODES, 0)
    after = policy.logprobs(trajectories, tasks)
    gain = ((after.entropies - before.entropies) * before.mask).sum()
    assert float(gain.detach()) > 0


def test_a_sampler_that_disagrees_with_the_trainer_stops_the_run(
    policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]
) -> None:
    trajectories, tasks = batch
    with torch.no_grad():
        for parameter in policy.network.parameters():
            parameter.mul_(1.3)  # the trainer's policy is now another one than the sampler's was
    with pytest.raises(GagarError, match="sampler and trainer disagree by"):
        Updater(policy, PolicyGradient(), TokenMean(), 10, 0).update(
            trajectories, tasks, ADVANTAGES, CODES, 0
        )


CONTRAST = (1, 0, -1, 0)
"""Advantages of a mixed group; those of a group without contrast are 0."""


def _gradient(
    policy: EmbeddedPolicy,
    batch: tuple[list[Trajectory], list[Task]],
    rows: int,
    settings: PolicyGradient,
    kl: float,
) -> torch.Tensor:
    """The gradient of one update on the first ``rows`` rows, after the policy left its reference."""
    trajectories, tasks = batch
    loss = SeqMeanTokenSum(kl_coef=kl)
    updater = Updater(policy, settings, loss, 10, 0)
    with torch.no_grad():
        for parameter in policy.network.parameters():
            parameter.mul_(1.5)
    advantages = np.array([*CONTRAST, 0, 0, 0, 0], dtype=np.float64)[:rows]
    updater.update(trajectories[:rows], tasks[:rows], advantages, CODES[:rows], 0)
    flat = torch.cat([p.grad.flatten() for p in policy.network.parameters() if p.grad is not None])
    with torch.no_grad():
        for parameter in policy.network.parameters():
            parameter.div_(1.5)
    return flat


@pytest.mark.parametrize(("entropy", "kl", "acts"), [(0.0, 0.0, False), (0.1, 0.0, True), (0.0, 0.5, True)])
def test_rows_without_advantage_act_where_a_term_reads_them(
    entropy: float, kl: float, acts: bool, policy: EmbeddedPolicy, batch: tuple[list[Trajectory], list[Task]]
) -> None:
    """Anchors: alone they only scale the gradient, which Adam cancels; KL and entropy terms turn it."""
    settings = PolicyGradient(lr=1e-12, grad_clip=1e9, entropy_coef=entropy, logprob_tolerance=1e9)
    mixed, anchored = (_gradient(policy, batch, rows, settings, kl) for rows in (4, 8))
    angle = torch.nn.functional.cosine_similarity(mixed, anchored, dim=0)
    if acts:
        assert angle < 0.999
    else:
        torch.testing.assert_close(anchored, mixed / 2, atol=1e-6, rtol=1e-4)
