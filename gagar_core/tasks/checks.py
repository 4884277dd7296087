"""Comparing what programs returned with what was expected: the trusted side of every test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gagar_core.types import CallResult, Case


def equal(value: Any, expected: Any) -> bool:
    """Equality by value of builtin types; a bool counts as the int it is, nothing else crosses types."""
    if isinstance(value, bool):
        value = int(value)
    if isinstance(expected, bool):
        expected = int(expected)
    if type(value) is not type(expected):
        return False
    if isinstance(expected, list | tuple):
        return len(value) == len(expected) and all(equal(v, e) for v, e in zip(value, expected, strict=True))
    return bool(value == expected)


def passes(case: Case, result: CallResult) -> bool:
    """Whether one call gave what the case expects."""
    return result.status == "ok" and equal(result.value, case.expected)


def num_passed(cases: Sequence[Case], results: Sequence[CallResult]) -> int:
    """How many cases pass."""
    return sum(passes(case, result) for case, result in zip(cases, results, strict=True))


def verdict(cases: Sequence[Case], results: Sequence[CallResult]) -> str:
    """``pass`` if every case passes; else the first fault, ``wrong`` for a wrong value.

    One infrastructure failure makes the verdict ``infra``: nothing is known about the program then.
    """
    if any(result.status == "infra" for result in results):
        return "infra"
    for case, result in zip(cases, results, strict=True):
        if not passes(case, result):
            return "wrong" if result.status == "ok" else result.status
    return "pass"
