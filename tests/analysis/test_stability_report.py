"""The stability report: definitions on made-up signals, and against peers where they exist."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.grader_drift import drift, kendall_tau_b
from analysis.kl_budget import first_reached, kl_until
from analysis.run_stability import run_stability
from analysis.signals import (
    bistable,
    change_after,
    entropy_state,
    expected_kept,
    first_run,
    oscillation,
    ran_away,
    spikes,
    vanished,
)
from analysis.stability_section import last_minus_first
from analysis.step_signals import COLUMNS


def test_entropy_must_stay_low_to_have_collapsed() -> None:
    start = [1.0] * 10
    assert entropy_state(start + [0.1] * 10).state == "collapsed"
    assert entropy_state(start + [0.1] * 10).onset == 10
    assert entropy_state(start + [0.1] * 9).state == "steady"
    assert entropy_state(start + [0.1] * 9 + [0.3] + [0.1] * 9).state == "steady"
    assert entropy_state(start + [0.2] * 20).state == "steady"
    assert entropy_state(start + [3.1] * 10).state == "exploded"
    assert entropy_state([]).state == "steady"


def test_first_run_is_where_the_stretch_begins() -> None:
    assert first_run([0, 1, 1, 0, 1, 1, 1], 3) == 4
    assert first_run([1, 1], 3) is None


def test_spikes_by_hand() -> None:
    # constant 1: scale is .05, so the threshold is 1 + 6 * .05
    y = [1.0] * 60
    y[12], y[55], y[30] = 1.31, 1.29, 5.0
    assert spikes(y) == [12, 30]
    assert spikes([1.0] * 9 + [9.0]) == []
    assert spikes([0.0] * 20) == []


@given(st.lists(st.floats(0.1, 10), min_size=12, max_size=90))
def test_windows_of_spikes_are_the_definition(values: list[float]) -> None:
    y = np.array(values)
    expected = []
    for i in range(10, y.size):
        before = y[max(0, i - 50) : i]
        mad = float(stats.median_abs_deviation(before))
        scale = max(1.4826 * mad, 0.05 * float(np.median(before)))
        if y[i] - np.median(before) > 6 * scale:
            expected.append(i)
    assert spikes(y) == expected


def test_change_after_spikes() -> None:
    y = [0.5] * 10 + [0.3] * 10
    assert change_after(y, [9]) == pytest.approx(-0.2)
    assert change_after(y, [19]) is None


def test_test_runs_that_fall_to_zero_for_good() -> None:
    gone = [2.0] * 20 + [0.0] * 20
    # the mean of 10 steps reaches a tenth of 2 when nine of them are 0... at the latest when all are
    at = vanished(gone)
    assert at is not None
    assert np.mean(gone[at - 9 : at + 1]) <= 0.2 < np.mean(gone[at - 10 : at])
    assert vanished([2.0] * 20 + [0.0] * 20 + [2.0] * 10) is None
    assert vanished([0.04] * 20 + [0.0] * 20) is None
    assert vanished([1.0] * 40) is None
    assert vanished([]) is None


def test_length_runs_away_only_if_it_still_grows() -> None:
    steps = np.arange(1, 61)
    growing = 50 * np.exp(steps / 60 * math.log(4))
    assert ran_away(growing, steps)
    levelled = np.where(steps < 30, 50.0, 150.0)
    assert not ran_away(levelled, steps)
    assert not ran_away(np.full(60, 50.0), steps)
    assert not ran_away(growing[:15], steps[:15])


def test_oscillation_is_more_than_noise_around_a_trend() -> None:
    steps = np.arange(12.0)
    swing = oscillation(np.where(np.arange(12) % 2, 0.6, 0.4), steps)
    assert swing.flips == 1.0
    assert swing.alternating
    # full-sample denominator: differences +-d alternate, 11 of them with mean d / 11
    d = np.diff(np.where(np.arange(12) % 2, 0.6, 0.4))
    c = d - d.mean()
    assert swing.r1 == pytest.approx(float(c[1:] @ c[:-1] / (c @ c)))
    assert swing.high == pytest.approx(1.0, abs=0.1)
    assert not oscillation(np.linspace(0.2, 0.8, 12), steps).alternating
    assert oscillation([0.3] * 5, steps[:5]).r1 is None
    assert oscillation([0.1, 0.2, 0.1, 0.2], [0, 10, 15, 40]).high is None


def test_two_camps_of_seeds() -> None:
    assert bistable([0.1, 0.12, 0.8, 0.82])
    assert not bistable([0.1, 0.8])
    assert not bistable([0.5, 0.51, 0.52, 0.55])
    assert not bistable([0.1, 0.3, 0.5, 0.7, 0.9])


def test_expected_share_of_mixed_groups() -> None:
    assert expected_kept([5, 0, 10], [10, 10, 10], 4) == pytest.approx((1 - 2 * 0.5**4) / 3)
    assert expected_kept([0], [0], 4) is None


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=2, max_size=12))
def test_tau_b_is_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs).T
    peer = stats.kendalltau(x, y).statistic
    mine = kendall_tau_b(x, y)
    assert (mine is None) == bool(np.isnan(peer))
    if mine is not None:
        assert mine == pytest.approx(peer)


def test_drift_of_a_grader_that_turns_round() -> None:
    gold = [1, 2, 3]
    frame = pl.DataFrame(
        {
            "step": [0] * 3 + [50] * 3,
            "group_id": [7] * 6,
            "sample_idx": [0, 1, 2] * 2,
            "rank": [1.0, 2.0, 3.0, 3.0, 2.0, 1.0],
            "gold_rank": gold * 2,
            "parse_ok": [True, True, True, True, False, True],
            "order_seed": [0] * 6,
        }
    )
    first, last = drift(frame)
    assert (first.step, first.tau, first.top1, first.rank_shift, first.parse_fail) == (0, 1.0, 1.0, 0.0, 0.0)
    assert (last.tau, last.top1, last.groups) == (-1.0, 0.0, 1)
    assert last.rank_shift == pytest.approx((2 + 0 + 2) / 3)
    assert last.parse_fail == pytest.approx(1 / 3)
    assert drift(frame.head(0)) == []


def test_a_grader_is_consistent_if_another_order_does_not_change_its_mind() -> None:
    frame = pl.DataFrame(
        {
            "step": [0] * 10,
            "group_id": [7] * 6 + [8] * 4,
            "sample_idx": [0, 1, 2] * 2 + [0, 1] * 2,
            # of three pairs one is turned round; in the other group a tie became an order
            "rank": [1.0, 2.0, 3.0, 2.0, 1.0, 3.0, 1.0, 1.0, 1.0, 2.0],
            "gold_rank": [1.0, 2.0, 3.0] * 2 + [1.0, 2.0] * 2,
            "parse_ok": [True] * 10,
            "order_seed": [0] * 3 + [1] * 3 + [0] * 2 + [1] * 2,
        }
    )
    (found,) = drift(frame)
    assert found.consistency == pytest.approx((2 / 3 + 0) / 2)
    # agreement is that of the usual order alone: perfect in one group, undefined in the tied one
    assert (found.tau, found.groups, found.rank_shift) == (1.0, 2, 0.0)
    (once,) = drift(frame.filter(pl.col("order_seed") == 0))
    assert once.consistency is None


def test_kl_until_a_pass_rate_is_what_was_spent_before_it() -> None:
    steps, passed = np.array([0.0, 10, 20, 30]), np.array([0.3, np.nan, 0.6, 0.5])
    assert first_reached(steps, passed, 0.5) == 20
    assert first_reached(steps, passed, 0.3) == 0
    assert first_reached(steps, passed, 0.7) is None
    kl = signals(30, kl_k3=[0.01] * 10 + [np.nan] + [0.02] * 19, kl_ref=np.arange(30.0))
    found = kl_until(kl, 20)
    assert found["kl_k3_total"] == pytest.approx(0.1 + 9 * 0.02)
    assert found["kl_ref"] == pytest.approx(np.mean(np.arange(10.0, 20)))
    assert kl_until(kl, 0) == {"kl_k3_total": 0.0}
    assert kl_until(signals(5), 5) == kl_until(None, 5) == {}


def signals(n: int, **columns: object) -> dict[str, np.ndarray]:
    found = {name: np.full(n, np.nan) for name in COLUMNS} | {"done": np.arange(1.0, n + 1)}
    return found | {name: np.asarray(values, dtype=float) for name, values in columns.items()}


def test_a_run_that_broke_in_every_way_is_named_for_each() -> None:
    n = 60
    broken = run_stability(
        np.arange(0.0, 100, 10),
        np.array([0.1, 0.3, 0.5, 0.6, 0.2, 0.1, 0.15, 0.1, 0.1, 0.1]),
        signals(
            n,
            entropy_tok=[1.0] * 20 + [0.05] * 40,
            grad_norm=[1.0] * 30 + [50.0] + [1.0] * 29,
            mean_test_runs=[2.0] * 20 + [0.0] * 40,
            mean_total_tokens=50 * np.exp(np.arange(n) / n * 2),
            conservation=[0.0] * 59 + [0.5],
            n_nonfinite=[0] * 40 + [1] + [0] * 19,
            pass_rate=[0.5] * 31 + [0.2] * 29,
        ),
    )
    at = {event["kind"]: event["step"] for event in broken.events}
    assert at["collapse"] == 40
    assert (at["entropy_collapsed"], at["grad_spike"], at["nonfinite"]) == (21, 31, 41)
    assert {"verification_collapse", "length_runaway", "not_conserved"} <= set(at)
    assert broken.values["long_term_risk"] == pytest.approx(0.5)
    assert broken.values["short_term_risk"] == pytest.approx(-0.04)
    assert broken.values["grad_spikes"] == pytest.approx(100 / 60)
    assert broken.values["pass_after_spikes"] == pytest.approx(-0.3)


def test_a_quiet_run_has_no_events_and_missing_columns_no_values() -> None:
    quiet = run_stability(np.array([0.0, 10, 20]), np.array([0.3, 0.5, 0.6]), signals(20))
    assert quiet.events == []
    assert "entropy_tok" not in quiet.values
    assert "clip_low" not in quiet.values
    assert run_stability(np.array([0.0]), np.array([0.3]), None).values == {}


def test_waste_is_counted_not_averaged() -> None:
    # one step of 2 groups with 1 kept, one of 8 with 8 kept: 9 of 10, not the mean of .5 and 1
    found = run_stability(
        np.zeros(0),
        np.zeros(0),
        signals(
            2, groups_sampled=[2, 8], groups_kept=[1, 8], traj_sampled=[8, 32], traj_used=[4, 32],
            gen_tokens=[100, 400], wasted_tokens=[50, 0],
        ),
    ).values  # fmt: skip
    assert found["kept"] == pytest.approx(0.9)
    assert found["wasted_tokens"] == pytest.approx(0.1)
    assert found["sampled_per_used"] == pytest.approx(40 / 36)


def test_change_of_a_grader_needs_two_gradings_with_a_value() -> None:
    assert last_minus_first([0.5, None, 0.25]) == -0.25
    assert last_minus_first([0.5]) is None
    assert last_minus_first([None, 0.5]) is None
    assert last_minus_first([]) is None
