"""Values of every redistribution and field, worked out by hand from the definition."""

from __future__ import annotations

import numpy as np
import pytest

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.estimators import DrGrpo, Grpo, Rloo
from gagar_core.advantages.redistribution import NoRedistribution, Paper, SumPreserving
from gagar_core.advantages.redistribution_arms import DownweightOnly, ShareCap
from gagar_core.advantages.weightings import Linear, TopK
from gagar_core.choices import CHOICES
from gagar_core.errors import ConfigError

NAN = float("nan")
HALF = [1, 1, 0, 0]


def run(rewards, rule, weights=None, estimator=None, **options):
    return compute_advantages(
        rewards,
        ["g"] * len(rewards),
        estimator=estimator or DrGrpo(),
        redistribution=rule,
        weights=weights,
        **options,
    )


def close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_commutes_with_the_scale_of_the_base():
    weights = [1, 0.5, NAN, NAN]
    close(run(HALF, SumPreserving(), weights).advantages, [2 / 3, 1 / 3, -0.5, -0.5])
    close(run(HALF, SumPreserving(), weights, Rloo()).advantages, [8 / 9, 4 / 9, -2 / 3, -2 / 3])
    std = run(HALF, SumPreserving(), weights, Grpo()).advantages
    close(std, [1.15470, 0.57735, -0.86602, -0.86602], 1e-5)


def test_reward_space_route_with_a_deviation_is_not_the_same():
    """A* + mean as the reward of a std-normalising trainer: all shrink by the new deviation."""
    shared = run(HALF, SumPreserving(), [1, 0.5, NAN, NAN])
    reward = shared.advantages + 0.5
    close(run(reward, None).advantages, shared.advantages)
    factor = np.std(reward, ddof=1) / np.std(HALF, ddof=1)
    assert factor == pytest.approx(1.0274, abs=1e-4)
    direct = run(HALF, SumPreserving(), [1, 0.5, NAN, NAN], Grpo(eps=0)).advantages
    close(run(reward, None, estimator=Grpo(eps=0)).advantages * factor, direct)


def test_paper_cuts_lambda_and_recentres():
    # f = [1, .2, .2]: S = .75, W = .35, λ = 2.14 → 1.5; of the missing .75 - .525 each row gets a quarter
    result = run([1, 1, 1, 0], Paper(), [1, 0.2, 0.2, NAN])
    close(result.advantages, [0.375 + 0.05625, 0.075 + 0.05625, 0.075 + 0.05625, -0.75 + 0.05625])
    close(result.lambda_, [1.5])
    assert result.capped.tolist() == [True]
    close(result.positive_mass_kept, [(0.525 + 3 * 0.05625) / 0.75])
    above = run([1, 1, 1, 0], Paper(), [1, 1, 0.4, NAN])  # mean .8 > 2/3: not reached
    close(above.advantages, [0.3125, 0.3125, 0.125, -0.75])
    assert above.capped.tolist() == [False]
    assert above.advantages[3] == -0.75


def test_strict_applies_the_cap_where_there_is_nothing_to_choose_between():
    lone = run([1, 0, 0, 0], Paper(strict=True), [0.2, NAN, NAN, NAN])
    close(lone.advantages, [0.35625, -0.11875, -0.11875, -0.11875])
    tied = run([1, 1, 0, 0], Paper(strict=True), [0.625, 0.625, NAN, NAN])
    close(tied.advantages, [0.484375, 0.484375, -0.484375, -0.484375])
    for strict in (False, True):
        assert run([1, 0], SumPreserving(strict=strict), [0.2, NAN]).advantages == pytest.approx([0.5, -0.5])
    assert run([1, 0], Paper(), [0.2, NAN]).fallback.tolist() == ["single pass"]
    off = run([1, 1, 0, 0], Paper(strict=True, shrink=1), [0.625, 0.5, NAN, NAN])
    assert off.advantages.tolist() == [0.5, 0.5, -0.5, -0.5]


def test_a_pass_with_a_negative_base_is_clipped_or_kept():
    rewards, passed = [1, 0.1, 0, 0], [1, 1, 0, 0]
    clipped = run(rewards, SumPreserving(negative_pass="clip"), [1, 0.85, NAN, NAN], passed=passed)
    close(clipped.advantages, [0.68125, -0.04375, -0.31875, -0.31875])
    close(clipped.positive_mass_kept, [0.68125 / 0.725])
    kept = run(rewards, SumPreserving(), [1, 0.85, NAN, NAN], passed=passed)
    close(kept.advantages, [0.725, -0.175, -0.275, -0.275])
    assert kept.advantages[1:].tolist() == kept.base[1:].tolist()
    three = run([1, 0.8, 0.1, 0], SumPreserving(), [0.5, 1, 0.1, NAN], passed=[1, 1, 1, 0])
    # base .525, .325, -.375, -.475: λ = .85 / (.2625 + .325)
    factor = 0.85 / 0.5875
    close(three.advantages, [0.2625 * factor, 0.325 * factor, -0.375, -0.475])


