"""Parity with verl's own functions, and the differences that are meant. Needs the extra ``verl``."""

from __future__ import annotations

import uuid
import warnings

import numpy as np
import pytest
import torch

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.estimators import DrGrpo, Grpo
from gagar_core.advantages.redistribution import SumPreserving
from gagar_core.advantages.tensors import compute_advantages_from_tensors
from gagar_core.choices import CHOICES
from gagar_core.training.losses import SeqMeanTokenMean, TokenMean, kl_terms

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    verl = pytest.importorskip(
        "verl.trainer.ppo.core_algos",
        reason="verl is not installed here; its extra is 'verl' (parity was not checked)",
        exc_type=ImportError,
    )

pytestmark = pytest.mark.filterwarnings("ignore")
ESTIMATOR = CHOICES["estimator"]
PAIRS = [
    ("grpo_verl", "compute_grpo_outcome_advantage", {}),
    ("grpo_verl", "compute_grpo_vectorized_outcome_advantage", {}),
    ("grpo", "compute_grpo_outcome_advantage", {}),
    ("dr_grpo_verl", "compute_grpo_outcome_advantage", {"norm_adv_by_std_in_grpo": False}),
    ("dr_grpo_verl", "compute_grpo_vectorized_outcome_advantage", {"norm_adv_by_std_in_grpo": False}),
    ("rloo_verl", "compute_rloo_outcome_advantage", {}),
    ("rloo", "compute_rloo_vectorized_outcome_advantage", {}),
    ("reinforce_pp_verl", "compute_reinforce_plus_plus_baseline_outcome_advantage", {}),
    ("opo_verl", "compute_opo_outcome_advantage", {}),
    ("gpg_verl", "compute_gpg_outcome_advantage", {}),
    ("passk_verl", "compute_grpo_passk_outcome_advantage", {"config": {"norm_adv_by_std_in_grpo": True}}),
]


def batch(seed, kind, *, singles=False):
    """Unequal float32 rewards, interleaved groups, tool tokens masked; the reward is on the last token."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 9, 12)
    names = np.repeat(np.arange(len(sizes) + singles), [*sizes, 1] if singles else sizes)
    names = generator.permutation(names)
    rewards = {
        "binary": lambda n: (generator.random(n) < 0.5).astype(np.float32),
        "shaped": lambda n: generator.normal(size=n).astype(np.float32),
    }[kind](len(names))
    for name in set(names.tolist()):  # verl leaves dust on groups of equal rewards: a test of its own
        rows = np.flatnonzero(names == name)
        rewards[rows[0]], rewards[rows[-1]] = 0.0, 1.0
    mask = torch.from_numpy((generator.random((len(names), 7)) < 0.7).astype(np.float32))
    mask[:, 0] = 1.0
    token_rewards = torch.zeros(len(names), 7)
    token_rewards[:, -1] = torch.from_numpy(rewards)
    uuids = [str(uuid.UUID(int=int(x) * 977 + 1)) for x in range(len(sizes) + 1)]
    return token_rewards, mask, np.array([uuids[x] for x in names], dtype=object)


@pytest.mark.parametrize("kind", ["binary", "shaped"])
@pytest.mark.parametrize(("name", "function", "options"), PAIRS)
def test_same_advantages_on_unequal_groups(name, function, options, kind):
    for seed in range(5):
        token_rewards, mask, index = batch(seed, kind)
        theirs, returns = getattr(verl, function)(token_rewards.clone(), mask, index=index, **options)
        ours, _ = compute_advantages_from_tensors(
            token_rewards, index, mask=mask, estimator=ESTIMATOR[name]()
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        assert returns is theirs


@pytest.mark.parametrize(
    ("name", "function", "options"),
    [p for p in PAIRS if "_vectorized" not in p[1] and not p[0].startswith(("passk", "grpo"))]
    + [("grpo_verl", "compute_grpo_outcome_advantage", {})],
)
def test_same_raw_singletons(name, function, options):
    token_rewards, mask, index = batch(3, "shaped", singles=True)
    theirs, _ = getattr(verl, function)(token_rewards.clone(), mask, index=index, **options)
    ours, _ = compute_advantages_from_tensors(token_rewards, index, mask=mask, estimator=ESTIMATOR[name]())
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_redistribution_through_its_reward():
    """verl's grpo without deviation on the reward A* + mean gives A* back."""
    generator = np.random.default_rng(0)
    token_rewards, mask, index = batch(1, "binary")
    rewards = token_rewards.sum(1).numpy().astype(float)
    result = compute_advantages(
        rewards,
        index,
        estimator=DrGrpo(),
        redistribution=SumPreserving(),
        weights=generator.uniform(0.1, 1, len(rewards)),
    )
    encoded = torch.zeros_like(token_rewards)
    encoded[:, -1] = torch.from_numpy(result.advantages + rewards - result.base)
    theirs, _ = verl.compute_grpo_outcome_advantage(encoded, mask, index, norm_adv_by_std_in_grpo=False)
    torch.testing.assert_close(
        theirs, torch.from_numpy(result.advantages).float()[:, None] * mask, rtol=1e-5, atol=1e-5
    )


# Differences that are meant


