"""The self-test: small attacks that must fail inside, and succeed outside.

A probe that fails inside proves nothing by itself: it may be broken. So each one also runs in a child without
the wall, where it has to bite; one that does not counts as failed.
"""

# ruff: noqa: PTH101, PTH112, PTH116, PTH118, PTH123
from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gagar_core.sandbox.channel import StoppedError
from gagar_core.sandbox.isolated import Isolated
from gagar_core.sandbox.scheduling import Task, run_together
from gagar_core.sandbox.settings import SandboxSettings
from gagar_core.sandbox.zygotes import Zygote, ZygoteLostError
from gagar_core.types import Program

HONEST = (
    "import bisect, ctypes, decimal, json, random\ndef f(a, b):\n    return int(decimal.Decimal(a) + b)\n"
)
"""Must work inside: a wall that breaks imports is no use."""

PROBES: dict[str, str] = {
    "read file": """
        return open(target["file"]).read() == target["secret"]""",
    "write file": """
        import os
        open(target["folder"] + "/%d" % os.getpid(), "w").write("x")
        return True""",
    "tcp connect": """
        import socket
        return socket.create_connection(("127.0.0.1", target["port"]), 1) is not None""",
    "abstract socket": """
        import socket
        return socket.socket(socket.AF_UNIX).connect(target["abstract"]) is None""",
    "signal a stranger": """
        import os, signal
        return os.kill(target["pid"], signal.SIGCONT) is None""",
    "proc of a stranger": """
        return len(open("/proc/%d/environ" % target["pid"]).read()) > 0""",
    "many forks": """
        import os, time
        made = []
        try:
            for i in range(target["forks"]):
                made.append(os.fork())
                if made[-1] == 0:
                    time.sleep(5)
                    os._exit(0)
        finally:
            for pid in made:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
        return len(made) == target["forks"]""",
    "twice the memory": """
        import mmap
        return len(mmap.mmap(-1, target["bytes"])) > 0""",
    "ptrace": """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long] * 4
        attached = libc.ptrace(16, target["pid"], 0, 0) == 0
        if attached:
            os.waitpid(target["pid"], 0x40000000)
            libc.ptrace(17, target["pid"], 0, 0)
        return attached""",
}
_FRAME = (
    "def f(target):\n    try:\n        pass{body}\n    except (OSError, MemoryError):\n        return False\n"
)
_PREFIX = "gagar-probe-"
_STALE_S = 3600.0
PROBE_SET = hashlib.sha256(repr(sorted(PROBES.items())).encode()).hexdigest()[:12]
"""Names this set of probes in records."""


@dataclass(slots=True)
class Outcome:
    """What the probes showed at one level."""

    blocked: dict[str, bool]
    bites: dict[str, bool]
    works: bool

    @property
    def faults(self) -> list[str]:
        """Why this level cannot be trusted; empty if it can."""
        open_ways = [f"{name} succeeded" for name, blocked in self.blocked.items() if not blocked]
        vacuous = [
            f"{name} proves nothing here: it fails outside as well" for name, b in self.bites.items() if not b
        ]
        return open_ways + vacuous + ([] if self.works else ["an honest program fails"])


def run_probes(zygote: Zygote, control: Zygote, settings: SandboxSettings) -> Outcome:
    """Run every probe under ``zygote`` and, as its control, under ``control`` (level ``rlimits``).

    Raises ``LevelError`` if either cannot be started.
    """
    control.start()
    zygote.start()
    outcome = Outcome({}, {}, False)
    with _targets(control, settings) as target:
        run_together([_probe_all(zygote, control, target, settings, outcome)])
    return outcome


def _probe_all(
    zygote: Zygote, control: Zygote, target: dict[str, Any], settings: SandboxSettings, outcome: Outcome
) -> Task[None]:
    target["pid"] = yield from control.stranger()
    for name, body in PROBES.items():
        program = Program(_FRAME.format(body=body), "f")
        outcome.blocked[name] = (yield from _result(zygote, program, [_as_dict(target)], settings)) is False
        outcome.bites[name] = (yield from _result(control, program, [_as_dict(target)], settings)) is True
    honest = Program(HONEST, "f")
    outcome.works = (yield from _result(zygote, honest, [20, 22], settings)) == 42


def _result(zygote: Zygote, program: Program, arguments: list[Any], settings: SandboxSettings) -> Task[Any]:
    child = Isolated(zygote, program, "calls", settings)
    try:
        result = yield from child.ask(arguments)
    except StoppedError as stop:
        return stop.reason
    finally:
        with contextlib.suppress(ZygoteLostError):
            yield from child.close()
    return result.value if result.status == "ok" else False


def _as_dict(target: dict[str, Any]) -> dict[str, Any]:
    return {"d": [[key, value] for key, value in target.items()]}  # wire form


@contextlib.contextmanager
def _targets(control: Zygote, settings: SandboxSettings) -> Iterator[dict[str, Any]]:
    """Things outside that a confined program must not reach, open to everybody else."""
    common = _common_folder()
    sweep(common)
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=common)
    secret = secrets.token_hex(8)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o777)
        file = os.path.join(folder, "secret")
        with open(file, "w") as handle:
            handle.write(secret)
        os.chmod(file, 0o644)
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0gagar-probe-{secret}")
        abstract.listen(4)
        yield {
            "file": file,
            "folder": folder,
            "secret": secret,
            "port": server.getsockname()[1],
            "abstract": f"\0gagar-probe-{secret}",
            "bytes": settings.memory_mb << 21,
            "forks": settings.processes + 50,
            "pid": 0,
        }


def sweep(common: str) -> None:
    """Remove what self-tests left that were killed: folders of this user, older than any self-test lasts."""
    for entry in os.scandir(common):
        if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):  # another process sweeps as well
                state = entry.stat(follow_symlinks=False)
                if state.st_uid == os.geteuid() and time.time() - state.st_mtime > _STALE_S:
                    shutil.rmtree(entry.path, ignore_errors=True)


def _common_folder() -> str:
    """A place that every user id can reach, so that only the wall can be what blocks."""
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        if (
            os.path.isdir(folder)
            and os.stat(folder).st_mode & 0o1007 == 0o1007
            and os.access(folder, os.W_OK)
        ):
            return folder
    return tempfile.gettempdir()
