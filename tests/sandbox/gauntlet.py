"""Runs the attacks of ``attacks.py`` behind the wall, and their controls without it.

Standard library only, so that it also runs as another user under a bare interpreter:
``python -S gauntlet.py LEVEL`` prints one JSON line per attack.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(REPO), str(Path(__file__).parent)]
    from attacks import ATTACKS, Attack
else:
    from tests.sandbox.attacks import ATTACKS, Attack

from gagar_core.sandbox import (  # noqa: E402
    ProcessSandbox,
    SandboxSettings,
    filesystem,
)
from gagar_core.sandbox.levels import Choice, Report  # noqa: E402
from gagar_core.types import CallResult, Program  # noqa: E402

MEMORY_MB = 200
ORDINARY = 61_000
"""A user id without rights."""
TESTS = [(k, k) for k in range(10)]
HONEST = "def solve(a, b): return a + b\n"


class Outside:
    """Things that a program must not reach: a folder, a stranger's process, an open port."""

    def __init__(self) -> None:
        self.tag = f"gagar-{secrets.token_hex(6)}"
        self.folder = Path(tempfile.mkdtemp(prefix=self.tag, dir="/var/tmp"))
        self.folder.chmod(0o777)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0{self.tag}")
        self.abstract.listen(1)
        self.stranger: subprocess.Popen[bytes] | None = None
        self.reset()

    def reset(self) -> None:
        """Put everything back as it was."""
        for entry in self.folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        victim = self.folder / "victim"
        victim.mkdir()
        victim.chmod(0o777)
        (victim / "own").write_text("mine")
        (victim / "own").chmod(0o666)
        for place in self.marks():
            place.unlink()
        if self.stranger is not None and self.stranger.poll() is not None:
            assert self.stranger.stdout is not None
            self.stranger.stdout.close()
            self.stranger = None
        if self.stranger is None:
            environ = {"SECRET": "mine", "PATH": "/bin"}
            self.stranger = subprocess.Popen(
                [sys.executable, "-S", "-c", WAITS],
                stdout=subprocess.PIPE,
                env=environ,
                start_new_session=True,
            )
            assert self.stranger.stdout is not None
            self.stranger.stdout.readline()

    def marks(self) -> list[Path]:
        """Files with this run's name in places where no program should be able to write."""
        places = ["/dev/shm", "/var/tmp", "/usr/lib", "/", "/etc", "/root", "/tmp", *sys.path]
        places.append(str(Path(os.__file__).parent))
        names = [self.tag, f"sitecustomize_{self.tag}.py", f"{self.tag}.pth", f"conftest_{self.tag}.py"]
        paths = [Path(place, name) for place in dict.fromkeys(places) for name in names]
        return [path for path in paths if os.path.lexists(path)]

    def state(self) -> dict[str, Any]:
        """What can be compared before and after."""
        entries = {}
        for path in [self.folder, *sorted(self.folder.rglob("*"))]:
            status = path.lstat()
            entries[str(path)] = (
                status.st_mode,
                status.st_uid,
                status.st_size,
                status.st_mtime_ns * path.is_file(),
            )
        assert self.stranger is not None
        return {"entries": entries, "marks": self.marks(), "stranger": self.stranger.poll()}

    def fill(self, source: str) -> str:
        """A program with the names of this place in it."""
        assert self.stranger is not None
        values = {"OUT": self.folder, "STRANGER": self.stranger.pid, "TAG": self.tag, "REPO": REPO}
        values["PORT"] = self.server.getsockname()[1]
        for name, value in values.items():
            source = source.replace(f"@{name}@", str(value))
        return source

    def close(self) -> None:
        """End the stranger, remove the folder."""
        self.reset()
        assert self.stranger is not None
        self.stranger.kill()
        self.stranger.wait()
        assert self.stranger.stdout is not None
        self.stranger.stdout.close()
        self.server.close()
        self.abstract.close()
        shutil.rmtree(self.folder)


@dataclass(kw_only=True)
class PretendingSettings(SandboxSettings):
    """Settings for a machine that lacks something this one has."""

    lacks: dict[str, Any] = field(default_factory=dict)

    @property
    def pretend(self) -> dict[str, Any]:
        return self.lacks


