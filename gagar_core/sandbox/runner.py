"""Runs one program in this process: metered, with bounded output, answers turned into wire form.

Lives in worker processes only. Each call executes the program's module level afresh, so an answer depends on
source and arguments alone and not on the calls before it.
"""

from __future__ import annotations

import builtins
import sys
from collections import OrderedDict
from types import CodeType
from typing import Any

from gagar_core.sandbox import fuel, wire

Outcome = list[Any]
"""``[status, wire form of the value, message]``."""


class OutputLimitError(BaseException):
    """A call printed more than it may."""


class _Sink:
    """Stands for stdout and stderr: counts and forgets."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.written = 0

    @property
    def full(self) -> bool:
        return self.written > self.limit

    def write(self, text: str) -> int:
        self.written += len(text)
        if self.written > self.limit:
            raise OutputLimitError
        return len(text)

    def flush(self) -> None:
        """Nothing is kept."""

    def isatty(self) -> bool:
        return False


class Runner:
    """Compiles and calls programs under one set of limits."""

    compiled_programs = 512
    """Bound on remembered code objects."""

    def __init__(self, *, ticks: int, memory_bytes: int, output_bytes: int) -> None:
        self.fuel = ticks
        self.output_bytes = output_bytes
        self.meter = fuel.Meter(memory_bytes)
        self.sink = _Sink(output_bytes)
        self.builtins = dict(vars(builtins))
        self._codes: OrderedDict[str, CodeType] = OrderedDict()

    def run(self, source: str, entry_point: str, many: list[Any]) -> list[Outcome]:
        """One outcome per argument tuple (in wire form, as lists)."""
        try:
            code = self._code(source)
        except (
            BaseException
        ) as fault:  # the compiler raises many kinds on hostile text, MemoryError among them
            return [["error", None, type(fault).__name__]] * len(many)
        return [self._call(code, entry_point, arguments) for arguments in many]

    def _code(self, source: str) -> CodeType:
        code = self._codes.get(source)
        if code is None:
            code = self._codes[source] = fuel.compile_metered(source)
            if len(self._codes) > self.compiled_programs:
                self._codes.popitem(last=False)
        return code

    def _call(self, code: CodeType, entry_point: str, arguments: Any) -> Outcome:
        self.meter.refill(self.fuel)
        self.sink.written = 0
        sys.stdout = sys.stderr = self.sink
        try:
            values = [wire.decode(argument) for argument in arguments]
            space = self.meter.namespace()
            space["__builtins__"] = self.builtins.copy()
            space["__name__"] = "program"
            exec(code, space)
            if entry_point not in space:
                return self._verdict(["error", None, f"NameError: {entry_point} is not defined"])
            return self._verdict(self._answer(space[entry_point](*values)))
        except BaseException as fault:
            return self._verdict(_failure(fault))

    def _verdict(self, outcome: Outcome) -> Outcome:
        """What the limits say overrules what the program made of it."""
        if self.meter.empty:
            return ["timeout", None, "out of fuel"]
        if self.sink.full:
            return ["output", None, "printed too much"]
        return outcome

    def _answer(self, value: Any) -> Outcome:
        if _weight(value, self.output_bytes) > self.output_bytes:
            return ["output", None, "answer too large"]
        return ["ok", wire.encode(value), ""]


def _weight(value: Any, limit: int) -> int:
    """A lower bound of the bytes of ``value`` on the wire; counting stops above ``limit``.

    Comes before encoding, because a few lists that contain each other twice are exponential when written out.
    """
    total, pending = 0, [value]
    while pending and total <= limit:
        item = pending.pop()
        kind = type(item)
        if kind is list or kind is tuple or kind is set:
            total += 2 + len(item)
            if total <= limit:
                pending.extend(item)
        elif kind is dict:
            total += 6 + 4 * len(item)
            if total <= limit:
                pending.extend(item.keys())
                pending.extend(item.values())
        elif kind is int:
            total += item.bit_length() >> 2
        else:
            total += len(item) if kind is str else 1
    return total


def _failure(fault: BaseException) -> Outcome:
    if isinstance(fault, MemoryError):
        return ["memory", None, "MemoryError"]
    if isinstance(fault, OutputLimitError):
        return ["output", None, "printed too much"]
    if isinstance(fault, fuel.OutOfFuelError):
        return ["timeout", None, "out of fuel"]
    if isinstance(fault, wire.UnsupportedTypeError):
        return ["error", None, f"unsupported type {fault}"]
    if isinstance(fault, wire.TooDeepError):
        return ["output", None, "answer nested too deeply"]
    return ["error", None, type(fault).__name__[:80]]
