"""The trusted end of one child's two pipes, with the clocks that bound how long an answer may take."""

# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from gagar_core.sandbox import wire
from gagar_core.sandbox.scheduling import TICK_S, Task

_CHUNK = 1 << 20
_SEND_S = 10.0


class StoppedError(Exception):
    """A child gave no usable answer; says why. The child is of no further use."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        """cpu, wall, files, ended, or violation."""
        self.detail = detail


def _never() -> bool:
    return False


def cpu_clock(pid: int) -> float:
    """CPU seconds of another process so far; 0 if it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def cpu_left_behind(pid: int) -> float:
    """CPU seconds of all living descendants; the kernel counts those that nobody waited for nowhere."""
    total, pending = 0.0, [pid]
    while pending:
        parent = pending.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:
                    found = [int(child) for child in file.read().split()]
                total += sum(cpu_clock(child) for child in found)
                pending += found
        except OSError:
            continue  # ended meanwhile, or not to be looked at
    return total


def is_runnable(pid: int) -> bool:
    """Whether a process wants the CPU (and, if it does not get it, only the machine is to blame).

    Not "D": a process is free to sleep there for as long as it likes, waiting for its own ``vfork``.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"R"
    except OSError:
        return False


def is_alone(pid: int) -> bool:
    """Whether a process has one thread and no child; one that cannot be looked at has some."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return not file.read(1) and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return False


class _Clocks:
    """What one answer may cost. Looked at every now and then whether or not bytes come: a child that sends
    them one by one must not keep its reader from looking."""

    def __init__(self, channel: Channel, cpu_s: float, wall_s: float) -> None:
        self._channel = channel
        self._next = time.monotonic() + TICK_S
        self._cpu_limit, self._wall_limit = cpu_clock(channel.pid) + cpu_s, time.monotonic() + wall_s

    def check(self) -> None:
        """Raise ``StoppedError`` if a limit is passed."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + TICK_S
        if cpu_clock(self._channel.pid) > self._cpu_limit:
            raise StoppedError("cpu")
        if self._channel.overfull():
            raise StoppedError("files")
        if now > self._wall_limit and not is_runnable(self._channel.pid):
            raise StoppedError("wall")


class Channel:
    """Frames to and from a child. The reading side trusts nothing it reads."""

    def __init__(self, requests: int, answers: int, frame_limit: int, node_limit: int) -> None:
        self.requests, self.answers = requests, answers
        self.frame_limit, self.node_limit = frame_limit, node_limit
        self.pid = 0
        self.overfull: Callable[[], bool] = _never
        """Whether the program has written more files than it may, where the kernel does not see to that."""
        self._buffer = bytearray()
        self._is_frozen = False
        os.set_blocking(requests, False)
        os.set_blocking(answers, False)

    def send(self, message: Any) -> Task[None]:
        """Write one frame. A child that does not read it is stopped like one that does not answer."""
        view = memoryview(wire.frame(wire.dump(message)))
        clocks = _Clocks(self, _SEND_S, _SEND_S)
        while view:
            try:
                view = view[os.write(self.requests, view) :]
            except BlockingIOError:
                yield self.requests, select.POLLOUT
                clocks.check()
            except OSError:
                raise StoppedError("ended") from None

    def freeze(self) -> bool:
        """Stop the child until ``thaw``; False if something of it could go on or stay in the way of others.

        A stopped process cannot use CPU or write files; its threads still count against the limit that all
        programs share, and its children run on, so a child that has either is to be ended instead.
        """
        try:
            os.kill(self.pid, signal.SIGSTOP)
        except OSError:
            return False
        self._is_frozen = True
        return is_alone(self.pid) and not self.overfull()

    def thaw(self) -> None:
        """Let a stopped child go on."""
        if self._is_frozen:
            self._is_frozen = False
            try:
                os.kill(self.pid, signal.SIGCONT)
            except OSError:
                raise StoppedError("ended") from None

    def is_quiet(self) -> bool:
        """Whether nothing has arrived that nobody asked for."""
        if self._buffer:
            return False
        try:
            self._buffer += os.read(self.answers, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return True
        return not self._buffer

    def receive(self, cpu_s: float, wall_s: float) -> Task[Any]:
        """The next frame, parsed. ``wall_s`` counts only while the child does not want the CPU."""
        clocks = _Clocks(self, cpu_s, wall_s)
        while (payload := self._taken()) is None:
            is_ready = yield self.answers, select.POLLIN
            clocks.check()
            if not is_ready:
                continue
            try:
                part = os.read(self.answers, _CHUNK)
            except BlockingIOError:
                continue
            if not part:
                raise StoppedError("ended")
            self._buffer += part
        try:
            wire.check_nodes(payload, self.node_limit)
            return wire.load(payload)
        except wire.TooManyNodesError:
            raise StoppedError("violation", "more elements than an answer may have") from None
        except wire.WireError as fault:
            raise StoppedError("violation", str(fault)) from None

    def _taken(self) -> bytes | None:
        """Cut one whole frame off what has arrived."""
        if len(self._buffer) < wire.HEADER_BYTES:
            return None
        size = wire.frame_length(bytes(self._buffer[: wire.HEADER_BYTES]))
        if size > self.frame_limit:
            raise StoppedError("violation", "frame too big")
        end = wire.HEADER_BYTES + size
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[wire.HEADER_BYTES : end])
        del self._buffer[:end]
        return payload

    def close(self) -> None:
        """Close both ends."""
        os.close(self.requests)
        os.close(self.answers)