def test_token_mass():
    lengths = [100, 300, 50, 50]
    plain = run(HALF, SumPreserving(), [1, 0.5, NAN, NAN], lengths=lengths)
    assert plain.advantages[:2] @ lengths[:2] == pytest.approx(166.6666667)
    token = run(HALF, SumPreserving(conserve="token"), [1, 0.5, NAN, NAN], lengths=lengths)
    close(token.advantages, [0.8, 0.4, -0.5, -0.5])
    assert token.advantages[:2] @ lengths[:2] == pytest.approx(200)
    close(token.positive_mass_kept, [1])


def test_share_cap_spreads_the_excess():
    # f = [1, .2, .2]: μ f = 2.14 for the best, capped at 1.5 · .25 = .375; the rest, .375, is shared equally
    result = run([1, 1, 1, 0], ShareCap(gain_max=1.5), [1, 0.2, 0.2, NAN])
    close(result.advantages, [0.375, 0.1875, 0.1875, -0.75])
    assert result.capped.tolist() == [True]
    close(result.lambda_, [0.1875 / 0.25 / 0.2])
    # Two rounds: first the best is full, and that fills the second
    result = run([1, 1, 1, 1, 0], ShareCap(gain_max=1.25), [1, 0.6, 0.1, 0.1, NAN])
    close(result.advantages, [0.25, 0.25, 0.15, 0.15, -0.8])
    assert run([1, 1, 1, 0], ShareCap(gain_max=1), [1, 0.2, 0.2, NAN]).advantages.tolist() == [0.25] * 3 + [
        -0.75
    ]
    loose = run([1, 1, 1, 0], ShareCap(gain_max=99), [1, 0.85, 0.4, NAN])
    close(loose.advantages, [1 / 3, 0.85 / 3, 0.4 / 3, -0.75])
    assert loose.capped.tolist() == [False]


def test_share_cap_by_tokens_and_clip():
    lengths = [100, 300, 50, 50]
    result = run(HALF, ShareCap(gain_max=1.2, conserve="token"), [1, 0.5, NAN, NAN], lengths=lengths)
    # Mass 50 + 150; the first gets 1.2 · .5, the second what is left: (200 - 60) / 300
    close(result.advantages, [0.6, 140 / 300, -0.5, -0.5])
    clipped = run([1, 0.1, 0, 0], ShareCap(negative_pass="clip"), [1, 0.85, NAN, NAN], passed=[1, 1, 0, 0])
    close(clipped.advantages, [0.68125, -0.04375, -0.31875, -0.31875])


def test_downweight_only_loses_mass():
    result = run([1, 1, 1, 0], DownweightOnly(), [1, 0.85, 0.4, NAN])
    close(result.advantages, [0.25, 0.2125, 0.1, -0.75])
    close(result.positive_mass_kept, [0.75])
    close(result.lambda_, [1])
    shaped = run([1, 0.1, 0, 0], DownweightOnly(), [0.5, 0.85, NAN, NAN], passed=[1, 1, 0, 0])
    close(shaped.advantages, [0.3625, -0.175, -0.275, -0.275])


def test_shrink_pulls_weights_to_their_mean():
    result = run([1, 1, 0], SumPreserving(shrink=0.5), [1, 0.5, NAN])
    close(result.weights[:2], [0.875, 0.625])
    close(result.advantages, [2 / 3 * 0.875 / 1.5, 2 / 3 * 0.625 / 1.5, -2 / 3])


def test_a_coin_flip_between_two_ranks_averages_to_the_base():
    one, other = (run([1, 1, 0], SumPreserving(), w).advantages for w in ([1, 0.3, NAN], [0.3, 1, NAN]))
    close((one + other) / 2, [1 / 3, 1 / 3, -2 / 3])


def test_temper_is_an_exponent():
    result = run([1, 1, 0], SumPreserving(temper=2), [1, 0.5, NAN])
    close(result.weights[:2], [1, 0.25])
    assert run([1, 1, 0], SumPreserving(temper=0), [1, 0.5, NAN]).fallback.tolist() == ["all passes tied"]


