"""Assert-style tests through a judge, scripts on stdin and stdout, and classes as lists of operations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gagar_core.sandbox import ProcessSandbox, SandboxSettings, open_sandbox
from gagar_core.types import CallResult, Program

HUMANEVAL = """
def check(candidate):
    assert candidate([1, 2, 3]) == 6
    assert candidate([]) == 0
    assert candidate([-1, 1]) == 0
"""
MBPP = "assert total([1, 2, 3]) == 6\nassert total([5]) == 5\n"
RAISES = """
def check(candidate):
    try:
        candidate(None)
    except TypeError:
        return
    assert False, 'no TypeError'
"""
RIGHT = "def total(xs):\n    return sum(xs)\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[ProcessSandbox]:
    limits = SandboxSettings(allow_no_isolation=True, cpu_s=0.3, wall_s=0.6, output_bytes=50_000)
    with open_sandbox(limits) as opened:
        yield opened


def judged(sandbox: ProcessSandbox, source: str, *tests: str) -> list[str]:
    return [r.status for r in sandbox.judge_batch([(Program(source, "total"), list(tests))])[0]]


def test_right_and_wrong_programs_are_told_apart(sandbox: ProcessSandbox) -> None:
    assert judged(sandbox, RIGHT, HUMANEVAL, MBPP, RAISES) == ["ok", "ok", "ok"]
    assert judged(sandbox, "def total(xs):\n    return len(xs)\n", HUMANEVAL, MBPP) == ["wrong", "wrong"]


CHEATS = [
    "class E:\n    def __eq__(s, o): return True\ndef total(xs): return E()",
    "class I(int):\n    def __eq__(s, o): return True\ndef total(xs): return I(1)",
    "import builtins\nbuiltins.AssertionError = ZeroDivisionError\ndef total(xs): return -1",
    "import unittest\ndef total(xs): raise unittest.SkipTest('x')",
    "import sys\ndef total(xs): sys.exit(0)",
    "import os\ndef total(xs): os._exit(0)",
    "import gc\ndef total(xs):\n"
    "    found = [o for o in gc.get_objects() if getattr(o, '__name__', '') == 'check']\n"
    "    return 6 if found else -1",
    "import os, struct, json\nm = json.dumps(['0' * 16, 'verdict', 'pass', '']).encode()\n"
    "os.write(4, struct.pack('>I', len(m)) + m)\ndef total(xs): return -1",
    "def total(xs):\n    while True: pass",
    "import time\ndef total(xs): time.sleep(99)",
    "def total(xs): return 'x' * 10**5",
]


@pytest.mark.parametrize("source", CHEATS, ids=range(len(CHEATS)))
def test_cheats_do_not_reach_the_judge(sandbox: ProcessSandbox, source: str) -> None:
    assert "ok" not in judged(sandbox, source, HUMANEVAL, MBPP)
    assert judged(sandbox, RIGHT + f"# after {len(source)}\n", HUMANEVAL) == ["ok"]


@pytest.mark.parametrize(
    ("test", "status"),
    [
        ("def check(candidate):\n    while True: pass", "timeout"),
        ("def check(candidate):\n    import os; os._exit(0)", "error"),
        ("this is no program", "error"),
        ("assert total(object()) == 1", "error"),
        ("x = total\ndef check(candidate):\n    assert candidate([1]) == x([1]) == 1", "ok"),
    ],
)
def test_faulty_test_programs_end_in_a_verdict(sandbox: ProcessSandbox, test: str, status: str) -> None:
    assert judged(sandbox, RIGHT, test) == [status]


def outputs(sandbox: ProcessSandbox, source: str, *texts: str) -> list[CallResult]:
    return sandbox.scripts_batch([(Program(source, ""), list(texts))])[0]


SUM = "a, b = map(int, input().split())\nprint(a + b)\n"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (SUM, "1 2\n", CallResult("ok", "3\n")),
        (
            "import sys\nprint(sum(int(x) for x in sys.stdin.buffer.read().split()))",
            "1 2 3",
            CallResult("ok", "6\n"),
        ),
        ("print(open(0).read())", "x\ny", CallResult("ok", "x\ny\n")),
        ("import os\nos.write(1, os.read(0, 9))", "é", CallResult("ok", "é")),
        ("import sys\nprint(1)\nsys.exit()", "", CallResult("ok", "1\n")),
        ("import sys\nprint(1)\nsys.exit(3)", "", CallResult("error", None, "SystemExit")),
        ("if __name__ == '__main__': print('main')", "", CallResult("ok", "main\n")),
        (SUM, "1", CallResult("error", None, "ValueError")),
        ("print('x' * 40000)\nprint('x' * 40000)", "", CallResult("output", None, "printed too much")),
        ("while True: print('x' * 9000)", "", CallResult("output", None, "printed too much")),
        ("print(1)\nwhile True: pass", "", CallResult("timeout", None, "out of fuel")),
        ("print(1)\nimport os\nos._exit(0)", "", CallResult("error", None, "process ended")),
        ("print(1", "", CallResult("error", None, "SyntaxError")),
    ],
)
def test_scripts(sandbox: ProcessSandbox, source: str, text: str, expected: CallResult) -> None:
    got = outputs(sandbox, source, text)[0]
    if expected.status == "output":
        assert got.status in ("output", "timeout")  # printing takes fuel as well
    else:
        assert got == expected


def test_a_script_runs_afresh_for_every_input(sandbox: ProcessSandbox) -> None:
    assert [r.value for r in outputs(sandbox, SUM, "1 2", "3 4", "5 6")] == ["3\n", "7\n", "11\n"]


STACK = """
class Stack:
    def __init__(self, *items): self.items = list(items)
    def push(self, x): self.items.append(x)
    def pop(self): return self.items.pop()
    def all(self): return tuple(self.items)
