"""Ticks and guards: the meaning of a program stays, its work is bounded, and verdicts repeat."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_core.sandbox.fuel import Meter, OutOfFuelError, compile_metered

PROGRAMS = [
    """
def f(xs):
    t = 0
    for x in xs:
        if x % 2: continue
        t += x * x
    else:
        t -= 1
    return t
""",
    """
def f(xs):
    return [a * b for a in xs for b in xs if a < b]
""",
    """
def f(xs):
    return {a: {b for b in xs if b in xs} for a in xs}
""",
    """
def f(xs):
    return sorted(map(lambda v: -v, xs)), max(xs, default=0), min(0, 1, *xs), sum(iter(xs), 5)
""",
    """
def f(xs):
    ys = list(xs)
    ys *= 2
    ys += (v for v in xs)
    return ys[::-1], ys[1:3]
""",
    """
def f(xs):
    box = {'k': [2]}
    for x in xs:
        box['k'][0] *= x
        box['k'][0] <<= 1
    return box
""",
    """
class A:
    'doc'
    v = 3
    def __mul__(self, o):
        'doc'
        return ('mul', o)
    def __imul__(self, o):
        self.v **= 2
        return self
def f(xs):
    a = A()
    p = a * 3
    a *= 1
    return p, a.v, A.__doc__, A.__mul__.__doc__
""",
    """
def f(xs):
    def g():
        while True:
            got = yield len(xs)
            if got: return got
    it = g()
    next(it)
    try:
        it.send(7)
    except StopIteration as end:
        return end.value
""",
    """
def f(xs):
    sum = lambda v: ('mine', v)
    return sum(xs)
""",
    """
def f(xs):
    return pow(3, 5), pow(3, 5, 7), 2 ** -1, 'ab' * 3, [0] * -1, (*xs, *iter(xs))
""",
    """
def f(xs):
    first, *rest = xs + [1]
    return first, rest, ','.join(str(v) for v in xs), -1 in (v for v in xs)
""",
]


def called(code: Any, meter: Meter, xs: list[int], fuel: int) -> Any:
    meter.refill(fuel)
    space: dict[str, Any] = meter.namespace()
    exec(code, space)
    return space["f"](list(xs))


def plain(source: str, xs: list[int]) -> Any:
    space: dict[str, Any] = {}
    exec(source, space)
    return space["f"](list(xs))


@pytest.mark.parametrize("source", PROGRAMS, ids=range(len(PROGRAMS)))
@given(xs=st.lists(st.integers(-9, 9), max_size=5))
@settings(max_examples=25, deadline=None)
def test_instrumented_programs_compute_what_they_did(source: str, xs: list[int]) -> None:
    assert called(compile_metered(source), Meter(1 << 28), xs, 10_000) == plain(source, xs)


HUNGRY = [
    "while True: pass",
    "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
    "f(xs) or f(xs)",
    "sum(range(10**15))",
    "sum(map(abs, iter(range(10**15))))",
    "-1 in map(abs, range(10**15))",
    "x = 3\n    for i in range(99): x *= x",
    "x = 3\n    for i in range(99): x = x * x",
    "2 ** 10**12",
    "pow(2, 10**12)",
    "1 << 10**13",
    "[i for i in range(10**15) if False]",
    "x = []\n    x += range(10**15)",
    "x = []\n    x.extend(iter(range(10**15)))",
    "[*iter(range(10**15))]",
    "''.join(map(str, range(10**15)))",
    "g = lambda: g()\n    any(g() for i in range(10**9))",
    "list(zip(range(10**15)))",
]


@pytest.mark.parametrize("body", HUNGRY)
def test_work_without_end_uses_up_the_fuel(body: str) -> None:
    meter = Meter(1 << 28)
    with pytest.raises((StopIteration, RuntimeError, OutOfFuelError, RecursionError)):
        called(compile_metered(f"def f(xs):\n    {body}\n    for once in [1]: pass"), meter, [], 20_000)
    assert meter.empty or body.startswith(("f(xs)", "g = "))  # recursion may hit its own limit first


@pytest.mark.parametrize("source", ["[0] * 10**9", "10**9 * 'abcd'", "1 << 10**12 if 0 else [1] * 10**8"])
def test_repetition_beyond_memory_is_a_memory_error_before_it_happens(source: str) -> None:
    with pytest.raises(MemoryError):
        called(compile_metered(f"def f(xs):\n    return {source}"), Meter(1 << 28), [], 10**6)


def test_ticks_of_a_loop_are_counted_exactly() -> None:
    code = compile_metered("def f(xs):\n    for x in range(xs[0]): pass")
    meter = Meter(1 << 28)
    called(code, meter, [98], 100)  # one entry, 98 steps: one tick is left
    assert not meter.empty
    called(code, meter, [99], 100)
    assert meter.empty
