"""Paired and unpaired differences, many tests at once, power: by hand, against SciPy and statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower, TTestPower

from analysis.comparisons import (
    benjamini_hochberg,
    benjamini_yekutieli,
    compare,
    holm,
    sign_flip_test,
)
from analysis.power import detectable_effect, power, seeds_needed
from analysis.variance import variance_shares
from gagar_core.errors import InputError

EXACT = {"abs": 1e-6, "rel": 0.0}
BASE = dict(enumerate([0.50, 0.60, 0.40, 0.55, 0.45]))
VARIANT = dict(enumerate([0.53, 0.62, 0.44, 0.57, 0.49]))


def test_paired_by_seed_block() -> None:
    found = compare(VARIANT, BASE)
    assert found.interval is not None
    assert (found.method, found.n) == ("paired", 5)
    assert found.value == pytest.approx(0.03, **EXACT)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.0175834, 0.0424166), abs=1e-6)
    assert found.t == pytest.approx(6.708204, **EXACT)
    assert found.p == pytest.approx(0.00257026, **EXACT)
    assert (found.sign_flip_p, found.sign_flip_floor) == (0.0625, 0.0625)


def test_welch_only_when_nothing_pairs_and_it_says_so() -> None:
    found = compare({seed + 10: v for seed, v in VARIANT.items()}, BASE)
    assert found.interval is not None
    assert found.method == "welch"
    assert "independent samples" in found.why
    assert (found.t, found.df, found.p) == pytest.approx((0.636715, 7.874730, 0.542372), **EXACT)
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.0789533, 0.1389533), **EXACT)


def test_unmatched_block_is_listed_not_averaged_in() -> None:
    found = compare({seed: v for seed, v in VARIANT.items() if seed != 3}, BASE)
    assert found.interval is not None
    assert (found.n, found.unmatched) == (4, (3,))
    assert found.value == pytest.approx(0.0325, **EXACT)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.0172652, 0.0477348), **EXACT)
    assert found.p == pytest.approx(0.00653319, **EXACT)


def test_zero_variance_has_no_t_test() -> None:
    same = compare({1: 0.52, 2: 0.42, 3: 0.32}, {1: 0.50, 2: 0.40, 3: 0.30})
    assert (same.p, same.t, same.sign_flip_p) == (None, None, 0.25)
    assert "zero variance" in same.why
    nothing = compare(BASE, BASE)
    assert (nothing.value, nothing.p, nothing.sign_flip_p) == (0.0, 1.0, 1.0)


def test_one_pair_one_side_and_nan() -> None:
    one = compare({0: 0.5, 1: math.nan}, {0: 0.4, 1: 0.3})
    assert one.value == pytest.approx(0.1)
    assert (one.interval, one.p, one.unmatched) == (None, None, (1,))
    nothing = compare({}, BASE)
    assert (nothing.value, nothing.method) == (None, "none")
    lonely = compare({9: 0.5}, BASE)
    assert (lonely.method, lonely.interval) == ("welch", None)


pairs = arrays(np.float64, st.tuples(st.integers(2, 12), st.just(2)), elements=st.floats(0, 1, width=32))


@given(pairs)
def test_paired_agrees_with_scipy(rows: np.ndarray) -> None:
    d = rows[:, 0] - rows[:, 1]
    found = compare(dict(enumerate(rows[:, 0])), dict(enumerate(rows[:, 1])))
    assert found.value == pytest.approx(d.mean(), abs=1e-12)
    if np.std(d) > 1e-9:
        oracle = stats.ttest_rel(rows[:, 0], rows[:, 1])
        assert found.p == pytest.approx(oracle.pvalue, rel=1e-6, abs=1e-12)
        assert found.interval is not None
        assert found.interval.low == pytest.approx(oracle.confidence_interval().low, rel=1e-6, abs=1e-9)


@given(pairs)
def test_swapping_the_sides_only_turns_the_sign(rows: np.ndarray) -> None:
    left, right = dict(enumerate(rows[:, 0])), dict(enumerate(rows[:, 1]))
    there, back = compare(left, right), compare(right, left)
    assert there.value == -back.value
    assert (there.p, there.sign_flip_p) == (back.p, back.sign_flip_p)


@given(arrays(np.float64, st.integers(2, 9), elements=st.floats(-1, 1, width=16)))
def test_sign_flip_agrees_with_scipys_permutation_test(d: np.ndarray) -> None:
    oracle = stats.permutation_test(
        (d, np.zeros_like(d)), lambda x, y: (x - y).mean(), permutation_type="samples", n_resamples=np.inf
    )
    found, floor = sign_flip_test(d)
    assert found == pytest.approx(oracle.pvalue, abs=1e-12)
    assert found >= floor == 2.0 / 2**d.size


def test_sign_flip_of_many_pairs_is_drawn_and_close() -> None:
    d = np.random.default_rng(5).normal(0.4, 1.0, 40)
    found, floor = sign_flip_test(d)
    assert found == pytest.approx(float(stats.ttest_1samp(d, 0).pvalue), rel=0.15)
    assert (found, floor) == sign_flip_test(d)


def test_multiplicity_by_hand() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02], **EXACT)
    assert benjamini_hochberg(p).tolist() == pytest.approx([0.02, 0.04, 0.04, 0.02], **EXACT)
    by = [0.0416667, 0.0833333, 0.0833333, 0.0416667]
    assert benjamini_yekutieli(p).tolist() == pytest.approx(by, abs=1e-6)
    assert holm([0.02] * 3).tolist() == pytest.approx([0.06] * 3)
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    assert holm([]).size == 0
    with pytest.raises(InputError, match=r"must lie in \[0, 1\]"):
        holm([0.5, math.nan])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_multiplicity_agrees_with_statsmodels(p: list[float]) -> None:
    for ours, name in ((holm, "holm"), (benjamini_hochberg, "fdr_bh"), (benjamini_yekutieli, "fdr_by")):
        assert ours(p).tolist() == pytest.approx(multipletests(p, method=name)[1].tolist(), abs=1e-12)


def test_detectable_effects() -> None:
    wanted = {3: (3.07, 3.26), 5: (2.02, 1.68)}
    for n, (unpaired, paired) in wanted.items():
        assert detectable_effect(n, paired=False) == pytest.approx(unpaired, abs=5e-3)
        assert detectable_effect(n) == pytest.approx(paired, abs=5e-3)
    assert seeds_needed(1.0, 1.0, paired=False) == 17
    assert seeds_needed(0.0, 1.0) is None
    assert seeds_needed(0.1, 0.0) == 2
    assert detectable_effect(1) == math.inf


@given(st.floats(0.2, 1.2), st.integers(2, 40))
def test_power_agrees_with_statsmodels(effect: float, n: int) -> None:
    paired = TTestPower().power(effect, n, 0.05)
    unpaired = TTestIndPower().power(effect, n, 0.05)
    assert power(effect, n) == pytest.approx(paired, abs=1e-6)
    assert power(effect, n, paired=False) == pytest.approx(unpaired, abs=1e-6)


@given(st.floats(0.15, 3))
def test_seeds_needed_is_the_smallest_number(effect: float) -> None:
    n = seeds_needed(effect, 1.0)
    assert n is not None
    assert power(effect, n) >= 0.8 > power(effect, n - 1)


def test_variance_shares_recover_planted_components() -> None:
    rng = np.random.default_rng(11)
    s, k, r = 400, 40, 4
    y = (
        rng.normal(0, 0.3, (s, 1, 1))
        + rng.normal(0, 0.5, (1, k, 1))
        + rng.normal(0, 0.4, (s, k, 1))
        + rng.normal(0, 1.0, (s, k, r))
    )
    found = variance_shares(y)
    assert found.seed == pytest.approx(0.09, rel=0.15)
    assert found.seed_task == pytest.approx(0.16, rel=0.1)
    assert found.attempt == pytest.approx(1.0, rel=0.02)
    total = 0.09 + 0.16 / k + 1.0 / (k * r)
    assert found.share_seed == pytest.approx(0.09 / total, rel=0.05)
    assert found.share_attempt == pytest.approx(1.0 / (k * r) / total, rel=0.2)


def test_variance_shares_by_hand() -> None:
    # two seeds, two tasks, one attempt: MS_seed = .5, MS_task = .5, MS_rest = 0 / MS_rest on the diagonal
    found = variance_shares(np.array([[0.0, 1.0], [1.0, 2.0]])[:, :, None])
    assert (found.seed, found.task, found.seed_task, found.attempt) == (0.5, 0.5, None, 0.0)
    assert (found.share_seed, found.share_seed_task, found.share_attempt) == (1.0, None, 0.0)
    equal = variance_shares(np.ones((2, 2, 2)))
    assert (equal.share_seed, equal.share_attempt) == (None, None)
    with pytest.raises(InputError, match="2 or more seeds"):
        variance_shares(np.ones((1, 3, 2)))
