"""Which groups are kept, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from gagar_core.errors import ConfigError
from gagar_core.sampling.adaptive import AdaptiveGroup, Curriculum
from gagar_core.sampling.outcome import KeepAll, MixedOnly
from gagar_core.sampling.refill import Refill
from gagar_core.sampling.shares import Anchors, Band
from tests.sampling.coin import group

ROWS = ["pass wrong", "pass pass", "error timeout", "pass infra", "pass infra wrong", "pass pass infra"]
GROUPS = [group(row) for row in ROWS]
PLAIN = ["", "all_pass", "all_fail", "too_few_valid", "", "all_pass"]


def test_valid_and_passing_trajectories_are_counted() -> None:
    assert [(g.num_valid, g.num_passing) for g in GROUPS] == [(2, 1), (2, 2), (2, 0), (1, 1), (2, 1), (2, 2)]


@pytest.mark.parametrize("policy", [MixedOnly(), Refill(), AdaptiveGroup(), Curriculum()])
def test_mixed_groups_are_kept(policy: MixedOnly) -> None:
    assert policy.select(GROUPS, 6) == PLAIN


def test_keep_all_drops_only_what_cannot_be_compared() -> None:
    assert KeepAll().select(GROUPS, 6) == ["", "", "", "too_few_valid", "", ""]


def test_refill_drops_what_is_too_much() -> None:
    assert Refill().select(GROUPS, 1) == ["", "all_pass", "all_fail", "too_few_valid", "surplus", "all_pass"]


def test_anchors_keep_shares() -> None:
    assert Anchors(all_pass_share=0.5, all_fail_share=0).select(GROUPS, 6) == [
        "", "", "all_fail", "too_few_valid", "", "all_pass",
    ]  # fmt: skip
    assert Anchors(all_pass_share=0, all_fail_share=0).select(GROUPS, 6) == MixedOnly().select(GROUPS, 6)
    assert Anchors(all_pass_share=1, all_fail_share=1).select(GROUPS, 6) == KeepAll().select(GROUPS, 6)
    ten = [group("pass pass")] * 10
    assert Anchors(all_pass_share=0.3).select(ten, 10) == [""] * 3 + ["all_pass"] * 7
    kept = [Anchors().select(ten[:number], number).count("") for number in (1, 2, 3, 4, 6, 10)]
    assert kept == [0, 0, 1, 1, 2, 2]  # a quarter, rounded to whole groups


def test_band_is_a_closed_window() -> None:
    rows = ["pass " * k + "wrong " * (10 - k) for k in range(11)]
    reasons = Band(low=0.2, high=0.7).select([group(row) for row in rows], 11)
    assert reasons == ["all_fail", "too_hard", *[""] * 6, "too_easy", "too_easy", "all_pass"]
    assert Band(low=0, high=1).select(GROUPS, 6) == KeepAll().select(GROUPS, 6)


@pytest.mark.parametrize(
    ("cls", "fields", "said"),
    [
        (Anchors, {"all_pass_share": 1.5, "all_fail_share": -1}, "all_fail_share must be in [0, 1]; got -1"),
        (Band, {"low": 0.6, "high": 0.5}, "high must be in [0.6, 1]; got 0.5"),
        (Refill, {"rounds": 0, "oversample": 0.5, "when_short": "cry"}, "when_short must be one of error, train; got 'cry'"),
        (AdaptiveGroup, {"smallest": 1, "full_at": 0}, "smallest must be in [2, inf); got 1"),
        (Curriculum, {"floor": 0, "prior": 0, "memory": 2}, "floor must be in (0, inf); got 0"),
    ],
)  # fmt: skip
def test_faulty_settings_are_refused(cls: type[Any], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cls(**fields)
    assert said in str(caught.value)
