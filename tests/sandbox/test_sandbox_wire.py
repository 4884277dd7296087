"""Values cross by exact type, and hostile bytes are refused before they cost anything."""

from __future__ import annotations

import enum
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_core.sandbox import wire
from gagar_core.sandbox.runner import _weight

hashable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.tuples(inner, inner),
    max_leaves=4,
)
values = st.recursive(
    hashable | st.sets(hashable, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner) | st.dictionaries(hashable, inner, max_size=4)
    ),
    max_leaves=20,
)


def typed(value: Any) -> Any:
    """A form in which 1, 1.0 and True, or 0.0 and -0.0, differ."""
    if isinstance(value, list | tuple):
        return [type(value).__name__, *[typed(v) for v in value]]
    if isinstance(value, dict):
        return ["dict", sorted((repr(typed(k)), repr(typed(v))) for k, v in value.items())]
    if isinstance(value, set):
        return ["set", sorted(repr(typed(v)) for v in value)]
    return [type(value).__name__, repr(value)]


@given(values)
def test_round_trip_keeps_value_and_exact_types(value: Any) -> None:
    assert typed(wire.decode(wire.load(wire.dump(wire.encode(value))))) == typed(value)


@pytest.mark.parametrize(
    "value", ["\ud800", math.inf, -math.inf, -0.0, 1 << 100_000, -(1 << 50_000), "\0"], ids=range(7)
)
def test_odd_values_round_trip(value: Any) -> None:
    back = wire.decode(wire.load(wire.dump(wire.encode(value))))
    assert back == value
    assert type(back) is type(value)


class Whole(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value", [Whole(3), [Whole(3)], Colour.RED, b"x", frozenset(), 1j, object(), {1: Whole(2)}]
)
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(wire.UnsupportedTypeError):
        wire.encode(value)


def test_depth_is_bounded_both_ways() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(wire.TooDeepError):
        wire.encode(deep)
    with pytest.raises(wire.WireError):
        wire.decode(deep)


HOSTILE = [
    b"[" * 900_000,
    b"9" * 900_000,
    b'{"k":' + b"9" * 900_000 + b"}",
    b"\xff\xfe",
    b"",
    b'{"x":1}',
    b'{"t":1}',
    b'{"t":[],"s":[]}',
    b"{}",
    b'{"i":"zz"}',
    b'{"s":[[1]]}',
    b'{"d":[[1]]}',
    b'{"d":[[[1],1]]}',
]


@pytest.mark.parametrize("payload", HOSTILE, ids=range(len(HOSTILE)))
def test_malformed_bytes_are_wire_errors(payload: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(wire.load(payload))


@pytest.mark.parametrize("tag", ["s", "d"])
def test_elements_made_to_collide_are_refused(tag: str) -> None:
    modulus = (1 << 61) - 1  # equal hashes for all multiples
    items: list[Any] = [1 + k * modulus for k in range(50_000)]
    body = items if tag == "s" else [[item, 0] for item in items]
    with pytest.raises(wire.WireError, match="colliding"):
        wire.decode({tag: body})
    assert wire.decode({"s": items[:3]}) == set(items[:3])


def test_frames_carry_their_length() -> None:
    framed = wire.frame(b"abc")
    assert wire.frame_length(framed[: wire.HEADER_BYTES]) == 3
    assert framed[wire.HEADER_BYTES :] == b"abc"
    assert json.loads(wire.dump([1.5, "é"])) == [1.5, "é"]


@pytest.mark.parametrize(
    ("text", "count"), [("[1,2]", 2), ('"a,[{\\",["', 0), ('["\\\\",{"t":[]}]', 4), ("[[],[]]", 4)]
)
def test_elements_are_counted_outside_strings_before_parsing(text: str, count: int) -> None:
    wire.check_nodes(text.encode(), count)
    if count:
        with pytest.raises(wire.TooManyNodesError):
            wire.check_nodes(text.encode(), count - 1)


@given(values)
def test_a_payload_never_counts_more_than_its_value(value: Any) -> None:
    wire.check_nodes(wire.dump(wire.encode(value)), _weight(value, 10**9)[1])
