"""Answers that were given before: policies write the same programs over and over."""

from __future__ import annotations

import marshal
import sys
from collections import OrderedDict
from typing import Any

from gagar_core.types import CallResult

SCALARS = (int, str, bool, float, type(None))
"""Types of values that nobody can change, so that they need no copy."""
_ENTRY_BYTES = 300
"""What an entry weighs beside its text, roughly."""

Key = bytes
Name = tuple[str, str, str]
"""Mode, source and entry point of a program."""


def key_of(arguments: Any) -> Key | None:
    """Bytes that tell inputs apart by value and exact type (1, 1.0 and True differ), or None."""
    try:
        return marshal.dumps(arguments, 2)  # version 2: equal values give equal bytes, no back references
    except ValueError:
        return None


class AnswerCache:
    """Least recently used programs with the results of their calls, bounded in bytes.

    Results that hold containers are kept marshalled and rebuilt at each hit, so a caller may change its copy.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._programs: OrderedDict[Name, dict[Key, CallResult | bytes]] = OrderedDict()
        self._sizes: dict[Name, int] = {}

    def find(self, name: Name, keys: list[Key | None]) -> list[CallResult | None]:
        """What is known of these calls, None for the others."""
        known = self._programs.get(name)
        if known is None:
            return [None] * len(keys)
        self._programs.move_to_end(name)
        return [_thawed(known.get(key)) if key is not None else None for key in keys]

    def keep(self, name: Name, key: Key | None, result: CallResult) -> None:
        """Remember one result, forgetting the programs not asked for longest."""
        if key is None or not self.limit_bytes:
            return
        known = self._programs.get(name)
        added = 0
        if known is None:
            known = self._programs[name] = {}
            self._sizes[name] = 0
            added = sum(sys.getsizeof(part) for part in name) + _ENTRY_BYTES
        frozen = _frozen(result)
        text = len(frozen) if isinstance(frozen, bytes) else sys.getsizeof(result.value)
        if key not in known:
            added += len(key) + text + _ENTRY_BYTES
        known[key] = frozen
        self._sizes[name] += added
        self.size_bytes += added
        self._shrink()

    def _shrink(self) -> None:
        while self.size_bytes > self.limit_bytes and self._programs:
            name, _ = self._programs.popitem(last=False)
            self.size_bytes -= self._sizes.pop(name)


def _frozen(result: CallResult) -> CallResult | bytes:
    if type(result.value) in SCALARS:
        return result
    return marshal.dumps((result.status, result.value, result.message), 2)


def _thawed(kept: CallResult | bytes | None) -> CallResult | None:
    return CallResult(*marshal.loads(kept)) if isinstance(kept, bytes) else kept
