"""Values of every estimator, from closed forms worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.baselines import Gpg, MaxRl, Opo, PassK, Reinforce, ReinforcePP
from gagar_core.advantages.estimators import DrGrpo, Grpo, Rloo
from gagar_core.choices import CHOICES
from gagar_core.errors import ConfigError, InputError

R4 = [1.0, 1.0, 1.0, 0.0]
MIXED = [1, 0, 0, 0, 1, 1, 1, 1]
TWO = ["a"] * 4 + ["b"] * 4
OPENRLHF_WHITENED = np.array([0.25, -0.75]) / np.sqrt(0.1875 + 1e-8)


def advantages(rewards, estimator, groups=None, **options):
    return compute_advantages(
        rewards, groups or ["g"] * len(rewards), estimator=estimator, **options
    ).advantages


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (Reinforce(), [1, 1, 1, 0]),
        (Reinforce(baseline="batch"), [0.25, 0.25, 0.25, -0.75]),
        (DrGrpo(), [0.25, 0.25, 0.25, -0.75]),
        (Grpo(eps=0), [0.5, 0.5, 0.5, -1.5]),  # sample deviation of [1, 1, 1, 0] is 1/2
        (Grpo(eps=0, ddof=0), np.array([0.25, 0.25, 0.25, -0.75]) / np.sqrt(0.1875)),
        (Grpo(eps=0.5), [0.25, 0.25, 0.25, -0.75]),
        (Rloo(), [1 / 3, 1 / 3, 1 / 3, -1]),
        (MaxRl(), [1 / 3, 1 / 3, 1 / 3, -1]),
        (Gpg(), [0.25, 0.25, 0.25, -0.75]),
        (Gpg(count="rewards"), np.array([0.25, 0.25, 0.25, -0.75]) * 4 / 3),
        (PassK(), [0, 0, 0, 0]),
        (ReinforcePP(eps=0), [0.5, 0.5, 0.5, -1.5]),
        (
            CHOICES["estimator"]["reinforce_pp_openrlhf"](),
            OPENRLHF_WHITENED[[0, 0, 0, 1]],
        ),
    ],
)
def test_three_of_four_pass(estimator, expected):
    np.testing.assert_allclose(advantages(R4, estimator), expected, atol=1e-12)


def test_opo_baseline_is_weighted_by_length():
    # Σ L r / Σ L = (1·1 + 3·0) / 4
    np.testing.assert_allclose(advantages([1, 0], Opo(), lengths=[1, 3]), [0.75, -0.25], atol=1e-15)
    np.testing.assert_allclose(advantages([1, 0], Opo(), lengths=[0, 0]), [0.5, -0.5], atol=1e-15)
    with pytest.raises(InputError, match="Opo needs lengths"):
        advantages([1, 0], Opo())


def test_reinforce_pp_counts_tokens():
    # Centred ±.5 over 1 and 3 tokens: mean -.25, variance (1·.75² + 3·.25²) / 3 = .25
    found = advantages([1, 0], ReinforcePP(eps=0), lengths=[1, 3])
    np.testing.assert_allclose(found, [1.5, -0.5], atol=1e-12)
    assert advantages([1, 0], ReinforcePP(), lengths=[0, 0]).tolist() == [0.5, -0.5]


def test_maxrl_divides_by_the_mean_and_is_zero_without_a_pass():
    np.testing.assert_allclose(advantages([1, 0, 0, 0], MaxRl()), [3, -1, -1, -1])
    assert advantages([0, 0, -1], MaxRl()).tolist() == [0, 0, 0]


def test_gpg_scales_up_for_groups_that_teach_nothing():
    by_groups = advantages(MIXED, Gpg(), TWO)
    np.testing.assert_allclose(by_groups, [1.5, -0.5, -0.5, -0.5, 0, 0, 0, 0])
    by_rewards = advantages(MIXED, Gpg(count="rewards"), TWO)
    np.testing.assert_allclose(by_rewards, [1.2, -0.4, -0.4, -0.4, 0, 0, 0, 0])
    assert advantages([1, 1], Gpg()).tolist() == [0, 0]


def test_passk_rewards_only_a_lone_best():
    np.testing.assert_allclose(advantages([0.2, 0.9, 0.5], PassK()), [0, 0.4, 0], atol=1e-15)
    np.testing.assert_allclose(advantages([1, 0, 0, 0], PassK(normalize=True, eps=0)), [2, 0, 0, 0])
    assert advantages([0.9, 0.9, 0.5], PassK()).tolist() == [0, 0, 0]
    interleaved = advantages([0, 0.5, 1, 0.25], PassK(), ["a", "b", "a", "b"])
    np.testing.assert_allclose(interleaved, [0, 0.25, 1, 0])


@pytest.mark.parametrize("cls", [DrGrpo, Rloo, MaxRl, Gpg, PassK])
def test_singleton_policies(cls):
    rewards, groups = [0.7, 1.0, 0.0], ["alone", "pair", "pair"]
    assert advantages(rewards, cls(), groups)[0] == 0
    raw = advantages(rewards, cls(singleton="raw"), groups)[0]
    assert raw == pytest.approx(1.4 if cls is Gpg else 0.7)  # gpg scales: one of two groups teaches
    with pytest.raises(InputError, match=r"single valid row.*row 0 \(group 'alone'\)"):
        advantages(rewards, cls(singleton="error"), groups)
    with pytest.raises(InputError, match="group 0 has a single valid row"):
        cls(singleton="error").advantages(np.array([0.7]), np.array([0]), 1, None)


def test_binary_groups_keep_their_bits_beside_shaped_ones():
    for order in ([0, 1, 2], [2, 1, 0]):
        rewards = np.array([0.0, 0.0, 1.0])[order]
        for estimator in (DrGrpo(), Grpo(), Rloo()):
            alone = advantages(rewards, estimator)
            beside = advantages([*rewards, 0.3, -0.7], estimator, list("aaabb"))[:3]
            assert alone.tolist() == beside.tolist()
            assert sorted(alone) == sorted(advantages([0.0, 0.0, 1.0], estimator))


def test_raw_singleton_of_grpo_is_divided_by_one_plus_eps():
    assert advantages([0.7], Grpo(singleton="raw", eps=1e-6))[0] == 0.7 / (1 + 1e-6)


def test_deviation_is_taken_in_two_passes():
    # Close rewards far from 0: E[x²] - E[x]² would lose every digit.
    found = advantages([1e8, 1e8 + 1, 1e8 + 2], Grpo(eps=0))
    np.testing.assert_allclose(found, [-1, 0, 1], atol=1e-12)


def test_every_named_library_choice_differs_in_defaults_only():
    table = CHOICES["estimator"]
    for name, cls in table.items():
        for library in ("_trl", "_verl", "_openrlhf"):
            if name.endswith(library):
                parent = table[name.removesuffix(library)]
                assert issubclass(cls, parent)
                assert vars(cls()).keys() == vars(parent()).keys()
                assert "advantages" not in vars(cls)


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (Grpo, {"ddof": 2, "eps": -1.0, "singleton": "keep", "nonfinite": "nan"}),
        (PassK, {"ddof": -1, "eps": float("nan")}),
        (Gpg, {"count": "rows"}),
        (Reinforce, {"baseline": "group"}),
        (ReinforcePP, {"ddof": 5, "eps": -1e-9}),
    ],
)
def test_settings_faults_are_gathered(cls, wrong):
    with pytest.raises(ConfigError) as caught:
        cls(**wrong)
    for name, value in wrong.items():
        assert name in str(caught.value)
        assert repr(value) in str(caught.value)


def test_any_callable_is_an_estimator():
    def user(rewards, codes, num_groups, lengths):
        assert codes.tolist() == [0, 0, 1]
        assert num_groups == 2
        assert lengths is None
        return rewards * 2

    assert compute_advantages([1, 0, 1], "aab", estimator=user).advantages.tolist() == [2, 0, 2]


def test_gpg_does_not_count_groups_without_a_valid_row():
    found = compute_advantages([1, 0, 1, 1, 1], list("aabbc"), valid=[1, 1, 1, 1, 0], estimator=Gpg())
    assert found.advantages.tolist() == [1.0, -1.0, 0.0, 0.0, 0.0]
