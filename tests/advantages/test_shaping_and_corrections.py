"""Rewards before group statistics, and corrections around them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.corrections import segment_penalty, size_factor, zero_hacks
from gagar_core.advantages.estimators import DrGrpo
from gagar_core.advantages.groups import group_quantile
from gagar_core.advantages.shaping import LengthPenalty, NoShaping, Overlong, ProductReward
from gagar_core.errors import ConfigError, InputError

NAN = float("nan")


def shape(shaping, rewards, lengths=None, codes=None, scores=None, passed=None):
    rewards = np.asarray(rewards, float)
    return shaping.shape(
        rewards,
        rewards > 0 if passed is None else np.asarray(passed, bool),
        np.zeros(len(rewards), np.int64) if codes is None else np.asarray(codes),
        np.asarray(lengths if lengths is not None else np.ones(len(rewards)), float),
        None if scores is None else np.asarray(scores, float),
    )


def test_no_shaping_returns_the_rewards():
    rewards = np.array([1.0, 0.5])
    assert NoShaping().shape(rewards, rewards > 0, np.zeros(2, int), rewards) is rewards


def test_length_penalty_is_relative_to_the_short_passes():
    # Passing lengths 100, 100, 150, 300: reference 100 (quantile .3), excess 0, 0, .5, 2
    found = shape(LengthPenalty(), [1, 1, 1, 1, 0], [100, 100, 150, 300, 9999])
    np.testing.assert_allclose(found, [1, 1, 1 - 0.2 * 0.5**1.5, 0.8, 0])
    settings = LengthPenalty(quantile=0, slack=0.25, span=0.75, power=1)
    np.testing.assert_allclose(shape(settings, [1, 1, 1], [100, 150, 180]), [1, 0.9, 0.8])


def test_length_penalty_spares_groups_at_or_below_the_gate():
    half = shape(LengthPenalty(gate=0.5), [1, 1, 0, 0], [10, 90, 1, 1])
    assert half.tolist() == [1, 1, 0, 0]
    assert shape(LengthPenalty(gate=0.49), [1, 1, 0, 0], [10, 90, 1, 1])[1] == 0.8
    assert shape(LengthPenalty(), [], []).shape == (0,)


def test_overlong_falls_in_a_line_and_stops():
    rewards = np.ones(6)
    lengths = [100, 800, 900, 1000, 1400, 801]
    bounded = shape(Overlong(limit=1000, buffer=200), rewards, lengths)
    np.testing.assert_allclose(bounded, [1, 1, 0.5, 0, 0, 1 - 1 / 200])
    endless = shape(Overlong(limit=1000, buffer=200, bounded=False), rewards, lengths)
    assert endless[4] == 1 - 3
    double = shape(Overlong(limit=1000, buffer=200, penalty=2), np.zeros(6), lengths)
    np.testing.assert_allclose(double, [0, 0, -1, -2, -2, -2 / 200])


def test_product_reward_gives_all_pass_groups_a_signal():
    found = shape(ProductReward(), [1, 1, 0], scores=[0.5, 1, NAN])
    np.testing.assert_allclose(found, [0.5, 1, 0])
    floored = shape(ProductReward(floor=0.7), [1, 1, 0], scores=[0.5, 1, NAN])
    np.testing.assert_allclose(floored, [0.7, 1, 0])
    partly = shape(ProductReward(), [1, 1, 1, 1], codes=[0, 0, 1, 1], scores=[0.5, NAN, 0.5, 0.2])
    np.testing.assert_allclose(partly, [1, 1, 0.5, 0.2])  # the first group has a pass without a score
    with pytest.raises(InputError, match="needs the scores"):
        shape(ProductReward(), [1, 0])
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        shape(ProductReward(), [1, 0], scores=[1.1, NAN])


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (LengthPenalty, {"penalty": -1.0, "quantile": 2.0, "gate": -0.1, "power": 0.0}),
        (Overlong, {"limit": 0, "penalty": -1.0}),
        (Overlong, {"limit": 10, "buffer": 11}),
        (ProductReward, {"floor": 1.5}),
    ],
)
def test_settings_faults_are_gathered(cls, wrong):
    with pytest.raises(ConfigError) as caught:
        cls(**wrong)
    assert str(list(wrong.values())[-1]) in str(caught.value)


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_group_quantile_is_that_of_numpy(seed, quantile):
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 4, 20)
    values = generator.integers(0, 9, 20).astype(float)
    found = group_quantile(values, codes, 5, quantile)
    for code in range(5):
        own = values[codes == code]
        if len(own):
            np.testing.assert_allclose(found[code], np.quantile(own, quantile), atol=1e-12)
        else:
            assert np.isnan(found[code])


def test_hacks_are_zeroed_before_the_mean():
    rewards, passed = zero_hacks([1, 1, 1, 0], [True, True, True, False], [False, False, True, False])
    assert passed.tolist() == [True, True, False, False]
    before = compute_advantages(rewards, "gggg", estimator=DrGrpo()).advantages
    assert before.tolist() == [0.5, 0.5, -0.5, -0.5]
    base = compute_advantages([1, 1, 1, 0], "gggg", estimator=DrGrpo()).advantages
    assert np.where([0, 0, 1, 0], 0, base).sum() == -0.25  # afterwards: the group pushes down


def test_size_factor():
    np.testing.assert_allclose(size_factor(np.array([8, 4, 2, 1, 0]), 8), [1, 7 / 6, 7 / 4, 0, 0])


def test_segment_penalty_moves_mass_to_clean_tokens():
    advantages = np.array([[0.5, 0.5, 0.5, 0.0], [-1.0, -1.0, -1.0, -1.0]])
    flagged = np.array([[True, False, False, False], [False, True, False, False]])
    # Positive: .5 flagged, 1 clean, α = 1.5. Negative: 1 flagged, 3 clean, β = 1 - 1/3
    found = segment_penalty(advantages, flagged)
    np.testing.assert_allclose(found, [[0, 0.75, 0.75, 0], [-2 / 3, -2, -2 / 3, -2 / 3]])
    bounded = segment_penalty(advantages, flagged, scale_max=1.2, scale_min=0.9)
    np.testing.assert_allclose(bounded, [[0, 0.6, 0.6, 0], [-0.9, -2, -0.9, -0.9]])
    nothing_clean = segment_penalty(np.array([[0.5], [-0.5]]), np.array([[True], [True]]))
    np.testing.assert_allclose(nothing_clean, [[0], [-1]])


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_segment_penalty_keeps_the_mass_of_each_sign(seed, grouped):
    generator = np.random.default_rng(seed)
    advantages = generator.normal(size=(6, 5))
    flagged = generator.random((6, 5)) < 0.15
    codes = np.array([0, 0, 0, 1, 1, 1]) if grouped else None
    found = segment_penalty(advantages, flagged, codes, kappa=1.5, scale_min=0.0, scale_max=100.0)
    for rows in [slice(0, 3), slice(3, 6)] if grouped else [slice(None)]:
        old, new, bad = advantages[rows], found[rows], flagged[rows]
        clean = np.maximum(old, 0)[~bad].sum()
        if clean > 0.1:
            np.testing.assert_allclose(np.maximum(new, 0).sum(), np.maximum(old, 0).sum())
        if np.maximum(-old, 0)[~bad].sum() > 0.5 * np.maximum(-old, 0)[bad].sum():
            np.testing.assert_allclose(np.maximum(-new, 0).sum(), np.maximum(-old, 0).sum())
    if grouped:
        alone = segment_penalty(advantages[:3], flagged[:3], kappa=1.5, scale_min=0.0, scale_max=100.0)
        np.testing.assert_array_equal(found[:3], alone)


def test_segment_penalty_faults():
    with pytest.raises(ConfigError, match="kappa"):
        segment_penalty(np.ones((1, 1)), np.ones((1, 1), bool), kappa=0.5)
    with pytest.raises(InputError, match="shape of advantages"):
        segment_penalty(np.ones((1, 2)), np.ones((1, 1), bool))
