"""A child that plays for time, and programs that leave things behind for the next one."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from gagar_core.sandbox import ProcessSandbox, SandboxSettings, diffs, levels
from gagar_core.sandbox.cache import AnswerCache, key_of
from gagar_core.sandbox.levels import Choice, Report
from gagar_core.sandbox.repository import RepositoryGrader, RepositoryTask
from gagar_core.types import CallResult, Program
from tests.sandbox.gauntlet import children_of

DRIP = """
import os, time
os.write(4, (900000).to_bytes(4, "big"))
while True:
    os.write(4, b" ")
    time.sleep(0.002)
"""
VFORK = """
import ctypes, time
ctypes.PyDLL(None).syscall(58)
while True: time.sleep(100)
"""
VFORK_THREAD = """
import ctypes, time
ctypes.PyDLL(None).syscall(*map(ctypes.c_long, (56, 0x14F00, 0, 0, 0, 0)))
while True: time.sleep(100)
"""
HONEST = "def f(x):\n    return len([0] * 2000000) + x\n"
TABLE = "t = [0] * 3000000\ndef f(x):\n    return len(t) + x\n"
CYCLE = "def f(x):\n    t = [0] * 3000000\n    t[0] = t\n    return x\n"


@pytest.fixture(params=["namespaces", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[ProcessSandbox]:
    settings = SandboxSettings(level=request.param, cache_mb=0, cpu_s=0.2, wall_s=0.3)
    with ProcessSandbox(settings, Choice(request.param, Report(level=request.param))) as opened:
        yield opened


def _waited_too_long(*_: object) -> None:
    raise AssertionError("the broker waits for ever")


@pytest.mark.parametrize("source", [DRIP, VFORK, VFORK_THREAD], ids=["drip", "vfork", "vfork_thread"])
def test_a_child_that_plays_for_time_is_stopped(sandbox: ProcessSandbox, source: str) -> None:
    sandbox.calls_batch([(Program("def f(x): return x", "f"), [(1,)])])
    before = signal.signal(signal.SIGALRM, _waited_too_long)
    signal.alarm(10)
    try:
        results = sandbox.calls_batch([(Program(source, "f"), [(1,)])])[0]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert results[0].status in ("timeout", "error")
    assert sandbox.counters.infra == 0
    assert not children_of(sandbox)


@pytest.mark.parametrize("source", [TABLE, CYCLE], ids=["table", "cycle"])
def test_what_a_closed_program_leaves_does_not_take_the_next_ones_memory(
    sandbox: ProcessSandbox, source: str
) -> None:
    greedy = [
        (Program(f"{source}#{k}", "f", closed_vocabulary=True), [(i,) for i in range(10)]) for k in range(3)
    ]
    honest = (Program(HONEST, "f", closed_vocabulary=True), [(1,)])
    results = sandbox.calls_batch([*greedy, honest])
    assert {result.status for row in results for result in row} == {"ok"}


def test_memory_does_not_depend_on_how_many_calls_came_before(sandbox: ProcessSandbox) -> None:
    results = sandbox.calls_batch([(Program(TABLE, "f"), [(i,) for i in range(40)])])[0]
    assert {result.status for result in results} == {"ok"}


def test_long_integers_count_in_the_cache() -> None:
    cache = AnswerCache(1_000_000)
    for k in range(50):
        cache.keep(("calls", "source", "f"), key_of([k]), CallResult("ok", (1 << 3_000_000) + k))
    assert cache.size_bytes <= 1_000_000
    assert cache.find(("calls", "source", "f"), [key_of([0])]) == [None]


def test_a_repository_is_not_mistaken_for_one_that_is_gone() -> None:
    diff = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,1 @@\n+hi\n"
    with RepositoryGrader() as grader:
        for k in range(4):
            files = {"core.py": f"def f():\n    return {k}\n".encode()}
            tests = {"t": f"from core import f\ndef test_a():\n    assert f() == {k}\n"}
            task = RepositoryTask(files=files, tests=tests, expected={"t": ("test_a",)})
            assert grader.grade(task, diff).status == "pass"
            del task, files, tests


@pytest.mark.parametrize("odd", ["\f", "\x1c", "\x85", "\u2028"])
def test_only_line_feeds_end_lines_in_a_diff(odd: str) -> None:
    (patch,) = diffs.parse(f"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n {odd}\n-b\n+c\n")
    assert diffs.apply(f"a\n{odd}\nb\n", patch.hunks) == f"a\n{odd}\nc\n"


def test_many_allowed_processes_do_not_cost_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_FOUND", {})
    assert levels.choose(SandboxSettings(processes=64, level="namespaces")).level == "namespaces"
