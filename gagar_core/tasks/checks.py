"""Comparing what programs returned with what was expected: the trusted side of every test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gagar_core.types import CallResult, Case, Task

LONGEST_SHOWN = 80
"""Characters of a value in a message."""
FLOAT_ATOL = 1e-6
"""Tolerance of tests that expect floats and do not say another: assertions compare numbers by value."""


def atol_for(expected: Any) -> float:
    """Tolerance of a test that expects this value: ``FLOAT_ATOL`` where a float is in it, else 0."""
    return FLOAT_ATOL if _has_float(expected) else 0.0


def _has_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, (*value.keys(), *value.values())))
    return isinstance(value, float) or (isinstance(value, list | tuple | set) and any(map(_has_float, value)))


def shown(*values: Any) -> str:
    """Values for a message, cut after ``LONGEST_SHOWN`` characters; an integer too long to print is named."""
    return f"{', '.join(map(spelled, values)):.{LONGEST_SHOWN}}"


def spelled(value: Any) -> str:
    """The value as Python writes it, or words where it holds an integer of more digits than Python writes."""
    try:
        return repr(value)
    except ValueError:
        return "a value with an integer too long to print"


def equal(value: Any, expected: Any, atol: float = 0.0) -> bool:
    """Equality by value of builtin types; a bool counts as the int it is, nothing else crosses types.

    With ``atol`` > 0, numbers are compared by their difference, whichever of int and float they are.
    """
    if isinstance(value, bool):
        value = int(value)
    if isinstance(expected, bool):
        expected = int(expected)
    if atol and isinstance(value, int | float) and isinstance(expected, int | float):
        return value == expected or _close(value, expected, atol)
    if type(value) is not type(expected):
        return False
    if isinstance(expected, list | tuple):
        pairs = zip(value, expected, strict=False)
        return len(value) == len(expected) and all(equal(v, e, atol) for v, e in pairs)
    if isinstance(expected, dict):
        return value.keys() == expected.keys() and all(equal(value[k], e, atol) for k, e in expected.items())
    return bool(value == expected)


def _close(value: float, expected: float, atol: float) -> bool:
    try:
        return abs(value - expected) <= atol
    except OverflowError:  # an integer beyond every float
        return False


def passes(case: Case, result: CallResult) -> bool:
    """Whether one call gave what the case expects."""
    return result.status == "ok" and equal(result.value, case.expected, case.atol)


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


def cases_of(task: Task, kind: str) -> tuple[Case, ...]:
    """The cases of a kind of test; test programs come after them."""
    cases: tuple[Case, ...] = getattr(task, kind)
    return cases


def num_tests(task: Task, kind: str) -> int:
    """How many tests of a kind a task has, cases and test programs."""
    return len(cases_of(task, kind)) + len(task.test_programs.get(kind, ()))


def num_tests_passed(task: Task, kind: str, results: Sequence[CallResult]) -> int:
    """How many tests of a kind pass; ``results`` are those of the cases, then those of the test programs."""
    cases = cases_of(task, kind)
    asserted = sum(result.status == "ok" for result in results[len(cases) :])
    return num_passed(cases, results[: len(cases)]) + asserted


def verdict_of(task: Task, kind: str, results: Sequence[CallResult]) -> str:
    """The verdict over all tests of a kind; that of the cases comes first."""
    cases = cases_of(task, kind)
    asserted = results[len(cases) :]
    if any(result.status == "infra" for result in asserted):
        return "infra"
    decided = verdict(cases, results[: len(cases)])
    return next((r.status for r in asserted if r.status != "ok"), "pass") if decided == "pass" else decided
