"""A persistent worker: reads a batch of programs, writes one frame per program.

Requests arrive on descriptor 0 and answers leave on descriptor 1, both moved out of the programs' way first.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import time
from typing import Any

from gagar_core.sandbox import wire
from gagar_core.sandbox.runner import Runner

FLUSH_S = 0.005
"""Answers are gathered for this long before they are written: fewer wake-ups of the reader."""
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Serve until the other side closes; the limits are a JSON object in the first argument."""
    limits = json.loads(arguments[0])
    ctypes.PyDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    requests, answers = _private_descriptors()
    memory = limits["memory_mb"] << 20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    runner = Runner(ticks=limits["fuel"], memory_bytes=memory, output_bytes=limits["output_bytes"])
    gc.collect()
    gc.freeze()
    serve(runner, requests, answers)


def _private_descriptors() -> tuple[int, int]:
    requests, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return requests, answers


def serve(runner: Runner, requests: int, answers: int) -> None:
    """Answer batches: a frame ``[[source, entry point, [arguments, ...]], ...]``, then one per program."""
    while True:
        batch = _receive(requests)
        if batch is None:
            return
        waiting, since = bytearray(), time.monotonic()
        for source, entry_point, many in batch:
            waiting += _answer_frame(runner, source, entry_point, many)
            if time.monotonic() - since > FLUSH_S:
                _write(answers, waiting)
                waiting, since = bytearray(), time.monotonic()
        _write(answers, waiting)


def _answer_frame(runner: Runner, source: str, entry_point: str, many: list[Any]) -> bytes:
    try:
        return wire.frame(wire.dump(runner.run(source, entry_point, many)))
    except BaseException as fault:  # no program may end the worker
        return wire.frame(wire.dump([["error", None, type(fault).__name__[:80]]] * len(many)))


def _receive(descriptor: int) -> Any:
    header = _read(descriptor, wire.HEADER_BYTES)
    return None if header is None else json.loads(_read(descriptor, wire.frame_length(header)) or b"[]")


def _read(descriptor: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count > 0:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(descriptor: int, payload: bytearray) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]
