"""Loss aggregation, clipped surrogate, sequence ratio and KL against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from gagar_core.choices import CHOICES
from gagar_core.errors import ConfigError, InputError
from gagar_core.training.losses import (
    ConstantNorm,
    PromptMean,
    SeqMeanTokenMean,
    SeqMeanTokenSum,
    TokenMean,
    clipped_surrogate,
    importance_ratio,
    kl_terms,
)

TERMS = torch.tensor([[1.0, 1, 1, 1], [-1, 9, 9, 9]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]])
OWN = torch.tensor([0, 1])
LOSSES = list(CHOICES["loss"].values())


def aggregate(loss, terms=TERMS, mask=MASK, groups=OWN, sequences=None):
    return loss.aggregate(terms, mask, groups, sequences).item()


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (TokenMean(), 0.6),
        (SeqMeanTokenSum(), 1.5),
        (SeqMeanTokenMean(), 0.0),
        (ConstantNorm(horizon=4), 0.375),
        (PromptMean(), 0.0),
    ],
)
def test_four_tokens_against_one(loss, expected):
    assert aggregate(loss) == pytest.approx(expected, abs=1e-15)
    padded_terms = torch.nn.functional.pad(TERMS, (0, 5), value=float("nan"))
    padded_mask = torch.nn.functional.pad(MASK, (0, 5))
    assert aggregate(loss, padded_terms, padded_mask) == pytest.approx(expected, abs=1e-15)


def test_prompt_mean_weighs_tasks_equally():
    terms = torch.tensor([[1.0, 1], [4, 0], [-1, -1]], dtype=torch.float64)
    mask = torch.tensor([[1, 1], [1, 0], [1, 1]])
    groups = torch.tensor([7, 7, 3])
    assert aggregate(PromptMean(), terms, mask, groups) == pytest.approx((6 / 3 - 1) / 2)
    assert aggregate(TokenMean(), terms, mask, groups) == pytest.approx(4 / 5)


@pytest.mark.parametrize(
    ("cls", "verl", "trl"),
    [(SeqMeanTokenMean, 0.0, 0.0), (SeqMeanTokenSum, 1.5, 1.0), (ConstantNorm, 1.5, 1.0)],
)
def test_sequences_without_a_token_count_or_not(cls, verl, trl):
    terms = torch.cat([TERMS, torch.full((1, 4), 5.0, dtype=torch.float64)])
    mask = torch.cat([MASK, torch.zeros(1, 4, dtype=torch.long)])
    groups = torch.tensor([0, 1, 2])
    extra = {"horizon": 1} if cls is ConstantNorm else {}
    assert aggregate(cls(**extra), terms, mask, groups) == pytest.approx(verl, abs=1e-15)
    assert aggregate(cls(count_empty=True, **extra), terms, mask, groups) == pytest.approx(trl, abs=1e-15)
    assert aggregate(PromptMean(), terms, mask, groups) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("cls", LOSSES)
def test_rows_of_one_trajectory_count_as_one(cls):
    whole_terms = torch.tensor([[1.0, 2, 3, 4], [5, 6, 0, 0]], dtype=torch.float64)
    whole_mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    cut_terms = torch.tensor([[1.0, 2], [3, 4], [5, 6]], dtype=torch.float64)
    whole = aggregate(cls(), whole_terms, whole_mask, torch.tensor([0, 1]))
    cut = aggregate(cls(), cut_terms, torch.ones(3, 2), torch.tensor([0, 0, 1]), torch.tensor([4, 4, 9]))
    assert cut == pytest.approx(whole, rel=1e-14)


@pytest.mark.parametrize("cls", LOSSES)
def test_micro_batches_add_up(cls):
    generator = torch.Generator().manual_seed(0)
    terms = torch.randn(8, 6, generator=generator, dtype=torch.float64)
    mask = torch.rand(8, 6, generator=generator) < 0.6
    groups = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2])
    loss = cls()
    coefficients = loss.coefficients(mask, groups)
    parts = [
        (torch.where(mask[rows], terms[rows], 0).sum(1) * coefficients[rows]).sum()
        for rows in ([0, 3], [1, 2, 4], [5, 6, 7])
    ]
    assert sum(parts).item() == pytest.approx(loss.aggregate(terms, mask, groups).item(), rel=1e-12)


@pytest.mark.parametrize("cls", LOSSES)
def test_nothing_to_train_on_gives_zero(cls):
    terms = torch.full((2, 3), float("nan"), requires_grad=True)
    value = cls().aggregate(terms, torch.zeros(2, 3), OWN)
    assert value.item() == 0
    value.backward()
    assert torch.equal(terms.grad, torch.zeros(2, 3))
    assert cls().aggregate(torch.zeros(0, 3), torch.zeros(0, 3), torch.zeros(0)).item() == 0


@pytest.mark.parametrize("cls", LOSSES)
def test_low_precision_terms_are_added_in_float32(cls):
    terms = torch.ones(1, 4096, dtype=torch.bfloat16)
    value = cls().aggregate(terms, torch.ones(1, 4096), torch.tensor([0]))
    assert value.dtype == torch.float32
    expected = {"SeqMeanTokenSum": 4096.0, "ConstantNorm": 4096 / 192}.get(cls.__name__, 1.0)
    assert value.item() == pytest.approx(expected, rel=1e-6)


# The surrogate


@pytest.mark.parametrize(
    ("ratio", "advantage", "settings", "expected"),
    [
        (1.1, 2.0, {}, -2.2),
        (1.5, 2.0, {}, -2.4),  # clipped above
        (1.5, 2.0, {"clip_high": 0.28}, -2.56),
        (0.5, 2.0, {}, -1.0),  # a pessimistic bound: not clipped
        (0.5, -2.0, {}, 1.6),  # clipped below
        (0.5, -2.0, {"clip_low": 0.3}, 1.4),
        (5.0, -2.0, {}, 10.0),  # unbounded without dual clip
        (5.0, -2.0, {"dual_clip": 3.0}, 6.0),
        (2.0, -2.0, {"dual_clip": 3.0}, 4.0),
        (5.0, 2.0, {"dual_clip": 3.0}, -2.4),  # only for negative advantages
        (5.0, 0.0, {"dual_clip": 3.0}, 0.0),
    ],
)
def test_clipped_surrogate(ratio, advantage, settings, expected):
    for advantages in (torch.tensor([advantage]), torch.tensor([[advantage]])):
        found = clipped_surrogate(torch.tensor([[ratio]]), advantages, **settings)
        assert found.item() == pytest.approx(expected, rel=1e-6)


def test_sequence_ratio_is_a_geometric_mean_with_token_gradients():
    old = torch.zeros(2, 3)
    new = torch.tensor([[0.1, 0.3, 9.0], [-0.2, 0.4, 0.1]], requires_grad=True)
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    ratio = importance_ratio(new, old, mask, ratio="sequence")
    expected = torch.tensor([[math.exp(0.2)] * 2 + [1.0], [math.exp(0.1)] * 3])
    torch.testing.assert_close(ratio, expected)
    weights = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    (ratio * weights).sum().backward()
    torch.testing.assert_close(new.grad, expected * weights * mask)


def test_sequence_ratio_and_token_mean_give_the_gradient_of_gspo():
    """With one advantage per row the gradient is that of s_i A_i, s_i the length-normalised ratio."""
    generator = torch.Generator().manual_seed(1)
    old = torch.randn(3, 5, generator=generator, dtype=torch.float64) * 0.1
    mask = torch.rand(3, 5, generator=generator) < 0.7
    mask[:, 0] = True
    advantages = torch.tensor([0.5, -1.0, 0.25], dtype=torch.float64)
    new = (old + 0.02 * torch.randn(3, 5, generator=generator, dtype=torch.float64)).requires_grad_()
    loss = SeqMeanTokenMean(ratio="sequence")
    loss.aggregate(loss.terms(new, old, advantages, mask), mask, torch.arange(3)).backward()
    plain = new.detach().clone().requires_grad_()
    log = torch.where(mask, plain - old, 0).sum(1) / mask.sum(1)
    (-(log.exp() * advantages).mean()).backward()
    torch.testing.assert_close(new.grad, plain.grad, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("cls", LOSSES)
def test_first_epoch_gradient_is_the_plain_policy_gradient(cls):
    """At ratio 1 nothing is clipped, and the surrogate's gradient is that of -A log p."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(4, 6, 9, generator=generator, dtype=torch.float64)
    tokens = torch.randint(0, 9, (4, 6, 1), generator=generator)
    mask = torch.rand(4, 6, generator=generator) < 0.8
    advantages = torch.tensor([1 / 3, 0.2, -0.5, 0.0], dtype=torch.float64)
    groups = torch.tensor([0, 0, 1, 1])
    gradients = []
    for plain in (False, True):
        leaf = logits.clone().requires_grad_()
        logprobs = leaf.log_softmax(-1).gather(-1, tokens).squeeze(-1)
        loss = cls(dual_clip=3.0)
        terms = (
            -advantages[:, None] * logprobs
            if plain
            else loss.terms(logprobs, logprobs.detach(), advantages, mask)
        )
        loss.aggregate(terms, mask, groups).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-15)


