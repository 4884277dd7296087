"""What intervals and verdicts do on data whose truth is known: coverage, false positives, power."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.bootstrap import (
    generator,
    iqm_of_rows,
    mean_of_rows,
    percentile_interval,
    profile_of_rows,
    row_bootstrap,
    small_n_factor,
)
from analysis.comparisons import compare
from analysis.contrasts import UNDECIDED, Claim
from analysis.hypotheses import Hypothesis, judge
from analysis.power import power
from analysis.statistics import interquartile_mean, mean_estimate, performance_profile

STUDIES = 2_000


@pytest.mark.parametrize("n", [3, 5, 10])
def test_t_interval_covers_what_it_says(n: int) -> None:
    rng = np.random.default_rng(n)
    hits = 0
    for _ in range(STUDIES):
        interval = mean_estimate(rng.normal(0.6, 0.03, n)).interval
        assert interval is not None
        hits += interval.low <= 0.6 <= interval.high
    assert 0.93 <= hits / STUDIES <= 0.97


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize(
    "claim", [Claim("superior"), Claim("superior", 0.0, "lower")], ids=["higher", "lower"]
)
def test_verdicts_on_two_equal_variants_are_rarely_wrong(n: int, claim: Claim) -> None:
    rng = np.random.default_rng(100 + n)
    hypothesis = Hypothesis("held_out_pass", "a", "b", claim)
    false = 0
    for _ in range(STUDIES):
        block = rng.normal(0.6, 0.03, n)
        left, right = (dict(enumerate(block + rng.normal(0, 0.02, n))) for _ in range(2))
        (verdict,) = judge([(hypothesis, compare(left, right))])
        false += verdict.verdict != UNDECIDED
    assert false / STUDIES <= 0.065
    assert false > 0


def test_a_family_of_equal_variants_is_rarely_wrong_anywhere() -> None:
    rng = np.random.default_rng(7)
    hypotheses = [Hypothesis("held_out_pass", f"v{i}", "base", Claim("superior")) for i in range(8)]
    false = 0
    for _ in range(STUDIES // 2):
        base = dict(enumerate(rng.normal(0.6, 0.02, 5)))
        others = [dict(enumerate(rng.normal(0.6, 0.02, 5))) for _ in hypotheses]
        verdicts = judge([(h, compare(o, base)) for h, o in zip(hypotheses, others, strict=True)])
        false += any(v.verdict != UNDECIDED for v in verdicts)
    assert false / (STUDIES // 2) <= 0.065


@pytest.mark.parametrize(("n", "effect"), [(5, 1.68), (10, 1.0)])
def test_power_is_what_the_formula_says(n: int, effect: float) -> None:
    rng = np.random.default_rng(9)
    found = 0
    for _ in range(STUDIES):
        d = rng.normal(effect, 1.0, n)
        p = compare(dict(enumerate(d)), dict.fromkeys(range(n), 0.0)).p
        found += p is not None and p <= 0.05
    assert found / STUDIES == pytest.approx(power(effect, n), abs=0.03)


def scored_runs(rng: np.random.Generator, n: int) -> np.ndarray:
    """Runs that differ (sd .03) scored on 100 tasks, each cell with noise of its own (sd .15)."""
    return np.asarray(0.6 + rng.normal(0, 0.03, (n, 1)) + rng.normal(0, 0.15, (n, 100)))


@pytest.mark.parametrize("n", [3, 5])
def test_row_bootstrap_covers_where_cell_bootstrap_does_not(n: int) -> None:
    rng = np.random.default_rng(n)
    rows, cells = 0, 0
    studies = 300
    for study in range(studies):
        x = scored_runs(rng, n)
        draws = row_bootstrap(x, mean_of_rows, generator("coverage", str(n), str(study)), 400)
        interval = percentile_interval(float(x.mean()), draws, n)
        rows += interval.low <= 0.6 <= interval.high
        # what rliable does: every (run, task) cell of a task is drawn on its own
        picked = x[rng.integers(0, n, (400, n, 100)), np.arange(100)].mean(axis=(1, 2))
        low, high = np.quantile(picked, [0.025, 0.975])
        cells += low <= 0.6 <= high
    assert 0.89 <= rows / studies <= 0.985
    assert cells / studies <= 0.70


def test_resampled_statistics_equal_those_of_the_repeated_rows() -> None:
    rng = np.random.default_rng(2)
    x = rng.random((6, 9)).round(1)  # rounded, so that ties occur
    counts = np.stack([np.bincount(rng.integers(0, 6, 6), minlength=6) for _ in range(50)]).astype(float)
    taus = [0.0, 0.3, 0.5, 0.9]
    profiles = profile_of_rows(taus)(counts, x)
    for b, count in enumerate(counts):
        rows = np.repeat(x, count.astype(int), axis=0)
        assert iqm_of_rows(counts, x)[b] == pytest.approx(interquartile_mean(rows), abs=1e-12)
        assert mean_of_rows(counts, x)[b] == pytest.approx(rows.mean(), abs=1e-12)
        assert profiles[b].tolist() == pytest.approx(performance_profile(rows, taus).tolist(), abs=1e-12)


def test_draws_depend_on_the_names_alone() -> None:
    x = np.random.default_rng(0).random((5, 7))
    one = row_bootstrap(x, iqm_of_rows, generator("study", "iqm", "grpo"), 500)
    np.random.default_rng(3).random(10)
    again = row_bootstrap(x, iqm_of_rows, generator("study", "iqm", "grpo"), 500)
    other = row_bootstrap(x, iqm_of_rows, generator("study", "iqm", "gagar"), 500)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_two_draws_of_three_seeds_reach_only_their_hull_before_widening() -> None:
    draws = row_bootstrap([0.4, 0.5, 0.6], mean_of_rows, generator("hull"), 20_000)
    assert (draws.min(), draws.max()) == pytest.approx((0.4, 0.6))
    assert np.quantile(draws, [0.025, 0.975]).tolist() == pytest.approx([0.4, 0.6], abs=0.035)
    assert small_n_factor(3) == pytest.approx(np.sqrt(1.5) * 4.302653 / 1.959964, abs=1e-5)
    assert small_n_factor(20) == 1.0
