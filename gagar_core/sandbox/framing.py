"""Blocking frames on plain descriptors: the child's end of its two pipes."""

from __future__ import annotations

import os
from typing import Any

from gagar_core.sandbox import wire


def send(descriptor: int, message: Any) -> None:
    """Write one frame."""
    write(descriptor, wire.frame(wire.dump(message)))


def receive(descriptor: int) -> Any:
    """Read one frame; None at the end of the stream."""
    header = read_exactly(descriptor, wire.HEADER_BYTES)
    return (
        None if header is None else wire.load(read_exactly(descriptor, wire.frame_length(header)) or b"null")
    )


def read_exactly(descriptor: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count > 0:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def write(descriptor: int, payload: bytes | bytearray) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]
