"""The trusted end of one worker process: start it, send a batch, watch it, end it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gagar_core.errors import SandboxError
from gagar_core.sandbox import wire
from gagar_core.sandbox.settings import SandboxSettings

_BOOT = Path(__file__).with_name("boot.py")
_POLL_S = 0.05
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
"""All that a worker inherits. A fixed hash seed gives sets one order in every worker."""


class StalledError(Exception):
    """The worker used its CPU or wall limit without an answer; it has been killed."""


class DiedError(Exception):
    """The worker ended, or broke the protocol; it has been killed."""


class WorkerProcess:
    """One worker, restarted on demand. ``-I`` would ignore the hash seed; ``-s -P`` and the environment above
    isolate as well."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = bytearray()
        self._spent_cpu_s = 0.0
        self.starts = 0

    def start(self) -> None:
        """Start the worker unless it runs."""
        if self._process is not None:
            return
        limits = {name: getattr(self._settings, name) for name in ("fuel", "memory_mb", "output_bytes")}
        command = [sys.executable, "-s", "-S", "-P", "-B", str(_BOOT), "worker", json.dumps(limits)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as fault:
            raise SandboxError(f"cannot start a worker with {sys.executable}: {fault}") from fault
        self._buffer.clear()
        self.starts += 1

    @property
    def cpu_s(self) -> float:
        """CPU seconds of this worker and of those that ran here before it."""
        return self._spent_cpu_s + self._running_cpu_s()

    def _running_cpu_s(self) -> float:
        if self._process is None:
            return 0.0
        try:
            return time.clock_gettime((~self._process.pid << 3) | 2)  # the CPU clock of another process
        except OSError:
            return 0.0

    def send(self, batch: list[Any]) -> None:
        """Hand over a batch of ``[source, entry point, [arguments, ...]]``."""
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        view = memoryview(wire.frame(wire.dump(batch)))
        try:
            while view:
                view = view[os.write(self._process.stdin.fileno(), view) :]
        except OSError as fault:
            self.kill()
            raise DiedError(str(fault)) from fault

    def receive(self) -> Any:
        """The next program's outcomes; raises ``StalledError`` or ``DiedError``."""
        size = self._take_frame_size()
        cpu_limit, wall_limit = (
            self._running_cpu_s() + self._settings.cpu_s,
            time.monotonic() + self._settings.wall_s,
        )
        while size is None or len(self._buffer) < wire.HEADER_BYTES + size:
            if not self._fill():
                if self._running_cpu_s() > cpu_limit or time.monotonic() > wall_limit:
                    self.kill()
                    raise StalledError
                continue
            size = self._take_frame_size()
        end = wire.HEADER_BYTES + size
        payload = bytes(self._buffer[wire.HEADER_BYTES : end])
        del self._buffer[:end]
        return self._parsed(payload)

    def _take_frame_size(self) -> int | None:
        if len(self._buffer) < wire.HEADER_BYTES:
            return None
        return wire.frame_length(bytes(self._buffer[: wire.HEADER_BYTES]))

    def _fill(self) -> bool:
        """Read what has arrived; False if nothing did for a moment."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(_POLL_S * 1000):
            return False
        part = os.read(descriptor, 1 << 20)
        if not part:
            self.kill()
            raise DiedError("the worker ended")
        self._buffer += part
        return True

    def _parsed(self, payload: bytes) -> Any:
        try:
            return wire.load(payload)
        except wire.WireError as fault:
            self.kill()
            raise DiedError(str(fault)) from fault

    def kill(self) -> None:
        """End the worker and reap it; the next ``send`` starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        os.kill(process.pid, signal.SIGKILL)  # Popen.kill might reap it first, and the usage would be lost
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = -9
        self._spent_cpu_s += usage.ru_utime + usage.ru_stime
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
