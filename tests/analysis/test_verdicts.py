"""Claims, verdicts and interactions: each verdict by hand, its opposite, and what makes it undecided."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from analysis.comparisons import compare
from analysis.contrasts import (
    REFUTED,
    SUPPORTED,
    UNDECIDED,
    Claim,
    decide,
    evidence,
    interaction,
    joint_verdict,
)
from analysis.hypotheses import Hypothesis, detectable, judge, outer_interval, parse, seeds_to_decide
from gagar_core.errors import InputError

BASE = dict(enumerate([0.50, 0.60, 0.40, 0.55, 0.45]))
VARIANT = dict(enumerate([0.53, 0.62, 0.44, 0.57, 0.49]))
# difference .03 with 95 % interval [.0176, .0424]


def verdict(kind: str, margin: float, direction: str = "higher", shift: float = 0.0) -> str:
    moved = {seed: value + shift for seed, value in VARIANT.items()}
    hypothesis = Hypothesis("held_out_pass", "a", "b", Claim(kind, margin, direction))
    return judge([(hypothesis, compare(moved, BASE))])[0].verdict


@pytest.mark.parametrize(
    ("kind", "margin", "direction", "wanted"),
    [
        ("superior", 0.0, "higher", SUPPORTED),
        ("superior", 0.017, "higher", SUPPORTED),
        ("superior", 0.018, "higher", UNDECIDED),
        ("superior", 0.042, "higher", UNDECIDED),
        ("superior", 0.043, "higher", REFUTED),
        ("superior", 0.0, "lower", REFUTED),
        ("non_inferior", 0.01, "higher", SUPPORTED),
        ("non_inferior", 0.01, "lower", REFUTED),
        ("non_inferior", 0.03, "lower", UNDECIDED),
        ("non_inferior", 0.05, "lower", SUPPORTED),
        ("equivalent", 0.05, "higher", SUPPORTED),
        ("equivalent", 0.04, "higher", UNDECIDED),
        ("equivalent", 0.01, "higher", REFUTED),
        ("equivalent", 0.05, "lower", SUPPORTED),
    ],
)
def test_a_verdict_is_read_off_the_interval(kind: str, margin: float, direction: str, wanted: str) -> None:
    assert verdict(kind, margin, direction) == wanted


def test_p_values_agree_with_scipy_and_statsmodels() -> None:
    d = np.array([VARIANT[i] - BASE[i] for i in range(5)])
    found = evidence(Claim("superior", 0.02), compare(VARIANT, BASE))
    assert found.p_support == pytest.approx(stats.ttest_1samp(d, 0.02, alternative="greater").pvalue)
    assert found.p_refute == pytest.approx(stats.ttest_1samp(d, 0.02, alternative="less").pvalue)
    tost = evidence(Claim("equivalent", 0.04), compare(VARIANT, BASE))
    assert tost.p_support == pytest.approx(DescrStatsW(d).ttost_mean(-0.04, 0.04)[0])


@given(
    st.floats(-0.2, 0.2), st.floats(0.001, 0.2), st.sampled_from(["superior", "non_inferior", "equivalent"])
)
def test_supported_and_refuted_exclude_each_other_and_follow_the_interval(
    shift: float, margin: float, kind: str
) -> None:
    claim = Claim(kind, margin)
    difference = compare({s: v + shift for s, v in VARIANT.items()}, BASE)
    found = evidence(claim, difference)
    assert found.p_support is not None
    assert found.p_refute is not None
    assert difference.interval is not None
    low, high = claim.bounds
    inside = difference.interval.low > low and difference.interval.high < high
    if kind == "equivalent":
        outside = difference.interval.low > high or difference.interval.high < low
        # the opposite of an equivalence has two sides, so its p is doubled: refuting needs a little more
        assert not (decide(found.p_support, found.p_refute) == REFUTED and not outside)
    else:
        assert (found.p_refute <= 0.025) == (difference.interval.high <= low)
    assert (found.p_support <= 0.025) == inside or math.isclose(found.p_support, 0.025, rel_tol=1e-9)
    assert not (found.p_support <= 0.025 and found.p_refute <= 0.025)


def test_direction_lower_is_the_mirror_image() -> None:
    mirrored = compare({s: -v for s, v in VARIANT.items()}, {s: -v for s, v in BASE.items()})
    for margin in (0.0, 0.02, 0.05):
        one = evidence(Claim("superior", margin, "higher"), compare(VARIANT, BASE))
        two = evidence(Claim("superior", margin, "lower"), mirrored)
        assert (one.p_support, one.p_refute) == pytest.approx((two.p_support, two.p_refute))


def test_holm_within_a_metric_can_undecide() -> None:
    # p of one claim: .0163 one-sided for margin .02; alone supported, not among four
    difference = compare(VARIANT, BASE)
    claim = Claim("superior", 0.0168)
    alone = judge([(Hypothesis("held_out_pass", "a", "b", claim), difference)])
    family = judge([(Hypothesis("held_out_pass", f"a{i}", "b", claim), difference) for i in range(4)])
    other_metric = judge(
        [(Hypothesis(m, "a", "b", claim), difference) for m in ("held_out_pass", "held_out_audit")]
    )
    assert alone[0].verdict == SUPPORTED
    assert [v.verdict for v in family] == [UNDECIDED] * 4
    assert "not after Holm's adjustment over 4" in family[0].why
    assert [v.verdict for v in other_metric] == [SUPPORTED] * 2
    assert family[0].p_support_holm == pytest.approx(4 * (family[0].p_support or 0))


def test_nothing_is_decided_by_one_pair_or_zero_variance() -> None:
    hypothesis = Hypothesis("held_out_pass", "a", "b", Claim("superior"))
    one, flat = (
        judge([(hypothesis, compare({0: 1.0}, {0: 0.0}))]),
        compare({0: 1.0, 1: 1.0}, {0: 0.5, 1: 0.5}),
    )
    assert (one[0].verdict, one[0].why) == (UNDECIDED, "one pair: no interval")
    (zero,) = judge([(hypothesis, flat)])
    assert (zero.verdict, zero.p_support) == (UNDECIDED, None)
    assert "zero variance" in zero.why


def test_joint_claims_need_every_part() -> None:
    assert joint_verdict([SUPPORTED, SUPPORTED]) == SUPPORTED
    assert joint_verdict([SUPPORTED, UNDECIDED]) == UNDECIDED
    assert joint_verdict([UNDECIDED, REFUTED]) == REFUTED
    with pytest.raises(InputError, match="at least one part"):
        joint_verdict([])


def test_interaction_by_hand() -> None:
    neither = dict(enumerate([0.1, 0.2, 0.3]))
    first = {s: v + 0.1 for s, v in neither.items()}
    second = {s: v + 0.2 for s, v in neither.items()}
    both = dict(enumerate([0.45, 0.5, 0.65])) | {9: 1.0}
    found = interaction(both, first, second, neither)
    d = np.array([0.25, 0.2, 0.25]) - 0.2
    oracle = stats.ttest_1samp(d, 0)
    assert found.value == pytest.approx(d.mean())
    assert found.p == pytest.approx(oracle.pvalue)
    assert (found.blocks, found.unmatched) == ((0, 1, 2), (9,))


def test_additive_effects_do_not_interact() -> None:
    neither = dict(enumerate([0.1, 0.2, 0.3]))
    plus = {s: v + 0.25 for s, v in neither.items()}
    found = interaction({s: v + 0.5 for s, v in neither.items()}, plus, plus, neither)
    assert found.value == pytest.approx(0.0, abs=1e-12)


def test_seeds_that_would_decide() -> None:
    noisy = compare(dict(enumerate([0.1, -0.06, 0.09, -0.05, 0.07])), dict.fromkeys(range(5), 0.0))
    claim = Claim("superior")
    assert judge([(Hypothesis("held_out_pass", "a", "b", claim), noisy)])[0].verdict == UNDECIDED
    needed, why = seeds_to_decide(claim, noisy)
    assert why == ""
    assert noisy.sd is not None
    assert noisy.value is not None
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert needed == pytest.approx((z * noisy.sd / noisy.value) ** 2 + 2, abs=1)
    more, _ = seeds_to_decide(claim, noisy, family=4)
    assert more is not None
    assert needed is not None
    assert more > needed
    on_margin, why = seeds_to_decide(Claim("superior", noisy.value), noisy)
    assert on_margin is None
    assert "on the margin" in why
    assert seeds_to_decide(claim, compare({0: 1.0}, {0: 0.5}))[0] is None


def test_detectable_effect_and_outer_interval_are_in_the_metrics_unit() -> None:
    difference = compare(VARIANT, BASE)
    assert detectable(difference) == pytest.approx(1.682 * 0.01, abs=1e-5)
    outer = outer_interval(difference, 4)
    assert outer is not None
    half = stats.t.ppf(1 - 0.025 / 4, 4) * 0.01 / math.sqrt(5)
    assert (outer.low, outer.high) == pytest.approx((0.03 - half, 0.03 + half))


GOOD: dict[str, Any] = {
    "metric": "tokens", "variant": "gagar", "against": "grpo", "kind": "superior", "margin": 10.0,
    "direction": "lower",
}  # fmt: skip


def test_hypotheses_are_read_and_faults_gathered() -> None:
    variants = ["grpo", "gagar"]
    good, bad, joint, empty = parse(
        [
            GOOD,
            {"metric": "reward", "variant": "gager", "against": "grpo", "knd": 1, "margin": "x"},
            {"name": "shorter and no worse", "all_of": [GOOD, GOOD | {"kind": "non_inferior"}]},
            {"name": "hollow", "all_of": []},
        ],
        variants,
    )
    assert good.name == "trajectory length: gagar is lower by more than 10 than grpo"
    assert good.faults == ()
    (fault,) = bad.faults
    for part in ("unknown key 'knd'", "got 'reward'", "got 'gager'", "margin must be a number; got 'x'"):
        assert part in fault
    assert (joint.joint, len(joint.parts)) == (True, 2)
    assert empty.faults == ("all_of must be a list of hypotheses",)
    (no_margin,) = parse([GOOD | {"kind": "equivalent", "margin": 0}], variants)
    assert "needs a margin above 0" in no_margin.faults[0]
    (itself,) = parse([GOOD | {"against": "gagar"}], variants)
    assert "both 'gagar'" in itself.faults[0]
