"""The trusted end of one child's two pipes, with the clocks that bound how long an answer may take."""

# ruff: noqa: PTH123
from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any

from gagar_core.sandbox import wire
from gagar_core.sandbox.scheduling import Task

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


def is_runnable(pid: int) -> bool:
    """Whether a process wants the CPU (and, if it does not get it, only the machine is to blame)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"R", b"D")
    except OSError:
        return False


class Channel:
    """Frames to and from a child. The reading side trusts nothing it reads."""

    def __init__(self, requests: int, answers: int, frame_limit: int) -> None:
        self.requests, self.answers = requests, answers
        self.frame_limit = frame_limit
        self.pid = 0
        self.overfull: Callable[[], bool] = _never
        """Whether the program has written more files than it may, where the kernel does not see to that."""
        self._buffer = bytearray()
        os.set_blocking(requests, False)
        os.set_blocking(answers, False)

    def send(self, message: Any) -> Task[None]:
        """Write one frame. A child that does not read it is stopped like one that does not answer."""
        view = memoryview(wire.frame(wire.dump(message)))
        cpu_limit, wall_limit = cpu_clock(self.pid) + _SEND_S, time.monotonic() + _SEND_S
        while view:
            try:
                view = view[os.write(self.requests, view) :]
            except BlockingIOError:
                is_ready = yield self.requests, select.POLLOUT
                if not is_ready:
                    self._check_clocks(cpu_limit, wall_limit)
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
        cpu_limit = cpu_clock(self.pid) + cpu_s
        wall_limit = time.monotonic() + wall_s
        while (payload := self._taken()) is None:
            is_ready = yield self.answers, select.POLLIN
            if not is_ready:
                self._check_clocks(cpu_limit, wall_limit)
                continue
            try:
                part = os.read(self.answers, _CHUNK)
            except BlockingIOError:
                continue
            if not part:
                raise StoppedError("ended")
            self._buffer += part
        try:
            return wire.load(payload)
        except wire.WireError as fault:
            raise StoppedError("violation", str(fault)) from None

    def _check_clocks(self, cpu_limit: float, wall_limit: float) -> None:
        if cpu_clock(self.pid) > cpu_limit:
            raise StoppedError("cpu")
        if self.overfull():
            raise StoppedError("files")
        if time.monotonic() > wall_limit and not is_runnable(self.pid):
            raise StoppedError("wall")

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