@contextlib.contextmanager
def sandbox_at(level: str, **lacks: Any) -> Iterator[ProcessSandbox]:
    """A sandbox with tight limits at a level that was tested already."""
    settings = PretendingSettings(
        lacks=lacks,
        level=level,
        allow_no_isolation=True,
        cache_mb=0,
        fuel=20_000,
        cpu_s=0.15,
        wall_s=0.3,
        memory_mb=MEMORY_MB,
        output_bytes=100_000,
    )
    with ProcessSandbox(settings, Choice(level, Report(level=level))) as sandbox:
        yield sandbox


def passed(results: list[CallResult]) -> int:
    """Tests that a program passes, compared the way a trusted caller does."""
    return sum(
        result.status == "ok" and type(result.value) is int and result.value == a + b
        for result, (a, b) in zip(results, TESTS, strict=True)
    )


def faults_of(attack: Attack, sandbox: ProcessSandbox, outside: Outside) -> list[str]:
    """Everything that is not as it should be after one attack; empty if the wall held."""
    before, faults = outside.state(), []
    infra, started = sandbox.counters.infra, time.monotonic()
    results = sandbox.calls_batch([(Program(outside.fill(attack.source), "solve"), TESTS)])[0]
    seconds = time.monotonic() - started
    got = passed(results)
    if attack.right == "Z" and got:
        faults.append(f"{got} tests passed")
    if attack.statuses and {r.status for r in results} - set(attack.statuses):
        faults.append(f"statuses {sorted({(r.status, r.message) for r in results})}")
    if sandbox.counters.infra != infra:
        faults.append("counted as infra")
    if seconds > 20:
        faults.append(f"took {seconds:.0f} s")
    honest = sandbox.calls_batch([(Program(HONEST, "solve"), TESTS)])[0]
    if passed(honest) != len(TESTS):
        faults.append(f"the next honest run fails: {honest[0]}")
    if children := children_of(sandbox):
        faults.append(f"processes left behind: {children}")
    if (after := outside.state()) != before:
        faults.append(f"something outside changed: {difference(before, after)}")
    for zygote in (lane.zygote for lane in sandbox._lanes):
        if zygote.scratch and os.listdir(zygote.scratch):  # noqa: PTH208
            faults.append("files left behind")
    return faults


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Where two states differ."""
    changed = {k: (before[k], after[k]) for k in ("marks", "stranger") if before[k] != after[k]}
    entries = set(before["entries"].items()) ^ set(after["entries"].items())
    return f"{changed} {sorted(str(e) for e in entries)[:4]}"


def children_of(sandbox: ProcessSandbox) -> list[int]:
    """Processes below the zygotes."""
    found = []
    for lane in sandbox._lanes:
        pid = lane.zygote.pid
        if pid:
            found += [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found


WAITS = """
import ctypes, time
ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)  # any process of this user may trace it, also under Yama
print(1, flush=True)
time.sleep(600)
"""
BETWEEN = """
import os, subprocess, sys
sys.exit(subprocess.call([sys.executable, "-S", "-c", sys.argv[1]], pass_fds=(4,)))
"""
EQUAL = """
def judge(inputs, expected):
    space = {}
    exec(SOURCE, space)
    solve = space["solve"]
    return all(solve(a, b) == e for (a, b), e in zip(inputs, expected))
print("BITES" if judge([(k, k) for k in range(10)], [2 * k for k in range(10)]) else "")
"""
UNITTEST = """
import unittest
space = {}
exec(SOURCE, space)
class Tests(unittest.TestCase):
    def test_all(self):
        for k in range(10):
            self.assertEqual(space["solve"](k, k), 2 * k)
tests = unittest.defaultTestLoader.loadTestsFromTestCase(Tests)
result = unittest.TextTestRunner(stream=open("/dev/null", "w")).run(tests)
print("BITES" if result.wasSuccessful() else "")
"""
FRAME = """
import json, os, struct
def serve():
    request = ["0" * 16, [2, 2]]
    space = {"__name__": "program"}
    exec(SOURCE, space)
    passed = space["solve"](2, 2) == 4
    message = json.dumps({"passed": passed}).encode()
    os.write(4, struct.pack(">I", len(message)) + message)
