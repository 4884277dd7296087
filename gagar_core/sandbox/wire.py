"""How values cross the process border: length-prefixed frames of tagged JSON, never pickle.

Numbers, strings, booleans, None and lists are plain JSON. The other builtin types are objects with one tag:
``{"t": [...]}`` tuple, ``{"s": [...]}`` set, ``{"d": [[key, value], ...]}`` dict, ``{"i": "0x..."}`` an
integer too long for decimal digits. Only exact types pass: a subclass of ``int`` could carry its own
``__eq__``.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any

MAX_DEPTH = 60
"""Containers inside containers; deeper answers are refused."""
MAX_EQUAL_HASHES = 64
"""Set elements or dict keys with one hash value; more would make rebuilding quadratic."""
MAX_NODES = 20_000
"""Elements of one answer, counted over all its containers (one of a dict counts as 3, and a container as 2
more). The child says ``output`` above that, and a frame that has more all the same is a ``violation``: a
megabyte of empty lists would become 24 megabytes of objects in the reader."""
ENVELOPE_BYTES = 1000
"""What may stand around an answer in its frame."""
_LONG_INT_BITS = 10_000
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_HEADER = struct.Struct(">I")
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().decode
HEADER_BYTES = _HEADER.size


class UnsupportedTypeError(TypeError):
    """A value is not built from exact builtin types."""


class TooManyNodesError(ValueError):
    """A message has more elements than its reader wants."""


class WireError(ValueError):
    """Bytes from the other side are not what the protocol allows."""


class TooDeepError(ValueError):
    """A value is nested deeper than ``MAX_DEPTH``."""


def frame(payload: bytes) -> bytes:
    """Put the length in front."""
    return _HEADER.pack(len(payload)) + payload


def frame_length(header: bytes) -> int:
    """Length of the payload that follows this header."""
    return int(_HEADER.unpack(header)[0])


def dump(message: Any) -> bytes:
    """JSON text as ASCII bytes; lone surrogates are escaped, so any ``str`` passes."""
    return _encode(message).encode("ascii")


def encode(value: Any, depth: int = 0) -> Any:
    """Turn a value of exact builtin types into something ``dump`` accepts.

    Raises ``UnsupportedTypeError`` for any other type and ``TooDeepError`` below ``MAX_DEPTH``.
    """
    kind = type(value)
    if kind is int:
        return value if value.bit_length() < _LONG_INT_BITS else {"i": hex(value)}
    if kind is str or kind is bool or value is None or kind is float:
        return value
    if depth > MAX_DEPTH:
        raise TooDeepError
    if kind is list:
        return [encode(item, depth + 1) for item in value]
    if kind is tuple:
        return {"t": [encode(item, depth + 1) for item in value]}
    if kind is dict:
        return {"d": [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]}
    if kind is set:
        return {"s": [encode(item, depth + 1) for item in value]}
    raise UnsupportedTypeError(kind.__name__)


def load(payload: bytes) -> Any:
    """Parse JSON from an untrusted process; ``WireError`` for anything odd."""
    try:
        return _decode(payload.decode("ascii"))
    except (ValueError, RecursionError, MemoryError) as fault:
        raise WireError(f"bad json: {type(fault).__name__}") from None


def check_nodes(payload: bytes, limit: int) -> None:
    """Raise ``TooManyNodesError`` for a payload of more than ``limit`` elements, before it is parsed."""
    if _openers_and_commas(payload) > limit and _openers_and_commas(_STRING.sub(b"", payload)) > limit:
        raise TooManyNodesError


def _openers_and_commas(payload: bytes) -> int:
    return payload.count(b",") + payload.count(b"[") + payload.count(b"{")


def decode(message: Any, depth: int = 0) -> Any:
    """Rebuild the value behind ``encode``; ``WireError`` for anything that ``encode`` cannot have made."""
    kind = type(message)
    if kind is int or kind is str or kind is float or kind is bool or message is None:
        return message
    if depth > MAX_DEPTH:
        raise WireError("nested too deeply")
    if kind is list:
        return [decode(item, depth + 1) for item in message]
    if kind is not dict or len(message) != 1:
        raise WireError("unknown form")
    ((tag, body),) = message.items()
    return _decode_tagged(tag, body, depth + 1)


def _decode_tagged(tag: str, body: Any, depth: int) -> Any:
    if tag == "i" and type(body) is str:
        try:
            return int(body, 16)
        except ValueError:
            raise WireError("bad integer") from None
    if type(body) is not list:
        raise WireError("unknown form")
    if tag == "t":
        return tuple([decode(item, depth) for item in body])
    if tag == "s":
        items = [decode(item, depth) for item in body]
        _check_hashes(items)
        return set(items)
    if tag == "d":
        if not all(type(pair) is list and len(pair) == 2 for pair in body):
            raise WireError("unknown form")
        keys = [decode(pair[0], depth) for pair in body]
        _check_hashes(keys)
        return dict(zip(keys, [decode(pair[1], depth) for pair in body], strict=True))
    raise WireError(f"unknown tag {tag[:20]!r}")


def _check_hashes(items: list[Any]) -> None:
    """Refuse unhashable items, and values chosen to collide, before any table is built."""
    try:
        hashes = sorted([hash(item) for item in items])
    except TypeError:
        raise WireError("unhashable element") from None
    gap = MAX_EQUAL_HASHES
    if any(left == right for left, right in zip(hashes, hashes[gap:], strict=False)):
        raise WireError("colliding elements")
