"""The trajectory-length report: every definition on tables small enough to work out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.length_section import difficulty_bins, inflating, standardised
from analysis.pareto import front, hypervolume
from analysis.reinforcement import by_length, length_push, mix_shift, ranks_within, token_weights
from analysis.rows import Rows
from analysis.run_lengths import causes, growth_curves, histogram, levels, run_lengths, shape, slopes, tail
from gagar_core.errors import InputError

SHARE = st.floats(0, 1)
LENGTH = st.floats(1, 1e4)


def rows(**columns: Any) -> Rows:
    n = len(next(iter(columns.values())))
    base = {"step": [0] * n, "group_id": [0] * n, "passed": [True] * n, "kept": [True] * n}
    return Rows(pl.DataFrame(base | columns))


def test_mix_shift_by_hand() -> None:
    # passing 0.25 -> 0.75; passing 100 -> 120, failing 200 -> 240
    found = mix_shift((0.25, 100.0, 200.0), (0.75, 120.0, 240.0))
    assert found.total == pytest.approx((0.75 * 120 + 0.25 * 240) - (0.25 * 100 + 0.75 * 200))
    assert found.mix == pytest.approx(0.5 * (110 - 220))
    assert found.within_pass == pytest.approx(0.5 * 20)
    assert found.within_fail == pytest.approx(0.5 * 40)


@given(SHARE, LENGTH, LENGTH, SHARE, LENGTH, LENGTH)
def test_mix_and_within_add_up_exactly(
    p0: float, pass0: float, fail0: float, p1: float, pass1: float, fail1: float
) -> None:
    found = mix_shift((p0, pass0, fail0), (p1, pass1, fail1))
    change = p1 * pass1 + (1 - p1) * fail1 - p0 * pass0 - (1 - p0) * fail0
    assert found.total == pytest.approx(change, abs=1e-7)
    assert found.mix + found.within == pytest.approx(found.total, abs=1e-7)


def test_a_side_without_passes_changes_by_the_mix_alone() -> None:
    nobody = mix_shift((0.0, math.nan, 200.0), (0.5, 100.0, 200.0))
    assert (nobody.total, nobody.mix, nobody.within) == pytest.approx((-50.0, -50.0, 0.0))
    never = mix_shift((0.0, math.nan, 200.0), (0.0, math.nan, 230.0))
    assert (never.total, never.mix, never.within_fail) == pytest.approx((30.0, 0.0, 30.0))


def test_push_by_hand() -> None:
    # group 0: lengths 10, 20, 30 with advantages -1, 0, 1; group 1 much longer, no spread of advantage
    found = length_push([10, 20, 30, 1000, 3000], [-1, 0, 1, 0.5, 0.5], [0, 0, 0, 1, 1])
    assert found.shift == pytest.approx((10 + 10 + 0) / 3)
    assert (found.n, found.groups) == (5, 2)
    alone = length_push([10, 20, 30], [-1, 0, 1], [0, 0, 0])
    assert (alone.pearson, alone.spearman) == pytest.approx((1.0, 1.0))


def test_push_does_not_see_that_tasks_differ_in_length() -> None:
    lengths, advantages = [10, 12, 500, 520], [1, -1, 1, -1]
    assert length_push(lengths, advantages, [0, 0, 1, 1]).shift == pytest.approx((-1 - 1 - 10 - 10) / 4)
    assert length_push(lengths, advantages, [0, 0, 0, 0]).shift == pytest.approx(-22 / 4)
    assert length_push([5, 5], [1, -1], [0, 0]).pearson is None
    assert length_push([math.nan], [1.0], [0]).shift is None


def test_push_without_advantage_is_nothing_not_rounding() -> None:
    assert length_push([10.1, 20.2, 30.4], [0.3, 0.3, 0.3], [0, 0, 0]).shift == 0.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=2, max_size=30))
def test_ranks_within_groups_are_scipys(pairs: list[tuple[int, int]]) -> None:
    groups, values = np.array(pairs, dtype=float).T
    mine = ranks_within(values, groups)
    for group in np.unique(groups):
        inside = groups == group
        np.testing.assert_allclose(mine[inside], stats.rankdata(values[inside]))


def test_token_weights_of_aggregations() -> None:
    lengths, advantages, groups = [10, 40, 50], [1.0, -2.0, 1.0], [0, 0, 1]
    np.testing.assert_allclose(token_weights(lengths, advantages, groups, "token_mean"), [1, 2, 1])
    np.testing.assert_allclose(
        token_weights(lengths, advantages, groups, "seq_mean_token_mean"), [0.1, 0.05, 0.02]
    )
    np.testing.assert_allclose(
        token_weights(lengths, advantages, groups, "prompt_mean"), [1 / 50, 2 / 50, 1 / 50]
    )
    with pytest.raises(InputError, match="got 'mean'"):
        token_weights(lengths, advantages, groups, "mean")


def test_equal_shares_by_length() -> None:
    found = by_length([4, 1, 3, 2, math.nan], [40, 10, 30, 20, 99], 2)
    assert found == [{"n": 2, "length": 1.5, "value": 15.0}, {"n": 2, "length": 3.5, "value": 35.0}]
    assert by_length([1.0], [1.0], 2) == []


def test_front_and_hypervolume_by_hand() -> None:
    points = [(10.0, 0.5), (20.0, 0.8), (15.0, 0.4), (10.0, 0.5), (30.0, 0.8)]
    assert front(points) == [True, True, False, True, False]
    # boxes up to (40, 0): (10..20) x .5 + (20..40) x .8
    assert hypervolume(points, (40.0, 0.0)) == pytest.approx(10 * 0.5 + 20 * 0.8)
    assert hypervolume([(50.0, 0.9)], (40.0, 0.0)) == 0.0
    assert hypervolume([(0.0, 1.0), (0.0, 1.0)], (0.0, 0.0)) == 0.0


def test_growth_of_a_run_whose_length_doubles() -> None:
    steps = [s for s in range(40) for _ in range(4)]
    table = rows(
        step=steps, gen_tokens=[int(100 * 2 ** (s // 10)) for s in steps], passed=[i % 2 == 0 for i in steps]
    )
    growth = growth_curves(table)
    assert growth["all"] == ([10, 20, 30, 40], [100.0, 200.0, 400.0, 800.0])
    assert growth["q95"] == ([], [])
    assert slopes(growth)["log_slope/all"] == pytest.approx(math.log(2) / 10)


def test_levels_split_sampled_from_trained() -> None:
    table = rows(
        gen_tokens=[10, 20, 30, 40],
        obs_tokens=[1, 1, 1, 5],
        passed=[True, True, False, False],
        kept=[True, False, True, True],
        truncated=[False, False, False, True],
        test_runs=[0, 2, 4, None],
    )
    found = levels(table)
    assert found["sampled/all/gen_tokens/mean"] == 25.0
    assert found["sampled/pass/gen_tokens/mean"] == 15.0
    assert found["trained/all/gen_tokens/mean"] == pytest.approx(80 / 3)
    assert found["sampled/truncated/gen_tokens/mean"] == 40.0
    assert found["sampled/fail_over_pass"] == pytest.approx(35 / 15)
    assert found["sampled/all/test_runs/mean"] == 2.0
    assert found["sampled/all/n"] == 4.0
    assert "sampled/all/edits/mean" not in found


def test_quantiles_need_enough_trajectories() -> None:
    found = shape(np.arange(1.0, 201.0))
    assert set(found) == {"max", "geometric_mean", "q50", "q90"}
    assert found["q50"] == 100.5
    assert found["geometric_mean"] == pytest.approx(float(stats.gmean(np.arange(1, 201))))
    assert shape(np.arange(10.0)) == {"max": 9.0}


def test_tail_and_causes() -> None:
    table = rows(
        gen_tokens=[1] * 19 + [81],
        truncated=[False] * 18 + [True, True],
        stop_reason=["submit"] * 18 + ["token_budget", "turn_limit"],
    )
    assert tail(table) == {"tail_share": 0.81}
    assert causes(table) == {"overlong": 0.1, "token_budget": 0.05, "turn_limit": 0.05}


def test_a_reply_of_the_caps_length_that_ended_itself_is_not_overlong() -> None:
    table = rows(gen_tokens=[192, 192], truncated=[False, True], stop_reason=["submit", "token_budget"])
    assert causes(table) == {"overlong": 0.5, "token_budget": 0.5}


def test_difficulty_standardisation_undoes_a_harder_mix() -> None:
    edges, weights = difficulty_bins({0.2: 50, 0.8: 50}, bins=2)
    assert (edges, weights) == ([0.2, 0.8], [0.5, 0.5])
    # same lengths per level, but four fifths of this variant's trajectories are on the hard level
    means, value = standardised({0.2: (20, 20 * 100.0), 0.8: (80, 80 * 300.0)}, edges, weights)
    assert (means, value) == ([100.0, 300.0], 200.0)
    assert standardised({0.2: (20, 2000.0)}, edges, weights) == ([100.0, None], None)


def test_few_difficulties_give_few_bins() -> None:
    edges, weights = difficulty_bins({0.5: 10})
    assert (edges, weights) == ([0.5], [1.0])
    edges, weights = difficulty_bins({k / 10: 10 for k in range(10)})
    assert weights == pytest.approx([0.2] * 5)


def _percent(value: float, low: float, high: float) -> dict[str, Any]:
    return {"percent": {"value": value, "interval": {"low": low, "high": high}}}


def test_inflating_needs_growth_for_sure_and_no_gain() -> None:
    flat, rising = ({"interval": {"low": low, "high": 0.2}} for low in (-0.1, 0.05))
    assert inflating(_percent(30, 5, 60), flat)["flag"] is True
    assert inflating(_percent(30, 5, 60), rising)["flag"] is False
    assert inflating(_percent(30, -5, 60), flat)["flag"] is False
    assert inflating(_percent(15, 5, 25), flat)["flag"] is False
    assert inflating({"percent": {"value": 30, "interval": None}}, flat)["flag"] is None


def test_histogram_bins_are_quarter_octaves() -> None:
    table = rows(step=[0, 0, 4, 9], gen_tokens=[1, 2, 4, 0])
    assert histogram(table, 10) == {2: {0: 1, 4: 1}, 6: {8: 1}}


def test_a_run_is_read_off_where_its_variant_is() -> None:
    steps = list(range(40))
    table = rows(step=steps, gen_tokens=[100] * 20 + [900] * 20)
    assert run_lengths(table, 20, "token_mean").values["sampled/all/gen_tokens/mean"] == 100.0
    assert run_lengths(table, None, "token_mean").values["sampled/all/gen_tokens/mean"] == 900.0
    assert run_lengths(table, None, "token_mean").values["change/total"] == pytest.approx(800.0)
    assert "change/total" not in run_lengths(table, 19, "token_mean").values
    assert run_lengths(table, 0, "token_mean").values == {}