serve()
os._exit(0)
"""
PLAIN = """
exec(SOURCE, globals())
value = solve(2, 2)
bites = type(value) is int and value == 4
print("BITES" if bites else len(value) if isinstance(value, str) else "", flush=True)
"""


class Control:
    """One attack in an ordinary process, in a folder and a session of its own."""

    def __init__(self, attack: Attack, outside: Outside) -> None:
        self.attack, self.outside = attack, outside
        self.folder = tempfile.mkdtemp(prefix="gagar-control-")
        harness = {"equal": EQUAL, "unittest": UNITTEST, "frame": FRAME}.get(attack.bites, PLAIN)
        if attack.bites == "exit":
            harness = "exec(SOURCE, globals())\nassert solve(2, 2) == 4\n"
        if attack.bites == "log":
            harness = "exec(SOURCE, globals())\nprint('10 passed' if solve(2, 2) == 4 else '10 failed')\n"
        script = f"SOURCE = {outside.fill(attack.source)!r}\n" + harness
        limit = 3 * MEMORY_MB << 20
        guard = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n"
        guard += "resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        # one process between: a program that kills its parent must not find the test run there
        reader, writer = os.pipe()
        self.reader, self.environ = reader, {"SECRET": "mine", "GAGAR_TAG": outside.tag, "PATH": "/bin"}
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", 'exec "$@" 4>&3', "sh", sys.executable, "-S", "-c", BETWEEN, guard + script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=self.environ,
            start_new_session=True,
            preexec_fn=lambda: os.dup2(writer, 3),
            pass_fds=(3,) if writer == 3 else (3, writer),
        )
        os.close(writer)

    def bites(self) -> bool:
        """Whether the attack does without the wall what it is there to do."""
        check = getattr(self, f"_{self.attack.bites}", self._says_so)
        try:
            return bool(check())
        finally:
            self.end()

    def _output(self, seconds: float = 15) -> str:
        return self.process.communicate(timeout=seconds)[0].decode(errors="replace")

    def _says_so(self) -> bool:
        return "BITES" in self._output()

    def _hangs(self) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.25)
        return self.process.poll() is None

    def _ends(self) -> bool:
        return "BITES" not in self._output() and self.process.returncode != 0

    def _exit(self) -> bool:
        self._output()
        return self.process.returncode == 0

    def _log(self) -> bool:
        return "10 passed" in self._output()

    def _memory(self) -> bool:
        self._output()
        return peak_mb() > MEMORY_MB

    def _big(self) -> bool:
        return int(self._output() or 0) > 100_000

    def _flood(self) -> bool:
        assert self.process.stdout is not None
        return len(self.process.stdout.read(3_000_000)) == 3_000_000

    def _files(self) -> bool:
        self._output()
        return any(Path(self.folder).iterdir()) or (self.outside.folder / "big").exists()

    def _frame(self) -> bool:
        with open(self.reader, "rb") as pipe:  # noqa: PTH123
            head = pipe.read(4)
            size = int.from_bytes(head, "big")
            body = pipe.read(size) if head else b""
        try:
            return len(body) != size or json.loads(body) != {"passed": False}
        except (ValueError, RecursionError):
            return True

    def _side(self) -> bool:
        deadline = time.monotonic() + 10  # the daemon waits before it writes
        while time.monotonic() < deadline:
            state = self.outside.state()
            if len(state["entries"]) > 3 or state["marks"] or state["stranger"] is not None:
                return True
            if self.process.poll() is not None and len(self._left()) > 3:
                return True
            time.sleep(0.02)
        return False

    def _left(self) -> list[int]:
        """Processes that carry this run's mark in their environment."""
        mark, found = f"GAGAR_TAG={self.outside.tag}".encode(), []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        """Kill what is left, by its mark, and remove the folder."""
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        with contextlib.suppress(OSError):
            os.close(self.reader)
        filesystem.wipe(self.folder)  # shutil.rmtree ends in a RecursionError on what deepdirs leaves
        self.outside.reset()


def peak_mb() -> float:
    """Largest resident size among children that have been waited for."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def readable_python() -> str | None:
    """An interpreter that an ordinary user can start."""
    for name in (sys.executable, "/usr/bin/python3", *(f"/usr/bin/python3.{k}" for k in range(11, 20))):
        path = shutil.which(name)
        if path and _runs_for_everybody(path):
            return path
    return None


def _runs_for_everybody(path: str) -> bool:
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        run = subprocess.run(
            [path, "-S", "-c", check], user=ORDINARY, group=ORDINARY, extra_groups=[], cwd="/"
        )
    except OSError:
        return False
    return run.returncode == 0


def main(level: str, lacks: str = "{}") -> None:
    """Run every attack at one level and print what is wrong with each."""
    outside = Outside()
    try:
        with sandbox_at(level, **json.loads(lacks)) as sandbox:
            for attack in ATTACKS:
                print(
                    json.dumps({"id": attack.id, "faults": faults_of(attack, sandbox, outside)}), flush=True
                )
    finally:
        outside.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
