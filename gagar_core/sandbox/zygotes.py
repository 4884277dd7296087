"""The trusted end of one zygote: start it, have it make children, have it end them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from gagar_core.errors import SandboxError
from gagar_core.sandbox import filesystem, wire
from gagar_core.sandbox.channel import Channel, StoppedError, cpu_clock, cpu_left_behind
from gagar_core.sandbox.scheduling import Task
from gagar_core.sandbox.settings import SandboxSettings

_BOOT = Path(__file__).with_name("boot.py")
_NUMBERS = itertools.count()
_START_S, _ANSWER_S = 60.0, 60.0
_SHARED_FRAME = 1 << 30
"""Frames of a shared child carry many calls; the code that writes them is ours."""
_NODES = {"shared": _SHARED_FRAME, "repository": 500_000, "judge": 500_000}
"""Elements in one frame where it is not one answer of a program: of a shared child that of many answers, of a
repository the reports of all tests, of a judge the arguments of a call."""
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
"""All that a candidate finds. A fixed hash seed gives sets one order in every child; ``python -I`` would
ignore it, so the zygote is started with the flags that isolate without doing so."""


class ZygoteLostError(Exception):
    """The zygote ended, or did not answer; whatever ran under it is gone."""


class LevelError(Exception):
    """The machine does not offer this isolation level; says why."""


class Zygote:
    """One warm interpreter at one level; started on demand, replaced after many children or a surprise."""

    def __init__(self, settings: SandboxSettings, level: str) -> None:
        self._settings, self.level = settings, level
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._spent_cpu_s = 0.0
        self._live: dict[int, Channel] = {}
        self.scratch = ""
        self.made = 0
        self.starts = 0

    @property
    def running(self) -> bool:
        """Whether there is a process to ask."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Process id, 0 if it does not run."""
        return self._process.pid if self._process else 0

    @property
    def cpu_s(self) -> float:
        """CPU seconds of zygote and children, ended ones and those at work."""
        if self._owner != os.getpid():
            return 0.0
        running = cpu_clock(self._process.pid) if self._process else 0.0
        return self._spent_cpu_s + running + sum(cpu_clock(pid) for pid in self._live)

    def start(self) -> None:
        """Start the zygote unless it runs. Raises ``LevelError`` with the machine's reason."""
        if self._owner != os.getpid():
            self._abandon()
        if self._process is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        python = getattr(sys, "_base_executable", None) or sys.executable
        command = [python, "-s", "-S", "-P", "-B", str(_BOOT), "zygote", json.dumps(self._told())]
        try:
            with theirs:
                self._process = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as fault:
            ours.close()
            raise SandboxError(f"cannot start a sandbox process with {python}: {fault}") from fault
        self._socket, self.made = ours, 0
        self.starts += 1
        filesystem.sweep()
        try:
            hello = self._answer_within(_START_S)
        except ZygoteLostError as fault:
            raise LevelError(str(fault)) from None
        if "fault" in hello:
            self.stop()
            raise LevelError(hello["fault"])
        self.scratch = hello["scratch"]

    def ensure(self) -> None:
        """Start the zygote unless it runs; a machine that no longer lets it is a lost zygote."""
        try:
            self.start()
        except LevelError as fault:
            raise ZygoteLostError(str(fault)) from None

    def _told(self) -> dict[str, Any]:
        names = (
            *("fuel", "memory_mb", "output_bytes", "file_bytes", "workspace_mb", "workspace_files"),
            *("processes", "descriptors"),
        )
        told: dict[str, Any] = {name: getattr(self._settings, name) for name in names}
        number = next(_NUMBERS) % 256
        unique = 1_000_000_000 + os.getpid() * 256 + number  # nobody's, and no other sandbox's either
        told.update(level=self.level, uids=[unique, 61_000 + number, 65_534])
        # the kernel ties a process to the thread that started it: one that may end must not take it along
        told.update(tied=threading.current_thread() is threading.main_thread())
        told.update(imports=self._settings.imports, paths=self._settings.paths, readable=self._settings.paths)
        told.update(self._settings.pretend)
        return told

    def _answer_within(self, seconds: float) -> dict[str, Any]:
        assert self._socket is not None
        self._socket.settimeout(seconds)
        try:
            return self._parsed(self._socket.recv(4096))
        except OSError as fault:
            self.stop()
            raise ZygoteLostError(f"the zygote did not answer: {fault}") from None

    def _parsed(self, data: bytes) -> dict[str, Any]:
        if not data:
            self.stop()
            raise ZygoteLostError("the zygote ended")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _ask(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> Task[dict[str, Any]]:
        assert self._socket is not None
        try:
            socket.send_fds(self._socket, [json.dumps(message).encode()], list(descriptors))
            deadline = time.monotonic() + _ANSWER_S
            while time.monotonic() < deadline:
                is_ready = yield self._socket.fileno(), select.POLLIN
                if self._socket is None:
                    raise ZygoteLostError("the zygote was stopped")
                if is_ready:
                    return self._parsed(self._socket.recv(4096))
            raise TimeoutError(f"no answer for {_ANSWER_S:.0f} s")
        except OSError as fault:
            self.stop()
            raise ZygoteLostError(f"the zygote is gone: {fault}") from None

    def spawn(self, mode: str, archive: int | None = None) -> Task[Channel]:
        """Make a child; its first frame (sealed or not) is still to be read by ``greet``.

        ``archive`` is a descriptor that the child finds as its third.
        """
        extra = () if archive is None else (archive,)
        theirs_in, requests = os.pipe()
        answers, theirs_out = os.pipe()
        frame_limit = _SHARED_FRAME if mode == "shared" else self._settings.frame_bytes
        channel = Channel(requests, answers, frame_limit, _NODES.get(mode, wire.MAX_NODES + 100))
        try:
            answer = yield from self._ask({"spawn": mode}, (theirs_in, theirs_out, *extra))
            if "fault" in answer:
                raise ZygoteLostError(answer["fault"])
        except BaseException:
            channel.close()
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        channel.pid = answer["pid"]
        if self.scratch:
            channel.overfull = self._quota().exceeded
        self._live[channel.pid] = channel
        self.made += 1
        return channel

    def _quota(self) -> filesystem.Quota:
        settings = self._settings
        return filesystem.Quota(self.scratch, settings.workspace_mb << 20, settings.workspace_files)

    def greet(self, channel: Channel) -> Task[None]:
        """Read the child's word that it is sealed; it has not yet read a byte of untrusted code."""
        try:
            hello = yield from channel.receive(_ANSWER_S, _ANSWER_S)
        except StoppedError as stop:
            raise ZygoteLostError(f"a child was not sealed: {stop.reason}") from None
        if hello != ["ready"]:
            raise ZygoteLostError(f"a child was not sealed: {hello!r:.200}")

    def end(self, channel: Channel) -> Task[dict[str, Any]]:
        """Kill a child and all that it started; returns its exit status and use of resources."""
        if self._live.pop(channel.pid, None) is None:
            return {"status": -1, "cpu_s": 0.0, "rss_kb": 0}
        channel.close()
        left_behind = cpu_left_behind(channel.pid)
        usage = yield from self._ask({"end": channel.pid})
        self._spent_cpu_s += usage["cpu_s"] + left_behind
        if usage.get("fault"):
            self.stop()
        return usage

    def stranger(self) -> Task[int]:
        """Start an idle process beside the children, for the self-test."""
        answer = yield from self._ask({"stranger": 0})
        return int(answer["pid"])

    def owns(self, channel: Channel | None) -> bool:
        """Whether ``channel`` leads to a living child of this zygote as it runs now."""
        return channel is not None and self._live.get(channel.pid) is channel and self._owner == os.getpid()

    def _abandon(self) -> None:
        """This process was forked: zygote and children are the parent's; only the copies of their ends go."""
        self._owner, self._process, self._spent_cpu_s, self.scratch = os.getpid(), None, 0.0, ""
        for channel in self._live.values():
            channel.close()
        self._live.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def stop(self) -> None:
        """End the zygote and everything under it; the next ``start`` makes a new one."""
        if self._owner != os.getpid():
            self._abandon()
        process, self._process = self._process, None
        if process is None:
            return
        for pid in (
            *self._live,
            process.pid,
        ):  # children first: they are not reaped before their parent is gone
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = -9
        self._spent_cpu_s += usage.ru_utime + usage.ru_stime
        for channel in self._live.values():
            channel.close()
        self._live.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.scratch:
            with contextlib.suppress(FileNotFoundError):
                filesystem.wipe(self.scratch)
            self.scratch = ""