def test_difference_dust():
    """Eight equal float32 rewards: verl's advantages are rounding noise over 1e-6, ours exactly 0."""
    seen = 0.0
    for value, size in ((0.6, 8), (0.9, 30), (0.1, 7), (0.3, 12)):
        rewards, index = torch.full((size, 1), value), np.array(["t"] * size, dtype=object)
        for function in (
            verl.compute_grpo_outcome_advantage,
            verl.compute_grpo_vectorized_outcome_advantage,
        ):
            seen = max(seen, function(rewards.clone(), torch.ones(size, 1), index)[0].abs().max().item())
        ours, _ = compute_advantages_from_tensors(rewards, index, estimator=ESTIMATOR["grpo_verl"]())
        assert torch.equal(ours, torch.zeros(size))
    assert seen > 0.01


def test_difference_singletons():
    """One row alone: verl's two rloo forms disagree; here the policy is a setting."""
    reward, index = torch.tensor([[0.7]]), np.array(["t"], dtype=object)
    assert verl.compute_rloo_outcome_advantage(reward.clone(), torch.ones(1, 1), index)[
        0
    ].item() == pytest.approx(0.7)
    assert (
        verl.compute_rloo_vectorized_outcome_advantage(reward.clone(), torch.ones(1, 1), index)[0].item() == 0
    )
    for name, expected in (("rloo", 0.0), ("rloo_verl", 0.7)):
        ours, _ = compute_advantages_from_tensors(reward, index, estimator=ESTIMATOR[name]())
        assert ours.item() == pytest.approx(expected)


def test_difference_label_merging():
    """verl's vectorised form reads "7" and "007" as one group."""
    rewards = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
    index = np.array(["7", "7", "007", "007"], dtype=object)
    theirs, _ = verl.compute_grpo_vectorized_outcome_advantage(rewards.clone(), torch.ones(4, 1), index)
    assert theirs.abs().min() > 0.8
    ours, result = compute_advantages_from_tensors(rewards, index, estimator=Grpo())
    assert torch.equal(ours, torch.zeros(4))
    assert result.groups == ["7", "007"]


def test_difference_nan():
    """One NaN turns verl's whole group into NaN; the named choice refuses it, our own leaves the row out."""
    rewards, index = torch.tensor([[1.0], [float("nan")], [0.0]]), np.array(["t"] * 3, dtype=object)
    theirs, _ = verl.compute_grpo_outcome_advantage(rewards.clone(), torch.ones(3, 1), index)
    assert theirs.isnan().all()
    with pytest.raises(ValueError, match="nonfinite=error"):
        compute_advantages_from_tensors(rewards, index, estimator=ESTIMATOR["grpo_verl"]())
    ours, _ = compute_advantages_from_tensors(rewards, index, estimator=DrGrpo())
    assert ours.tolist() == [0.5, 0.0, -0.5]


# Losses


@pytest.mark.parametrize(
    ("name", "mode", "settings", "options"),
    [
        ("token_mean", "token-mean", {}, {}),
        ("seq_mean_token_mean", "seq-mean-token-mean", {}, {}),
        ("seq_mean_token_sum", "seq-mean-token-sum", {}, {}),
        ("constant_norm", "seq-mean-token-sum-norm", {"horizon": 17}, {"loss_scale_factor": 17}),
    ],
)
def test_same_aggregation(name, mode, settings, options):
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        terms = torch.randn(6, 9, generator=generator)
        mask = (torch.rand(6, 9, generator=generator) < 0.6).float()
        mask[2] = 0  # a sequence without a trained token counts nowhere
        theirs = verl.agg_loss(terms, mask, mode, **options)
        ours = CHOICES["loss"][name](**settings).aggregate(terms, mask, torch.arange(6))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def surrogate_batch():
    generator = torch.Generator().manual_seed(3)
    old = -torch.rand(6, 9, generator=generator) * 3
    new = (old + torch.randn(6, 9, generator=generator) * 0.8).requires_grad_()
    mask = (torch.rand(6, 9, generator=generator) < 0.7).float()
    mask[:, 0] = 1
    return old, new, torch.randn(6, generator=generator), mask


def test_same_clipped_surrogate_and_gradient():
    old, new, advantages, mask = surrogate_batch()
    theirs, *_ = verl.compute_policy_loss(
        old, new, advantages[:, None] * mask, mask, cliprange_low=0.2, cliprange_high=0.28, clip_ratio_c=3.0
    )
    loss = TokenMean(clip_high=0.28, dual_clip=3.0)
    ours = loss.aggregate(loss.terms(new, old, advantages, mask), mask, torch.arange(6))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    (left,), (right,) = torch.autograd.grad(ours, new), torch.autograd.grad(theirs, new)
    torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


def test_same_sequence_ratio():
    from verl.workers.config import ActorConfig

    old, new, advantages, mask = surrogate_batch()
    config = ActorConfig(
        strategy="fsdp", clip_ratio_low=0.2, clip_ratio_high=0.28, rollout_n=1, use_dynamic_bsz=True
    )
    theirs, _ = verl.compute_policy_loss_gspo(old, new, advantages[:, None] * mask, mask, config=config)
    loss = SeqMeanTokenMean(clip_high=0.28, ratio="sequence")
    ours = loss.aggregate(loss.terms(new, old, advantages, mask), mask, torch.arange(6))
    (left,), (right,) = torch.autograd.grad(ours, new), torch.autograd.grad(theirs, new)
    torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("ours", "theirs"), [("k1", "kl"), ("k3", "low_var_kl")])
def test_same_kl_estimators(ours, theirs):
    old, new, _, mask = surrogate_batch()
    found = verl.kl_penalty(new, old, theirs) * mask
    torch.testing.assert_close(kl_terms(new, old, mask, estimator=ours), found, rtol=1e-5, atol=1e-6)
