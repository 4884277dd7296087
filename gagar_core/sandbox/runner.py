"""Runs one program in this process: metered, with bounded output, answers turned into wire form.

Lives in children only. Each call executes the program's module level afresh, so an answer depends on source
and arguments alone and not on the calls before it.
"""

from __future__ import annotations

import builtins
import errno
import gc
import io
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import CodeType
from typing import Any

from gagar_core.sandbox import fuel, wire
from gagar_core.sandbox.vocabulary import BUILTINS

Outcome = list[Any]
"""``[status, wire form of the value, message]``."""


class OutputLimitError(BaseException):
    """A call printed more than it may."""


class Sink:
    """Stands for stdout and stderr: counts and forgets."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.written = 0

    @property
    def full(self) -> bool:
        """Whether more was written than may be."""
        return self.written > self.limit

    @property
    def buffer(self) -> Sink:
        """Where bytes go."""
        return self

    def write(self, text: str | bytes) -> int:
        """Count; raise ``OutputLimitError`` above the limit."""
        self.written += len(text)
        if self.written > self.limit:
            raise OutputLimitError
        return len(text)

    def flush(self) -> None:
        """Nothing is kept."""

    def isatty(self) -> bool:
        """Never."""
        return False


class Runner:
    """Compiles and runs programs under one set of limits."""

    compiled_programs = 512
    """Bound on remembered code objects."""

    def __init__(self, *, ticks: int, memory_bytes: int, output_bytes: int, closed: bool = False) -> None:
        self.fuel = ticks
        self.output_bytes = output_bytes
        self.meter = fuel.Meter(memory_bytes)
        self.sink = Sink(output_bytes)
        self._closed = closed
        self._left_cleanly = False
        self._builtins = {name: vars(builtins)[name] for name in BUILTINS}
        self._codes: OrderedDict[str, CodeType] = OrderedDict()

    def call(self, source: str, entry_point: str, arguments: list[Any]) -> Outcome:
        """The outcome of one call; arguments are in wire form."""
        return self._metered(source, lambda space: self._called(space, entry_point, arguments))

    def operations(self, source: str, class_name: str, steps: list[Any]) -> Outcome:
        """Make an object, then call its methods: ``steps`` is ``[[method, arguments], ...]``.

        The method of the first step is the class itself. The value is the list of what the steps returned,
        None for the first.
        """
        return self._metered(source, lambda space: self._operated(space, class_name, steps))

    def script(self, source: str, _entry_point: str, text: str) -> Outcome:
        """Run as a main program with ``text`` on descriptor 0; the value is what it wrote on descriptor 1."""
        self._codes.clear()
        written = _redirect(text)
        outcome = self._metered(source, lambda space: ["ok", None, ""], name="__main__")
        try:
            sys.stdout.flush()
        except OSError as fault:
            outcome = _failure(fault)
        size = os.fstat(written).st_size
        output = os.pread(written, self.output_bytes + 1, 0)
        os.close(written)
        if self._left_cleanly and outcome[0] == "error":
            outcome = ["ok", None, ""]
        if outcome[0] != "ok":
            return outcome
        if size > self.output_bytes:
            return ["output", None, "printed too much"]
        return ["ok", output.decode("utf-8", "replace"), ""]

    def forget(self) -> None:
        """Drop what is remembered of programs."""
        self._codes.clear()

    def _metered(
        self, source: str, use: Callable[[dict[str, Any]], Outcome], name: str = "program"
    ) -> Outcome:
        """Execute the module level, then ``use`` its namespace; limits overrule what the program made of
        it."""
        try:
            code = self._code(source)
        except (
            BaseException
        ) as fault:  # the compiler raises many kinds on hostile text, MemoryError among them
            return ["error", None, type(fault).__name__]
        outcome = self._once(code, use, name)
        if (
            outcome[0] == "memory" and self._closed
        ):  # maybe what earlier programs left in cycles was in the way
            gc.collect()
            outcome = self._once(code, use, name)
        return outcome

    def _once(self, code: CodeType, use: Callable[[dict[str, Any]], Outcome], name: str) -> Outcome:
        self._begin(keep_streams=name == "__main__")
        space: dict[str, Any] = {}
        try:
            space |= self.meter.namespace()
            space["__builtins__"] = self._builtins.copy() if self._closed else builtins
            space["__name__"] = name
            exec(code, space)
            return self._verdict(use(space))
        except BaseException as fault:
            self._left_cleanly = isinstance(fault, SystemExit) and fault.code in (None, 0)
            return self._verdict(_failure(fault))
        finally:
            space.clear()  # its functions refer to it: it would stay until the next collection

    def _code(self, source: str) -> CodeType:
        code = self._codes.get(source)
        if code is None:
            code = self._codes[source] = fuel.compile_metered(source)
            if len(self._codes) > self.compiled_programs:
                self._codes.popitem(last=False)
        return code

    def _begin(self, *, keep_streams: bool) -> None:
        self.meter.refill(self.fuel)
        self.sink.written = 0
        self._left_cleanly = False
        if not keep_streams:
            sys.stdout = sys.stderr = self.sink
        if not self._closed and "random" in sys.modules:
            sys.modules["random"].seed(0)

    def _verdict(self, outcome: Outcome) -> Outcome:
        if self.meter.empty:
            return ["timeout", None, "out of fuel"]
        if self.sink.full:
            return ["output", None, "printed too much"]
        return outcome

    def _called(self, space: dict[str, Any], entry_point: str, arguments: list[Any]) -> Outcome:
        if entry_point not in space:
            return ["error", None, f"NameError: {entry_point} is not defined"]
        return self._answer(space[entry_point](*[wire.decode(argument) for argument in arguments]))

    def _operated(self, space: dict[str, Any], class_name: str, steps: list[Any]) -> Outcome:
        if class_name not in space:
            return ["error", None, f"NameError: {class_name} is not defined"]
        values: list[Any] = [None]
        made = space[class_name](*[wire.decode(argument) for argument in steps[0][1]])
        for method, arguments in steps[1:]:
            values.append(getattr(made, method)(*[wire.decode(argument) for argument in arguments]))
        return self._answer(values)

    def _answer(self, value: Any) -> Outcome:
        weight, nodes = _weight(value, self.output_bytes)
        if nodes > wire.MAX_NODES:
            return ["output", None, "answer has too many elements"]
        if weight > self.output_bytes:
            return ["output", None, "answer too large"]
        return ["ok", wire.encode(value), ""]


def _redirect(text: str) -> int:
    """Put ``text`` on descriptor 0 and an empty file on 1 and 2; returns another descriptor of the latter."""
    given = os.memfd_create("stdin")
    with open(given, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "replace"))
    os.lseek(given, 0, os.SEEK_SET)
    written = os.memfd_create("stdout")
    os.dup2(given, 0)
    os.dup2(written, 1)
    os.close(given)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "wb", closefd=False)), encoding="utf-8")
    sys.stderr = io.StringIO()
    return written


def _weight(value: Any, limit: int) -> tuple[int, int]:
    """A lower bound of the bytes of ``value`` on the wire, and its elements; counting stops above a limit.

    Comes before encoding, because a few lists that contain each other twice are exponential when written out.
    """
    total, nodes, pending = 0, 0, [value]
    while pending and total <= limit and nodes <= wire.MAX_NODES:
        item = pending.pop()
        kind = type(item)
        if kind is list or kind is tuple or kind is set:
            total += 2 + len(item)
            nodes += 2 + len(item)
            if total <= limit and nodes <= wire.MAX_NODES:
                pending.extend(item)
        elif kind is dict:
            total += 6 + 4 * len(item)
            nodes += 2 + 3 * len(item)
            if total <= limit and nodes <= wire.MAX_NODES:
                pending.extend(item.keys())
                pending.extend(item.values())
        elif kind is int:
            total += item.bit_length() >> 2
        else:
            total += len(item) if kind is str else 1
    return total, nodes


def _failure(fault: BaseException) -> Outcome:
    if isinstance(fault, MemoryError):
        return ["memory", None, "MemoryError"]
    if isinstance(fault, OutputLimitError) or getattr(fault, "errno", None) == errno.EFBIG:
        return ["output", None, "printed too much"]
    if isinstance(fault, fuel.OutOfFuelError):
        return ["timeout", None, "out of fuel"]
    if isinstance(fault, wire.UnsupportedTypeError):
        return ["error", None, f"unsupported type {fault}"]
    if isinstance(fault, wire.TooDeepError):
        return ["output", None, "answer nested too deeply"]
    return ["error", None, type(fault).__name__[:80]]
