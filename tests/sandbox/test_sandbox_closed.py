"""Closed programs: what the allow-list lets through is harmless, runs in one child, and means the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_core.sandbox import ProcessSandbox, SandboxSettings, open_sandbox
from gagar_core.sandbox.vocabulary import BUILTINS, is_closed
from gagar_core.types import Program

CLOSED = [
    "def f(xs):\n    r = 0\n    for x in xs:\n        if x % 2 == 0:\n            r += x * x\n    return r\n",
    "def f(xs):\n    return sum([x for x in xs if x > 0])\n",
    "def f(xs):\n    ys = [x for x in xs if x not in [1, 2]]\n    return ys[0] if ys else None\n",
    "def f(xs):\n    return max([abs(x) for x in xs], default=0)\n",
    "def f(xs):\n    return sorted(xs, key=lambda x: -x)[:2]\n",
    "def f(xs):\n    while len(xs) > 1:\n        xs = xs[1:]\n    else:\n        pass\n    return {1: xs}\n",
    "def f(xs):\n    return f(xs[1:]) + xs[0] if xs else 0\n",
    "def f(xs):\n    return xs[5]\n",
]
CLOSED += [
    "def f(xs):\n    return sum(int(c) for c in str(xs[0]))\n",
    "def f(xs):\n    return sorted(map(str, xs), key=lambda x: -int(x))\n",
    "def g(x):\n    return repr(x)\ndef f(xs):\n    return [g(x) for x in xs] + list(map(g, xs))\n",
]
OPEN = [
    "import os",
    "from os import path",
    "def f(xs): return xs.append(1)",
    "def f(xs): return ().__class__",
    "def f(xs): return __import__('os')",
    "def f(xs): return eval('1')",
    "def f(xs): return getattr(xs, 'x')",
    "def f(xs): return type(xs)",
    "def f(xs): return object",
    "def f(xs): return open('/etc/passwd')",
    "def f(xs): return print(xs)",
    "def f(xs): return globals()",
    "def f(xs):\n    global y\n    y = 1",
    "def f(xs):\n    try: pass\n    except: pass",
    "def f(xs):\n    raise ValueError",
    "def f(xs):\n    with xs: pass",
    "class A: pass",
    "def f(xs):\n    yield 1",
    "async def f(xs): pass",
    "@list\ndef f(xs): pass",
    "def f(xs: int): pass",
    "def f(xs) -> int: pass",
    "x: int = 1",
    "def f(xs): return f'{xs}'",
    "def f(xs): return (y := xs)",
    "def f(xs):\n    match xs:\n        case [x]: pass",
    "def f(xs): return list(**xs)",
    "def f(xs): return '%s'.format",
    "def f(xs): del xs",
    "def f(xs): return b'x'",
    "def f(xs): return ...",
    "def f(xs): return 1j",
    "__builtins__ = 1",
    "def f(__class__): pass",
    "__fuel_tick__ = 1",
    "x = '" + "a" * 9000 + "'",
    "x = 'é'",
    "x = \0",
    "def f(:",
    "def f(xs): return repr(lambda: 0)",
    "def f(xs): return str([f])",
    "def f(xs): return '%s' % (f,)",
    "def f(xs): return repr(x for x in xs)",
    "def f(xs): return list(map(str, [map(str, xs)]))",
    "def list(x): return repr(x)\ndef f(xs): return list(x for x in xs)",
    "g = f = lambda xs: str(g)",
    "def f(xs): return [g(0) for g in {lambda x: 1, lambda x: 2}]",
    "def f(xs): return [g(0) for g in set([lambda x: 1, lambda x: 2])]",
]
ODD_SHAPES = [
    "-" * 7000 + "1",
    "(" * 150 + ")" * 150,
    "[" * 190 + "]" * 190,
    "a" + "+a" * 3000,
    "f" + "(1)" * 2000,
]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[ProcessSandbox]:
    with open_sandbox(SandboxSettings(allow_no_isolation=True, cache_mb=0)) as opened:
        yield opened


@pytest.mark.parametrize("source", CLOSED, ids=range(len(CLOSED)))
def test_ordinary_programs_are_proved(source: str) -> None:
    assert is_closed(source)


@pytest.mark.parametrize("source", OPEN, ids=range(len(OPEN)))
def test_anything_that_leads_out_is_not(source: str) -> None:
    assert not is_closed(source)


@pytest.mark.parametrize("shape", ODD_SHAPES, ids=range(len(ODD_SHAPES)))
def test_no_shape_of_program_harms_the_process_that_proves(sandbox: ProcessSandbox, shape: str) -> None:
    results = sandbox.calls_batch(
        [(Program(f"def f():\n    return {shape}", "f", closed_vocabulary=True), [()])]
    )[0]
    assert results[0].status in ("ok", "error", "output")
    assert sandbox.counters.infra == 0


def test_no_listed_builtin_opens_or_inspects() -> None:
    dangerous = {"open", "eval", "exec", "compile", "getattr", "setattr", "type", "vars", "globals", "object"}
    assert BUILTINS.isdisjoint(
        dangerous | {"__import__", "input", "print", "super", "memoryview", "classmethod"}
    )


def test_closed_programs_share_one_child_and_the_word_of_the_caller_is_not_enough(
    sandbox: ProcessSandbox,
) -> None:
    zygote = sandbox._lanes[0].zygote
    sandbox.end_step()
    before = zygote.made
    harmless = [
        (Program(f"def f(x):\n    return x + {k}\n", "f", closed_vocabulary=True), [(1,)]) for k in range(20)
    ]
    assert [row[0].value for row in sandbox.calls_batch(harmless)] == [k + 1 for k in range(20)]
    assert zygote.made == before + 1
    hostile = Program("import os\ndef f(x):\n    return os.getpid()\n", "f", closed_vocabulary=True)
    first, second = (sandbox.calls_batch([(hostile, [(k,)])])[0][0] for k in range(2))
    assert zygote.made == before + 3
    assert first.status == second.status == "ok"
    sandbox.end_step()
    sandbox.calls_batch(harmless)
    assert zygote.made == before + 4  # the shared child was replaced at the end of the step


@given(
    source=st.sampled_from(CLOSED),
    xs=st.lists(st.integers(-5, 5) | st.booleans() | st.floats(-2, 2), max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_shared_and_isolated_runs_agree(sandbox: ProcessSandbox, source: str, xs: list[float]) -> None:
    shared, alone = (
        sandbox.calls_batch([(Program(source, "f", closed_vocabulary=flag), [(xs,)])])[0]
        for flag in (True, False)
    )
    assert shared == alone


def test_one_closed_program_cannot_spoil_the_next(sandbox: ProcessSandbox) -> None:
    greedy = [
        "def f(x):\n    y = [0] * 10000000\n    return f(y)\n",
        "def f(x):\n    while True:\n        x = x + [x]\n",
        "def f(x):\n    y = 'a' * 400\n    return ('%99999999d' % 1) * 9\n",
        "def f(x):\n    return f(x)\n",
        "def f(x):\n    return x * 10 ** 9\n",
    ]
    honest = Program("def f(x):\n    return sum(x)\n", "f", closed_vocabulary=True)
    batch = [(Program(source, "f", closed_vocabulary=True), [([1],)]) for source in greedy]
    batch = [pair for hostile in batch for pair in (hostile, (honest, [([1, 2],)]))]
    results = sandbox.calls_batch(batch)
    assert all(row[0].status in ("timeout", "memory", "error") for row in results[::2])
    assert all(row[0].value == 3 for row in results[1::2])
    assert sandbox.counters.infra == 0
