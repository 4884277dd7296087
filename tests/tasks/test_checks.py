"""The trusted comparison: by value and type, and what a verdict is made of."""

from __future__ import annotations

from typing import Any

import pytest

from gagar_core.tasks.checks import equal, num_passed, verdict
from gagar_core.types import CallResult, Case


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (3, 3, True), (True, 1, True), (0, False, True), (3, 3.0, False), ("3", 3, False), (None, 0, False),
        ([1, [2]], [1, [2]], True), ([1, 2], (1, 2), False), ([1], [1, 2], False), ([True], [1], True),
        ([1.0], [1], False), (float("nan"), float("nan"), False), ({1: 2}, {1: 2}, True),
    ],
)  # fmt: skip
def test_equal(value: Any, expected: Any, same: bool) -> None:
    assert equal(value, expected) is same


CASES = (Case((1,), 1), Case((2,), 4), Case((3,), 9))


def results(*pairs: tuple[str, Any]) -> list[CallResult]:
    return [CallResult(status, value) for status, value in pairs]


def test_verdict_is_the_first_fault() -> None:
    assert verdict(CASES, results(("ok", 1), ("ok", 4), ("ok", 9))) == "pass"
    assert verdict(CASES, results(("ok", 1), ("ok", 5), ("error", None))) == "wrong"
    assert verdict(CASES, results(("ok", 1), ("timeout", None), ("ok", 5))) == "timeout"
    assert num_passed(CASES, results(("ok", 1), ("timeout", None), ("ok", 9))) == 2


def test_one_infrastructure_failure_says_nothing_about_the_program() -> None:
    assert verdict(CASES, results(("ok", 0), ("infra", None), ("ok", 9))) == "infra"


@pytest.mark.parametrize(
    ("value", "expected", "atol", "same"),
    [
        ({"a": 0.1 + 0.2}, {"a": 0.3}, 0.0, False), ({"a": 0.1 + 0.2}, {"a": 0.3}, 1e-6, True),
        ({"a": 0.4}, {"a": 0.3}, 1e-6, False), ({"b": 0.3}, {"a": 0.3}, 1e-6, False),
        ({"a": 0.3, "b": 1}, {"a": 0.3}, 1e-6, False), ({"a": [1.0]}, {"a": [1]}, 0.0, False),
        ({"a": True}, {"a": 1}, 0.0, True), ([{"a": (0.1 + 0.2, 2)}], [{"a": (0.3, 2.0)}], 1e-6, True),
    ],
)  # fmt: skip
def test_values_of_a_dict_are_compared_like_those_of_a_list(
    value: Any, expected: Any, atol: float, same: bool
) -> None:
    assert equal(value, expected, atol) is same


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (10**400, 1.0, False), (1.5, 10**400, False), (10**400, 10**400, True), (10**400 + 1, 10**400, False),
        (float("inf"), float("inf"), True), (float("inf"), 10**400, False), (float("nan"), 1.0, False),
    ],
)  # fmt: skip
def test_a_tolerance_does_not_mind_numbers_beyond_floats(value: Any, expected: Any, same: bool) -> None:
    assert equal(value, expected, 1e-6) is same
