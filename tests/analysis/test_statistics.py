"""Summaries against values worked out by hand, SciPy, and properties that must hold for any scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from analysis import distributions as dist
from analysis.statistics import (
    interquartile_mean,
    mean_estimate,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    quantile,
    quantiles,
    wilson_interval,
)
from gagar_core.errors import InputError

EXACT = {"abs": 1e-6, "rel": 0.0}

scores = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=st.floats(-5, 5))


def test_aggregates_by_hand() -> None:
    x = [[0.1, 0.2, 0.4, 0.8], [0.3, 0.5, 0.6, 1.0]]
    assert np.mean(x) == pytest.approx(0.4875, **EXACT)
    assert interquartile_mean(x) == pytest.approx(0.45, **EXACT)
    assert interquartile_mean([0, 0.1, 0.5, 0.9, 10]) == pytest.approx(0.5, **EXACT)
    assert interquartile_mean([0, 0.1, 5]) == pytest.approx(1.7, **EXACT)
    assert optimality_gap([0.2, 0.6, 1.4, 1.0]) == pytest.approx(0.3, **EXACT)
    assert performance_profile([0, 0.5, 0.5, 1], [0, 0.5, 1]).tolist() == pytest.approx([0.75, 0.25, 0])
    assert probability_of_improvement([[1, 2, 3], [5, 6, 7]], [[2, 2], [1, 2]]) == pytest.approx(
        0.75, **EXACT
    )


def test_intervals_of_few_seeds() -> None:
    one = mean_estimate([0.5])
    assert (one.value, one.interval, one.why) == (0.5, None, "one run: no interval")
    three = mean_estimate([0.4, 0.5, 0.6])
    assert three.interval is not None
    assert (three.interval.low, three.interval.high) == pytest.approx((0.251586, 0.748414), **EXACT)
    equal = mean_estimate([0.5, 0.5, 0.5])
    assert equal.interval is not None
    assert (equal.sd, equal.interval.low, equal.interval.high) == (0.0, 0.5, 0.5)
    none = mean_estimate([math.nan, math.inf])
    assert (none.value, none.n, none.n_nan, none.why) == (None, 0, 2, "no run has this value")


@given(arrays(np.float64, st.integers(2, 30), elements=st.floats(-1e3, 1e3)))
def test_mean_and_interval_agree_with_scipy(values: np.ndarray) -> None:
    found = mean_estimate(values)
    assert found.interval is not None
    assert found.value == pytest.approx(values.mean(), rel=1e-9, abs=1e-9)
    sem = float(stats.sem(values)) if values.min() < values.max() else 0.0
    half = float(stats.t.ppf(0.975, values.size - 1)) * sem
    assert found.interval.high - found.value == pytest.approx(half, rel=1e-6, abs=1e-9)


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-1, 1)), st.randoms())
def test_mean_does_not_depend_on_the_order_of_runs(values: np.ndarray, random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert mean_estimate(shuffled).value == mean_estimate(values).value


@given(scores, st.floats(-3, 3), st.floats(0.1, 3))
def test_iqm_moves_with_its_scores(x: np.ndarray, shift: float, scale: float) -> None:
    moved = interquartile_mean(scale * x + shift)
    assert moved == pytest.approx(scale * interquartile_mean(x) + shift, rel=1e-9, abs=1e-9)
    assert x.min() - 1e-12 <= interquartile_mean(x) <= x.max() + 1e-12


@given(arrays(np.float64, st.integers(4, 40).map(lambda n: 4 * (n // 4)), elements=st.floats(0, 1)))
def test_iqm_is_scipys_trimmed_mean(x: np.ndarray) -> None:
    assert interquartile_mean(x) == pytest.approx(stats.trim_mean(x, 0.25), abs=1e-12)


@given(scores)
def test_improvement_is_complementary_and_agrees_with_mann_whitney(x: np.ndarray) -> None:
    y = np.roll(x, 1, axis=0) * 0.5
    there = probability_of_improvement(list(x.T), list(y.T))
    back = probability_of_improvement(list(y.T), list(x.T))
    assert there + back == pytest.approx(1.0)
    u = [stats.mannwhitneyu(a, b).statistic / (a.size * b.size) for a, b in zip(x.T, y.T, strict=True)]
    assert there == pytest.approx(float(np.mean(u)))


def test_nan_is_counted_not_sorted_last() -> None:
    found, dropped = quantiles([1, 2, math.nan, 4], 0.5)
    assert (float(found), dropped) == (2.0, 1)
    found, dropped = quantiles(range(1, 11), [0.5, 0.9, 0.95, 0.99])
    assert found.tolist() == pytest.approx([5.5, 9.1, 9.55, 9.91], **EXACT)
    found, dropped = quantiles([math.nan], [0.5])
    assert math.isnan(found[0])
    assert dropped == 1


def test_nan_in_a_matrix_is_refused_with_a_count() -> None:
    with pytest.raises(InputError, match="got 1 non-finite of 3"):
        interquartile_mean([0.1, math.nan, 0.3])
    with pytest.raises(InputError, match="0 non-finite of 0"):
        optimality_gap([])


@pytest.mark.parametrize(("successes", "n"), [(0, 5), (5, 5), (3, 10), (1, 1)])
def test_wilson_agrees_with_scipy(successes: int, n: int) -> None:
    oracle = stats.binomtest(successes, n).proportion_ci(method="wilson")
    found = wilson_interval(successes, n)
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-9)
    assert wilson_interval(0, 5).high == pytest.approx(0.434482, **EXACT)


@given(st.floats(-60, 60), st.floats(0.6, 400))
def test_t_distribution_agrees_with_scipy(t: float, df: float) -> None:
    assert dist.t_cdf(t, df) == pytest.approx(float(stats.t.cdf(t, df)), rel=1e-9, abs=1e-13)
    assert dist.t_two_sided_p(t, df) == pytest.approx(float(2 * stats.t.sf(abs(t), df)), rel=1e-8, abs=1e-15)


@given(st.floats(0.001, 0.999), st.floats(0.8, 400))
def test_t_quantile_agrees_with_scipy(p: float, df: float) -> None:
    assert dist.t_quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-9, abs=1e-9)


@given(st.floats(-5, 8), st.integers(1, 200), st.floats(-3, 6))
def test_noncentral_t_agrees_with_scipy(t: float, df: int, shift: float) -> None:
    oracle = float(stats.nct.cdf(t, df, shift))
    assume(not math.isnan(oracle))  # SciPy gives up far out in the tail
    assert dist.noncentral_t_cdf(t, df, shift) == pytest.approx(oracle, abs=1e-7)


@given(st.floats(0, 1), st.floats(0.2, 60), st.floats(0.2, 60))
def test_incomplete_beta_agrees_with_scipy(x: float, a: float, b: float) -> None:
    from scipy.special import betainc

    assert dist.incomplete_beta(x, a, b) == pytest.approx(float(betainc(a, b, x)), rel=1e-8, abs=1e-13)


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e6, 1e6)), st.floats(0, 1))
def test_a_quantile_is_numpys(values: np.ndarray, probability: float) -> None:
    assert quantile(values, probability) == np.quantile(values, probability)