def test_masked_tokens_cannot_poison_value_or_gradient():
    new = torch.tensor([[0.1, float("nan"), -float("inf")]], requires_grad=True)
    old = torch.tensor([[0.0, 0.0, -float("inf")]])
    mask = torch.tensor([[1, 0, 0]])
    for ratio in ("token", "sequence"):
        loss = TokenMean(ratio=ratio, kl_coef=0.5)
        value = loss.aggregate(
            loss.terms(new, old, torch.tensor([1.0]), mask, ref_logprobs=old), mask, OWN[:1]
        )
        (gradient,) = torch.autograd.grad(value, new)
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all()
        assert gradient[0, 1:].tolist() == [0, 0]


def test_huge_log_ratios_stay_finite():
    new, old = torch.tensor([[500.0, -500.0]]), torch.zeros(1, 2)
    ratio = importance_ratio(new, old, torch.ones(1, 2))
    torch.testing.assert_close(ratio, torch.tensor([[math.exp(20), math.exp(-20)]]))


def test_kl_estimators():
    p, q = torch.tensor([[-1.0, -2.0, 7.0]]), torch.tensor([[-1.5, -1.0, 8.0]])
    mask = torch.tensor([[1, 1, 0]])
    torch.testing.assert_close(kl_terms(p, q, mask, estimator="k1"), torch.tensor([[0.5, -1.0, 0]]))
    d = [-0.5, 1.0]
    expected = torch.tensor([[math.exp(x) - 1 - x for x in d] + [0.0]])
    torch.testing.assert_close(kl_terms(p, q, mask, estimator="k3"), expected)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_kl_estimators_are_unbiased(estimator):
    """Their expectation under the policy is the exact divergence."""
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)
    terms = kl_terms(p.log()[None], q.log()[None], torch.ones(1, 3), estimator=estimator)
    assert (p * terms[0]).sum().item() == pytest.approx((p * (p / q).log()).sum().item())


