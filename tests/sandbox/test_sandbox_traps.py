"""Traps that a sandbox falls into once: each stays shut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gagar_core.sandbox import ProcessSandbox, SandboxSettings, filesystem
from gagar_core.sandbox.levels import try_level
from gagar_core.types import CallResult, Program
from tests.sandbox.gauntlet import children_of, sandbox_at


@pytest.fixture(scope="module", params=["namespaces", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[ProcessSandbox]:
    refused: dict[str, str] = {}
    if try_level(request.param, SandboxSettings(), refused) is None:
        pytest.skip(f"level {request.param} is not to be had here: {refused[request.param]}")
    with sandbox_at(request.param) as opened:
        yield opened


def run(sandbox: ProcessSandbox, source: str, *args: object) -> CallResult:
    return sandbox.calls_batch([(Program(source, "f"), [args])])[0][0]


def test_the_process_limit_binds_root_too(sandbox: ProcessSandbox) -> None:
    source = """
import os, time
def f():
    made = []
    try:
        for i in range(40):
            made.append(os.fork())
            if made[-1] == 0:
                time.sleep(2)
                os._exit(0)
    except OSError:
        pass
    return len(made)
"""
    assert run(sandbox, source).value in ((0,) if sandbox.level == "landlock" else (2, 3, 4))


def test_everything_can_still_be_imported_after_root_is_gone(sandbox: ProcessSandbox) -> None:
    source = "def f(names):\n    for name in names: __import__(name)\n    return len(names)"
    names = ["decimal", "ctypes", "sqlite3", "zoneinfo", "email", "unicodedata", "hashlib", "lzma", "xml.dom"]
    assert run(sandbox, source, names) == CallResult("ok", len(names))


def test_threads_start_though_clone3_is_refused(sandbox: ProcessSandbox) -> None:
    source = """
import threading
def f():
    found = []
    thread = threading.Thread(target=lambda: found.append(7))
    thread.start()
    thread.join()
    return found
"""
    assert run(sandbox, source) == CallResult("ok", [7])


def test_a_zygote_makes_many_children(sandbox: ProcessSandbox) -> None:
    zygote = sandbox._lanes[0].zygote
    zygote.start()
    pid = zygote.pid
    batch = [(Program(f"import os\ndef f():\n    return {k}", "f"), [()]) for k in range(30)]
    assert [row[0].value for row in sandbox.calls_batch(batch)] == list(range(30))
    assert zygote.pid == pid


def test_a_signal_to_the_own_group_stays_inside(sandbox: ProcessSandbox) -> None:
    pid = sandbox._lanes[0].zygote.pid
    run(sandbox, "import os\ndef f():\n    os.kill(0, 9)\n    return 1")
    assert run(sandbox, "def f(): return 'next'").value == "next"
    assert sandbox._lanes[0].zygote.pid == pid


def test_nothing_of_a_run_is_found_by_the_next(sandbox: ProcessSandbox) -> None:
    """Code and inputs must never have been in the memory that children inherit."""
    marker = "marker_" + os.urandom(8).hex()
    plant = (
        f"import os\nx = '{marker}'\nopen('left', 'w').write(x)\nos.environ['LEFT'] = x\ndef f(y): return y"
    )
    assert run(sandbox, plant, marker).value == marker
    search = """
import gc, os
def f(head, tail):
    want = head + tail
    objects = [o for o in gc.get_objects() if isinstance(o, (dict, list)) and head not in o]
    found = [o for o in objects if want in str(o)[:10000]]
    return len(found), os.listdir('.'), 'LEFT' in os.environ
"""
    count, files, inherited = run(sandbox, search, marker[:12], marker[12:]).value
    assert (files, inherited) == ([], False)
    assert count == 0


def test_the_search_would_find_what_is_there(sandbox: ProcessSandbox) -> None:
    source = """
import gc
kept = [['needle', 'in hay']]
def f(head, tail):
    return len([o for o in gc.get_objects() if isinstance(o, list) and head + tail in str(o)[:1000]])
