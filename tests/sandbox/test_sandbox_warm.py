"""Between the calls of a warm session nothing of its program goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gagar_core.sandbox import ProcessSandbox, SandboxSettings
from gagar_core.sandbox.levels import Choice, try_level
from gagar_core.types import Program

THREADS = """
import threading, time
exec('''
for _ in range(2):
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
''', {"threading": threading, "time": time})
def f(x): return x
"""
FORKS = """
import os
def f(x):
    if x == 1 and os.fork() == 0:
        exec("while True: pass")
    return x
"""
RUNS_ON = """
import json, os, struct, sys
def f(x):
    frame = sys._getframe()
    while "token" not in frame.f_locals:
        frame = frame.f_back
    text = json.dumps([frame.f_locals["token"], ["ok", x, ""]]).encode()
    os.write(4, struct.pack(">I", len(text)) + text)
    exec("while True: pass")
"""
FORKS_AND_BURNS = """
import os, time
def f(x):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        exec("while time.process_time() < 0.2: pass", {"time": time})
        os.write(theirs, b"x")
        exec("while True: pass")
    os.read(ours, 1)
    return x
"""


@pytest.fixture(params=["namespaces", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[ProcessSandbox]:
    settings = SandboxSettings(level=request.param, cache_mb=0)
    refused: dict[str, str] = {}
    report = try_level(request.param, settings, refused)
    if report is None:
        pytest.skip(f"level {request.param} is not to be had here: {refused[request.param]}")
    with ProcessSandbox(settings, Choice(request.param, report)) as opened:
        yield opened


def state_of(pid: int) -> str:
    """The letter of the process's state, once it is not running any more."""
    deadline = time.monotonic() + 5
    while True:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state in "Tt" or time.monotonic() > deadline:
            return state
        os.sched_yield()


def test_what_a_program_leaves_behind_is_ended_or_stopped(sandbox: ProcessSandbox) -> None:
    zygote = sandbox._lanes[0].zygote
    threads = sandbox.open(Program(THREADS, "f"))
    assert [threads.call((k,)).value for k in (1, 2)] == [1, 2]
    assert not zygote._live
    if sandbox.level == "namespaces":  # the other allows no forks
        forks = sandbox.open(Program(FORKS, "f"))
        assert forks.call((1,)).value == 1
        assert not zygote._live
    running = sandbox.open(Program(RUNS_ON, "f"))
    assert running.call((3,)).value == 3
    (pid,) = zygote._live
    assert state_of(pid) == "T"


def test_an_honest_session_stays_warm_and_rests(sandbox: ProcessSandbox) -> None:
    zygote = sandbox._lanes[0].zygote
    session = sandbox.open(Program("import decimal\ndef f(x):\n    return x + 1\n", "f"))
    assert [session.call((k,)).value for k in range(4)] == [1, 2, 3, 4]
    (pid,) = zygote._live
    assert state_of(pid) == "T"
    assert zygote.made == 1
    sandbox.end_step()
    assert not Path(f"/proc/{pid}").exists()


def test_threads_of_resting_programs_leave_room_for_others(sandbox: ProcessSandbox) -> None:
    user = "import threading\ndef f(x):\n    t = threading.Thread(target=int)\n    t.start()\n    t.join()\n    return x\n"
    honest = sandbox.open(Program(user, "f"))
    assert honest.call((1,)).status == "ok"
    for k in range(6):
        assert sandbox.open(Program(f"{THREADS}# {k}", "f")).call((k,)).status == "ok"
    assert honest.call((2,)).status == "ok"


def test_the_cpu_of_processes_left_behind_is_counted(sandbox: ProcessSandbox) -> None:
    if sandbox.level != "namespaces":
        pytest.skip("no forks at this level")
    before = sandbox.cpu_s
    assert sandbox.open(Program(FORKS_AND_BURNS, "f")).call((1,)).status == "ok"
    spent = sandbox.cpu_s - before
    sandbox.end_step()
    assert spent >= 0.2
    assert sandbox.cpu_s - before >= spent