def test_kl_term_is_added_to_the_loss():
    new, old, ref = torch.tensor([[-1.0]]), torch.tensor([[-1.0]]), torch.tensor([[-1.5]])
    mask, advantage = torch.ones(1, 1), torch.tensor([2.0])
    loss = TokenMean(kl_coef=0.1, kl_estimator="k1")
    assert loss.terms(new, old, advantage, mask, ref).item() == pytest.approx(-2 + 0.1 * 0.5)
    with pytest.raises(InputError, match=r"kl_coef=0\.1 needs the log-probabilities"):
        loss.terms(new, old, advantage, mask)


def test_settings_faults_are_gathered():
    wrong = {"clip_low": 1.5, "clip_high": -0.1, "dual_clip": 0.5, "ratio": "word", "kl_coef": -1.0}
    with pytest.raises(ConfigError) as caught:
        TokenMean(**wrong, kl_estimator="k2")
    for name, value in {**wrong, "kl_estimator": "k2"}.items():
        assert name in str(caught.value)
        assert repr(value) in str(caught.value)
    with pytest.raises(ConfigError, match="horizon"):
        ConstantNorm(horizon=0)


def test_rows_without_tokens_do_not_shrink_their_trajectory():
    terms = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [-3.0, -3.0]])
    mask = torch.tensor([[1, 1], [0, 0], [0, 0], [1, 1]])
    codes, sequences = torch.zeros(4, dtype=torch.long), torch.tensor([0, 0, 0, 1])
    assert float(SeqMeanTokenSum().aggregate(terms, mask, codes, sequences)) == -2.0
    assert float(SeqMeanTokenMean().aggregate(terms, mask, codes, sequences)) == -1.0