def test_weights_that_vanish_are_reported():
    gone = run([1, 1, 0], SumPreserving(temper=400), [0.1, 0.01, NAN])  # both are 0 in float64
    assert gone.fallback.tolist() == ["all passes tied"]
    rows = [1, 0.5, 0, 0]
    tiny = run(rows, SumPreserving(), [1e-320, 1e-321, NAN, NAN], passed=[1, 1, 0, 0])
    assert tiny.fallback.tolist() == [""]
    assert tiny.advantages[:2].sum() == pytest.approx(0.75, rel=1e-12)
    assert tiny.lambda_[0] == np.finfo(float).max  # the true factor, 1e320, is no float
    tiny_base = run([1e-310, 0, 1e-310], SumPreserving(), [1e-30, NAN, 1e-31], passed=[1, 0, 1])
    assert tiny_base.fallback.tolist() == ["weights too small to rescale"]
    assert tiny_base.advantages.tolist() == tiny_base.base.tolist()


def test_tiny_weights_beside_a_pass_without_positive_base():
    rewards, passed = [1, 0.9, 0.1, 0], [1, 1, 1, 0]
    result = run(rewards, SumPreserving(), [1e-320, 1e-321, 1, NAN], passed=passed)
    assert result.fallback.tolist() == [""]
    assert result.advantages[:2].sum() == pytest.approx(0.9, rel=1e-13)
    assert result.advantages[2:].tolist() == result.base[2:].tolist()


def test_a_rescale_beyond_every_float_keeps_the_base():
    for rule in (SumPreserving(), Paper()):
        result = run([1, 1, 0], rule, [1e-320, 1, NAN], lambda *_: np.array([1e200, 1e-200, -1.0]))
        assert result.fallback.tolist() == ["weights too small to rescale"]
        assert result.advantages.tolist() == [1e200, 1e-200, -1.0]


def test_recentring_one_group_leaves_every_bit_of_the_others():
    base = np.array([0.25, 0.25, 0.25, -0.75, -0.0, 0.0])
    result = compute_advantages(
        [1, 1, 1, 0, 1, 0],
        list("aaaabb"),
        estimator=lambda *_: base,
        redistribution=Paper(),
        weights=[1, 0.2, 0.2, 1, 1, 1],
    )
    assert result.capped.tolist() == [True, False]
    assert np.signbit(result.advantages[4])


def test_start_step_and_ramp_become_shrink():
    for cls in (SumPreserving, Paper, ShareCap, DownweightOnly):
        rule = cls(shrink=0.2, start_step=10, ramp=3)
        close(
            [rule.at_step(step).shrink for step in (0, 9, 10, 11, 12, 13, 99)],
            [1, 1, 0.8, 0.6, 0.4, 0.2, 0.2],
        )
        assert rule.at_step(11).at_step(0).shrink == pytest.approx(0.6)  # the copy no longer waits
        assert rule.shrink == 0.2
    assert SumPreserving().at_step(0) == SumPreserving()
    assert SumPreserving(start_step=1).at_step(0).shrink == 1
    assert NoRedistribution().at_step(5) == NoRedistribution()


def test_group_size_correction():
    # Five of eight rows are left: (1 - 1/8) / (1 - 1/5)
    factor = (7 / 8) / (4 / 5)
    rewards = [1, 1, 0, 0, 0, 1, 0, 1]
    valid = [1, 1, 1, 1, 1, 0, 0, 0]
    corrected = run(rewards, SumPreserving(group_size=8), [1, 0.5, 1, 1, 1, 1, 1, 1], valid=valid)
    plain = run(rewards, SumPreserving(), [1, 0.5, 1, 1, 1, 1, 1, 1], valid=valid)
    close(corrected.advantages, plain.advantages * factor)
    # which is RLOO times a constant that all groups share
    loo = run(rewards, SumPreserving(), [1, 0.5, 1, 1, 1, 1, 1, 1], Rloo(), valid=valid)
    close(corrected.advantages, loo.advantages * 7 / 8)
    whole = run(HALF, SumPreserving(group_size=4), [1, 0.5, NAN, NAN])
    assert whole.advantages.tolist() == run(HALF, SumPreserving(), [1, 0.5, NAN, NAN]).advantages.tolist()
    alone = run([1], SumPreserving(group_size=4), [1], DrGrpo(singleton="raw"))
    assert alone.advantages.tolist() == [0]