"""


def test_operations_on_one_object(sandbox: ProcessSandbox) -> None:
    steps = [("Stack", (1,)), ("push", (2,)), ("pop", ()), ("push", ([3],)), ("all", ())]
    results = sandbox.operations_batch([(Program(STACK, "Stack"), [steps, [("Stack", ()), ("pop", ())]])])[0]
    assert results == [
        CallResult("ok", [None, None, 2, None, (1, [3])]),
        CallResult("error", None, "IndexError"),
    ]


def test_operations_that_are_not_there(sandbox: ProcessSandbox) -> None:
    results = sandbox.operations_batch(
        [
            (Program(STACK, "Queue"), [[("Queue", ())]]),
            (Program(STACK, "Stack"), [[("Stack", ()), ("peek", ())]]),
        ]
    )
    assert [row[0].message for row in results] == ["NameError: Queue is not defined", "AttributeError"]


def test_sessions_keep_their_child_warm(sandbox: ProcessSandbox) -> None:
    zygote = sandbox._lanes[0].zygote
    session = sandbox.open(Program("import decimal\ndef f(x):\n    return x + 1\n", "f"))
    before = zygote.made
    assert [session.call((k,)).value for k in range(5)] == [1, 2, 3, 4, 5]
    assert zygote.made == before + 1
    assert [r.value for r in session.calls([(7,), (8,)])] == [8, 9]
    assert zygote.made == before + 1
    sandbox.end_step()


def test_a_session_survives_its_child(sandbox: ProcessSandbox) -> None:
    session = sandbox.open(Program("import os\ndef f(x):\n    return os._exit(0) if x == 2 else x\n", "f"))
    assert [session.call((k,)).status for k in (1, 2, 3)] == ["ok", "error", "ok"]
    sandbox.end_step()


def test_warm_sessions_are_bounded() -> None:
    with open_sandbox(SandboxSettings(allow_no_isolation=True, live_sessions=3)) as sandbox:
        sessions = [
            sandbox.open(Program(f"import os\ndef f(x):\n    return x + {k}\n", "f")) for k in range(8)
        ]
        assert [session.call((0,)).value for session in sessions] == list(range(8))
        assert len(sandbox._warm) == 3
        assert [session.call((1,)).value for session in sessions] == [k + 1 for k in range(8)]
        sandbox.end_step()
        assert not sandbox._warm


def test_a_test_program_may_pass_more_elements_than_an_answer_may_have(sandbox: ProcessSandbox) -> None:
    assert judged(sandbox, RIGHT, "assert total([0] * 22_000) == 0\n") == ["ok"]
