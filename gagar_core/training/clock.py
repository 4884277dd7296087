"""Where the time of a step goes: nested phases, each second counted once, in the innermost one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gagar_core.protocols import Sandbox, Session
from gagar_core.types import CallResult, Program


class PhaseClock:
    """Wall and CPU seconds per phase since the last ``take``.

    ``other_cpu`` returns the CPU seconds of helper processes (the sandbox), which are added to the phase in
    which they were spent.
    """

    def __init__(self, other_cpu: Callable[[], float] = lambda: 0.0) -> None:
        self._other_cpu = other_cpu
        self._stack: list[str] = []
        self._counting = True
        self._wall: dict[str, float] = defaultdict(float)
        self._cpu: dict[str, float] = defaultdict(float)
        self._last = self._now()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside under ``name``."""
        self._switch()
        self._stack.append(name)
        try:
            yield
        finally:
            self._switch()
            self._stack.pop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Count nothing inside, whatever phases are entered there."""
        self._switch()
        stack, self._stack, self._counting = self._stack, [], False
        try:
            yield
        finally:
            self._switch()
            self._stack, self._counting = stack, True

    def take(self) -> dict[str, float]:
        """``{phase}_s`` and ``{phase}_cpu_s`` since the last call, which are then forgotten."""
        self._switch()
        result = {f"{name}_s": value for name, value in self._wall.items()}
        result |= {f"{name}_cpu_s": value for name, value in self._cpu.items()}
        self._wall.clear()
        self._cpu.clear()
        return result

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), time.process_time() + self._other_cpu()

    def _switch(self) -> None:
        wall, cpu = self._now()
        if self._stack and self._counting:
            self._wall[self._stack[-1]] += wall - self._last[0]
            self._cpu[self._stack[-1]] += cpu - self._last[1]
        self._last = (wall, cpu)


class TimedSandbox:
    """A sandbox whose work is counted as phase ``execute`` (or as the grader's, while it grades)."""

    def __init__(self, inner: Any, clock: PhaseClock) -> None:
        self._inner = inner
        self._clock = clock
        self.level: str = inner.level
        self.counters = inner.counters

    def open(self, program: Program) -> Session:
        """Load a program."""
        with self._clock.phase("execute"):
            session: Session = self._inner.open(program)
            return session

    def calls_batch(
        self, requests: Sequence[tuple[Program, Sequence[tuple[Any, ...]]]]
    ) -> list[list[CallResult]]:
        """For each (program, argument tuples) the results of its calls, in order."""
        with self._clock.phase("execute"):
            results: list[list[CallResult]] = self._inner.calls_batch(requests)
            return results

    def judge_batch(self, requests: Sequence[tuple[Program, Sequence[str]]]) -> list[list[CallResult]]:
        """For each (program, test programs) one result per test program."""
        with self._clock.phase("execute"):
            results: list[list[CallResult]] = self._inner.judge_batch(requests)
            return results

    def end_step(self) -> None:
        """Close every session opened since the last call."""
        self._inner.end_step()

    def close(self) -> None:
        """Stop all worker processes."""
        self._inner.close()


def untimed(sandbox: Sandbox) -> Sandbox:
    """The sandbox itself, for callers that account for its work under their own phase."""
    inner: Sandbox = getattr(sandbox, "_inner", sandbox)
    return inner