def test_all_pass_groups_can_be_ranked_against_each_other():
    rule = SumPreserving(all_pass="leave_one_out", beta=0.3)
    result = run([1] * 4, rule, weighting=Linear(), ranks=[2, 1, 3, 4])
    close(
        result.advantages, np.array([0.222222222222, 0.666666666667, -0.222222222222, -0.666666666667]) * 0.3
    )
    quality = [2 / 3, 1, 1 / 3, 0]
    others = [q - (sum(quality) - q) / 3 for q in quality]
    close(result.advantages, 0.3 * np.array(others))
    assert result.fallback.tolist() == [""]
    ties = run([1] * 3, rule, weighting=TopK(top=3), ranks=[1, 2, 2])  # weights tie, ranks do not
    close(ties.advantages, 0.3 * 1.5 * np.array([0.5, -0.25, -0.25]))
    by_weight = run([1] * 3, rule, [0.2, 1, 0.5])
    close(by_weight.advantages, 0.3 * 1.5 * np.array([-0.5, 0.5, 0]))
    halved = run([1] * 3, SumPreserving(all_pass="leave_one_out", beta=0.3, shrink=0.5), [0.2, 1, 0.5])
    close(halved.advantages, by_weight.advantages / 2)


@pytest.mark.parametrize(
    ("rewards", "weights", "passed"),
    [
        ([1, 1, 1], [0.5, 0.5, 0.5], None),  # all tie
        ([1, 1, 1], [1, NAN, 0.5], None),  # no usable grade
        ([1], [0.5], None),
        ([0, 0, 0], [NAN] * 3, None),
        ([1, 1, 0], [1, 0.5, NAN], None),  # mixed: the ordinary rule
        ([1, 0.9, 1], [1, 0.5, 0.2], [1, 1, 1]),  # shaped, so the base already teaches: the ordinary rule
        ([1, 0.9, 1], [0.5, 0.5, 0.5], [1, 1, 1]),
    ],
)
def test_leave_one_out_touches_flat_all_pass_groups_only(rewards, weights, passed):
    anchored = run(rewards, SumPreserving(all_pass="leave_one_out"), weights, passed=passed)
    plain = run(rewards, SumPreserving(), weights, passed=passed)
    assert anchored.advantages.tolist() == plain.advantages.tolist()
    assert anchored.fallback.tolist() == plain.fallback.tolist()


def test_uneven_groups_have_their_own_lambda():
    result = compute_advantages(
        [1, 1, 0, 1, 1, 1, 1, 0],
        list("aaabbbbb"),
        estimator=DrGrpo(),
        redistribution=SumPreserving(),
        weights=[1, 0.5, 1, 1, 1, 0.2, 0.2, 1],
    )
    close(result.lambda_, [4 / 3, 1 / 0.6])
    assert result.groups == ["a", "b"]


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (SumPreserving, {"lambda_max": 0.5, "conserve": "rows", "negative_pass": "drop", "shrink": 1.5}),
        (SumPreserving, {"temper": -1.0, "start_step": -1, "ramp": -2, "group_size": -8}),
        (SumPreserving, {"all_pass": "drop", "beta": -0.1}),
        (ShareCap, {"gain_max": 0.9, "conserve": "x", "negative_pass": "y"}),
        (DownweightOnly, {"shrink": float("nan")}),
    ],
)
def test_settings_faults_are_gathered(cls, wrong):
    with pytest.raises(ConfigError) as caught:
        cls(**wrong)
    for name, value in wrong.items():
        assert name in str(caught.value)
        assert repr(value) in str(caught.value)


def test_choices_follow_the_protocol():
    from gagar_core.protocols import Estimator, GradedWeighting, Redistribution, Shaping, Weighting

    for name, protocols in {
        "estimator": (Estimator,),
        "weighting": (Weighting, GradedWeighting),
        "redistribution": (Redistribution,),
        "shaping": (Shaping,),
    }.items():
        for cls in CHOICES[name].values():
            assert isinstance(cls(), protocols), cls


def test_leave_one_out_in_one_group_does_not_depend_on_the_grades_of_another():
    rule = SumPreserving(all_pass="leave_one_out")
    for missing in (3.0, float("nan")):
        found = compute_advantages(
            [1] * 6,
            list("aaabbb"),
            estimator=DrGrpo(),
            redistribution=rule,
            weights=[0.5, 1, 0.7, 1, 0.5, 0.2],
            ranks=[1, 2, 3, 1, 2, missing],
        )
        assert found.advantages == pytest.approx([0.075, 0, -0.075] * 2)


def test_a_group_size_of_one_would_zero_everything():
    with pytest.raises(ConfigError, match="group_size"):
        SumPreserving(group_size=1)


@pytest.mark.parametrize(
    ("rewards", "passed", "rule"),
    [
        ([1], [1], Paper(strict=True, all_pass="leave_one_out")),  # nobody to compare with: no 0 / 0
        ([0.5, 0.5, 0.5], [1, 1, 0], SumPreserving(all_pass="leave_one_out")),  # flat, but not all pass
    ],
)
def test_leave_one_out_leaves_these_alone(rewards, passed, rule):
    found = run(rewards, rule, [1, 0.5, 0.25][: len(rewards)], passed=passed)
    assert found.advantages.tolist() == [0.0] * len(rewards)