"""
    assert run(sandbox, source, "needle', 'in ", "hay").value >= 1


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_child_dies_with_its_zygote(sandbox: ProcessSandbox) -> None:
    session = sandbox.open(Program("import os\ndef f(x):\n    return os.getpid() if x else 1", "f"))
    assert session.call((0,)).value == 1
    (child,) = children_of(sandbox)
    os.kill(sandbox._lanes[0].zygote.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while is_alive(child) and time.monotonic() < deadline:
        os.sched_yield()
    assert not is_alive(child)
    assert session.call((0,)).value == 1
    assert sandbox.counters.infra == 0
    sandbox.end_step()


def test_a_program_that_is_made_to_wait_by_the_machine_is_not_timed_out(sandbox: ProcessSandbox) -> None:
    """Only a program that does not want the CPU uses up its wall time: verdicts must not depend on load."""
    session = sandbox.open(Program("import os\ndef f(x):\n    return x", "f"))
    assert session.call((1,)).value == 1
    (child,) = children_of(sandbox)
    os.setpriority(os.PRIO_PROCESS, child, 19)
    assert session.call((2,)).value == 2
    sandbox.end_step()


def test_wiping_needs_no_recursion_follows_no_link_and_takes_its_rights(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("kept")
    place = tmp_path / "place"
    place.mkdir()
    here = os.open(place, os.O_RDONLY)
    for depth in range(1500):  # far deeper than a path may be long, or a stack deep
        os.mkdir("d", dir_fd=here)
        if depth % 300 == 0:
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (place / "link").symlink_to(victim)
    (place / "shut").mkdir()
    (place / "shut" / "inner").mkdir()
    (place / "shut" / "inner").chmod(0)
    (place / "shut").chmod(0)
    os.mkfifo(place / "pipe")
    filesystem.wipe(str(place))
    assert not place.exists()
    assert (victim / "file").read_text() == "kept"


def test_a_quota_sees_size_and_number(tmp_path: Path) -> None:
    quota = filesystem.Quota(str(tmp_path), 10_000, 5)
    assert not quota._measured()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "big").write_bytes(b"x" * 9_000)
    (tmp_path / "link").symlink_to("/usr")
    assert not quota._measured()
    (tmp_path / "a" / "more").write_bytes(b"x" * 2_000)
    assert quota._measured()
    (tmp_path / "a" / "more").unlink()
    for name in "bcd":
        (tmp_path / name).touch()
    assert quota._measured()


def test_abandoned_workspaces_are_swept_and_used_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "_SCRATCH_PARENTS", (str(tmp_path),))
    pid = os.fork()
    if pid == 0:
        Path(filesystem.locked_scratch(), "left").write_text("x")
        os._exit(0)
    os.waitpid(pid, 0)
    used = Path(filesystem.locked_scratch())
    (other := tmp_path / "gagar-other").mkdir()
    assert len(list(tmp_path.iterdir())) == 3
    filesystem.sweep()
    assert sorted(tmp_path.iterdir()) == sorted([used, other])


def test_no_scratch_is_left_behind(sandbox: ProcessSandbox) -> None:
    scratch = sandbox._lanes[0].zygote.scratch
    assert bool(scratch) == (sandbox.level == "landlock")
    sandbox._lanes[0].stop()
    assert not scratch or not Path(scratch).exists()
    assert run(sandbox, "def f(): return 3").value == 3


USE = """
import os, sys, threading
from gagar_core.sandbox import SandboxSettings, open_sandbox
from gagar_core.types import Program
level, how = sys.argv[1:]
sandbox = open_sandbox(SandboxSettings(level=level))
idle = sandbox.open(Program("import os\\ndef f(x):\\n    return x", "f"))
def ask(x):
    return idle.call((x,)).value
if how == "thread":
    worker = threading.Thread(target=ask, args=(1,))
    worker.start()
    worker.join()
    first = sandbox._lanes[0].zygote.pid
    print(ask(2), sandbox._lanes[0].zygote.pid == first, sandbox._lanes[0].zygote.starts)
elif how == "fork":
    print(ask(1), flush=True)
    pid = os.fork()
    if pid == 0:
        print(ask(2), sandbox._lanes[0].zygote.starts, flush=True)
        sandbox.close()
        os._exit(0)
    os.waitpid(pid, 0)
    print(ask(3), sandbox._lanes[0].zygote.starts)
else:
    zygote = sandbox._lanes[0].zygote
    print(ask(1), zygote.pid, list(zygote._live)[0], zygote.scratch or "-", flush=True)
    os.kill(os.getpid(), 9)
sandbox.close()
"""


def use(level: str, how: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-S", "-c", USE, level, how]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", timeout=60)


def test_a_zygote_outlives_the_thread_that_started_it(sandbox: ProcessSandbox) -> None:
    assert use(sandbox.level, "thread").stdout == "2 True 1\n"


def test_a_forked_process_leaves_its_parents_zygote_alone(sandbox: ProcessSandbox) -> None:
    assert use(sandbox.level, "fork").stdout == "1\n2 2\n3 1\n"


def test_nothing_outlives_a_broker_that_is_killed(sandbox: ProcessSandbox) -> None:
    run = use(sandbox.level, "die")
    _, zygote, child, scratch = run.stdout.split()
    deadline = time.monotonic() + 5
    while (is_alive(int(zygote)) or is_alive(int(child))) and time.monotonic() < deadline:
        os.sched_yield()
    assert not is_alive(int(zygote))
    assert not is_alive(int(child))
    filesystem.sweep()  # what the next start does
    assert not Path(scratch).exists()


@pytest.mark.slow
def test_a_child_that_does_not_read_is_stopped(sandbox: ProcessSandbox) -> None:
    source = """
import os, threading, time
def f(x):
    if not x:
        os.dup2(os.open('/dev/null', os.O_RDWR), 3)  # main reads nothing there and ends; the pipe stays open
        threading.Thread(target=time.sleep, args=(60,)).start()
    return len(x)
"""
    batch = [(Program(source, "f"), [("",), ("x" * 300_000,)]), (Program("def f(): return 1", "f"), [()])]
    results = sandbox.calls_batch(batch)
    assert results[0][0].value == 0
    assert results[0][1].status in ("timeout", "error")
    assert results[1][0].value == 1
