"""Batches through real worker processes: right verdicts, one program cannot hurt the next, caching."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gagar_core.errors import ConfigError, InputError
from gagar_core.sandbox import ProcessSandbox, SandboxSettings, open_sandbox
from gagar_core.types import CallResult, Program

HONEST = "def f(a, b):\n    return a + b\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[ProcessSandbox]:
    limits = SandboxSettings(
        cpu_s=0.4, wall_s=0.8, memory_mb=128, output_bytes=100_000, allow_no_isolation=True
    )
    with open_sandbox(limits) as opened:
        yield opened


def run(sandbox: ProcessSandbox, source: str, *many: tuple[Any, ...]) -> list[CallResult]:
    return sandbox.calls_batch([(Program(source, "f"), list(many))])[0]


def test_answers_come_back_by_value_and_in_order(sandbox: ProcessSandbox) -> None:
    results = sandbox.calls_batch(
        [
            (Program(HONEST, "f"), [(1, 2), ("a", "b"), ([1], [2])]),
            (Program("def f(x):\n    return {x: (x, {x})}", "f"), [(3,)]),
            (Program(HONEST, "f"), [(1.5, 2)]),
        ]
    )
    assert [[r.value for r in row] for row in results] == [[3, "ab", [1, 2]], [{3: (3, {3})}], [3.5]]
    assert {r.status for row in results for r in row} == {"ok"}


VERDICTS = [
    ("def f(): return 1 / 0", "error", "ZeroDivisionError"),
    ("def f(: pass", "error", "SyntaxError"),
    ("x = '\0'", "error", "SyntaxError"),
    ("def f(): return '\ud800'", "error", "UnicodeEncodeError"),
    ("x = " + "(" * 300, "error", "SyntaxError"),
    ("x = " + "-" * 100_000 + "1", "error", "MemoryError"),
    ("def g(): return 1", "error", "NameError: f is not defined"),
    ("def f(): return f()", "error", "RecursionError"),
    ("def f(x): return 1", "error", "TypeError"),
    ("def f(): return f", "error", "unsupported type function"),
    ("class E:\n    def __eq__(s, o): return True\ndef f(): return E()", "error", "unsupported type E"),
    ("import sys\ndef f(): sys.exit(0)", "error", "SystemExit"),
    ("import os\ndef f(): os._exit(0)", "error", "process ended"),
    ("def f():\n    while True: pass", "timeout", "out of fuel"),
    ("while True: pass", "timeout", "out of fuel"),
    ("def f(n=30): return n if n < 2 else f(n - 1) + f(n - 2)", "timeout", "out of fuel"),
    (
        "import re\ndef f(): return re.match('(a*)*$', 'a' * 40 + 'b')",
        "timeout",
        "no answer within the time limit",
    ),
    ("import time\ndef f(): time.sleep(10**6)", "timeout", "no answer within the time limit"),
    ("def f():\n    x = []\n    while True: x.append(bytearray(10**7))", "memory", "MemoryError"),
    ("def f(): return [0] * 10**9", "memory", "MemoryError"),
    ("def f():\n    while True: print('A' * 10**4)", "output", "printed too much"),
    ("def f(): return 'A' * 10**6", "output", "answer too large"),
    (
        "def f():\n    x = [1]\n    for i in range(60): x = [x, x]\n    return x",
        "output",
        "answer nested too deeply",
    ),
    (
        "def f():\n    x = [1]\n    for i in range(40): x = [x, x]\n    return x",
        "output",
        "answer has too many elements",
    ),
    ("#" * 10**7 + "\ndef f(): return 1", "ok", ""),
]


@pytest.mark.parametrize(("source", "status", "message"), VERDICTS, ids=range(len(VERDICTS)))
def test_verdict_and_a_clean_next_run(
    sandbox: ProcessSandbox, source: str, status: str, message: str
) -> None:
    infra = sandbox.counters.infra
    result = run(sandbox, source, ())[0]
    if "60" in source:  # whichever bound is met first
        assert result.status == status
    else:
        assert (result.status, result.message) == (status, message)
    sandbox._cache.limit_bytes, kept = 0, sandbox._cache.limit_bytes
    assert run(sandbox, HONEST + f"# after {len(source)}", (2, 2))[0] == CallResult("ok", 4)
    sandbox._cache.limit_bytes = kept
    assert sandbox.counters.infra == infra


def test_a_blocking_program_costs_only_its_own_results(sandbox: ProcessSandbox) -> None:
    block = "import re\ndef f(x):\n    if x == 2: re.match('(a*)*$', 'a' * 41 + 'b')\n    return x"
    batch = [(Program(f"def f(x):\n    return x * {k}", "f"), [(10,), (11,)]) for k in range(6)]
    batch.insert(3, (Program(block, "f"), [(1,), (2,), (3,)]))
    results = sandbox.calls_batch(batch)
    assert [[r.value for r in row] for i, row in enumerate(results) if i != 3] == [
        [10 * k, 11 * k] for k in range(6)
    ]
    assert [r.status for r in results[3]] == ["ok", "timeout", "timeout"]
    assert "not run" in results[3][2].message
    assert run(sandbox, block, (3,))[0] == CallResult("ok", 3)  # what was not run is not remembered


def test_calls_do_not_see_each_other(sandbox: ProcessSandbox) -> None:
    source = "seen = []\ndef f(x, box=[]):\n    seen.append(x)\n    box.append(x)\n    return seen + box"
    assert [r.value for r in run(sandbox, source, (1,), (2,), (1,))] == [[1, 1], [2, 2], [1, 1]]


def test_repeated_calls_come_from_the_cache_and_stay_the_callers_own(sandbox: ProcessSandbox) -> None:
    source = "def f(x):\n    return [x]"
    first = run(sandbox, source, (1,), (True,), (1.0,))
    assert [repr(r.value) for r in first] == ["[1]", "[True]", "[1.0]"]
    first[0].value.append("mine")
    hits = sandbox.counters.cache_hits
    assert [repr(r.value) for r in run(sandbox, source, (1,), (True,), (1.0,))] == ["[1]", "[True]", "[1.0]"]
    assert sandbox.counters.cache_hits == hits + 3


def test_cache_is_bounded_and_forgets_the_oldest() -> None:
    with open_sandbox(SandboxSettings(cache_mb=1, allow_no_isolation=True)) as sandbox:
        big = [(Program(f"def f():\n    return '{k}' * 50000", "f"), [()]) for k in range(40)]
        sandbox.calls_batch(big)
        assert 0 < sandbox._cache.size_bytes <= 1 << 20
        sandbox.calls_batch(big[-1:])
        assert sandbox.counters.cache_hits == 1
        sandbox.calls_batch(big[:1])
        assert sandbox.counters.cache_hits == 1


def test_a_zygote_killed_from_outside_is_replaced(sandbox: ProcessSandbox) -> None:
    os.kill(sandbox._lanes[0].zygote.pid, signal.SIGKILL)
    assert run(sandbox, HONEST + "# after a kill", (20, 22))[0] == CallResult("ok", 42)
    assert sandbox.counters.infra == 0


def test_workers_share_a_batch_and_give_the_same_results() -> None:
    batch = [(Program(f"def f(x):\n    return x + {k}", "f"), [(k,), (1,)]) for k in range(7)]
    one = SandboxSettings(workers=1, allow_no_isolation=True)
    two = SandboxSettings(workers=2, allow_no_isolation=True)
    with open_sandbox(one) as alone, open_sandbox(two) as pair:
        assert alone.calls_batch(batch) == pair.calls_batch(batch)
        assert all(lane.zygote.cpu_s > 0 for lane in pair._lanes)


def test_sessions_end_with_the_step(sandbox: ProcessSandbox) -> None:
    session = sandbox.open(Program(HONEST, "f"))
    assert session.call((1, 1)).value == 2
    sandbox.end_step()
    with pytest.raises(InputError, match="closed"):
        session.call((1, 1))


def test_foreign_argument_types_are_the_callers_fault(sandbox: ProcessSandbox) -> None:
    with pytest.raises(InputError, match="exact builtin types"):
        run(sandbox, HONEST, (b"x", 1))


def test_all_bad_settings_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        SandboxSettings(level="docker", workers=0, fuel=1, memory_mb=1)
    assert all(
        word in str(caught.value) for word in ("docker", "workers", "fuel", "memory_mb", "landlock-weak")
    )


def test_the_journal_has_a_line_per_program_and_no_source(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "sandbox.jsonl"
    with open_sandbox(SandboxSettings(log=str(log), allow_no_isolation=True)) as sandbox:
        run(sandbox, HONEST, (1, 2), (3, "x"))
        run(sandbox, HONEST, (1, 2))
        run(sandbox, "import sys\ndef f(): sys.exit()", ())
    head, *lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert head["sandbox"]["level"] == sandbox.level
    assert head["limits"]["fuel"] == sandbox.settings.fuel
    assert [line["statuses"] for line in lines] == [["ok", "error"], ["error"]]
    assert [line["suspicious"] for line in lines] == [False, True]
    assert lines[0]["sha256"] == hashlib.sha256(HONEST.encode()).hexdigest()


def test_tampering_is_counted_per_program() -> None:
    with open_sandbox(SandboxSettings(allow_no_isolation=True)) as sandbox:
        run(sandbox, HONEST, (1, 2))
        assert sandbox.counters.tamper_hints == 0
        run(sandbox, "class E(int): pass\ndef f(x): return E(1)", (1,), (2,))
        run(sandbox, "import unittest\ndef f(x): raise unittest.SkipTest", (1,))
        run(sandbox, "def f(x): return 1 / 0", (1,))
        assert (sandbox.counters.programs, sandbox.counters.tampering) == (4, 2)
        assert sandbox.counters.tamper_hints == 500


@pytest.mark.parametrize(
    "answer", ["[[]] * 10_000", "list(range(19_999))", "{k: k for k in range(7_000)}", "([[]] * 300_000,)"]
)
@pytest.mark.parametrize("closed", [False, True])
def test_an_answer_of_too_many_elements_is_too_much_output(
    sandbox: ProcessSandbox, answer: str, closed: bool
) -> None:
    program = Program(f"def f():\n    return {answer}\n", "f", closed_vocabulary=closed)
    expected = CallResult("output", None, "answer has too many elements")
    assert sandbox.calls_batch([(program, [()])]) == [[expected]]
    kept = Program("def f():\n    return [0] * 19_998\n", "f", closed_vocabulary=closed)
    assert sandbox.calls_batch([(kept, [()])]) == [[CallResult("ok", [0] * 19_998)]]


def test_a_child_that_skips_the_count_is_stopped_by_the_reader(sandbox: ProcessSandbox) -> None:
    source = """
import gagar_core.sandbox.wire as w
w.MAX_NODES = 10**9
def f():
    return [[]] * 30_000
"""
    assert run(sandbox, source, ()) == [
        CallResult("violation", None, "more elements than an answer may have")
    ]


def test_equal_calls_of_one_batch_get_an_answer_each(sandbox: ProcessSandbox) -> None:
    first, second = run(sandbox, "def f(a):\n    return [[a]]\n", (1,), (1,))
    first.value[0].append(2)
    assert second.value == [[1]]


@pytest.mark.parametrize("row", [5, None, "ab", {1: 2}])
def test_a_row_of_arguments_that_is_none_is_the_callers_fault(sandbox: ProcessSandbox, row: Any) -> None:
    with pytest.raises(InputError, match="a tuple or a list"):
        run(sandbox, HONEST, row)
