"""Several children at once without threads: coroutines that say which descriptor they wait for."""

from __future__ import annotations

import select
import time
from collections.abc import Generator, Iterable
from typing import TypeVar

TICK_S = 0.02
"""How often a waiting coroutine is asked to look at the clock."""

Wait = tuple[int, int]
"""Descriptor and ``select`` event mask."""
Result = TypeVar("Result")
Task = Generator[Wait, bool, Result]
"""Yields what it waits for; is sent True when that is ready, False when time has passed."""


def run_together(tasks: Iterable[Task[None]]) -> None:
    """Drive the tasks until all have ended. An exception of one ends all and is raised."""
    waiting: dict[int, Task[None]] = {}
    poller = select.poll()
    alive = list(tasks)
    try:
        for task in alive:
            _advance(task, None, waiting, poller)
        ticked = time.monotonic()
        while waiting:
            ready = [descriptor for descriptor, _ in poller.poll(TICK_S * 1000)]
            for descriptor in ready:
                _resume(descriptor, True, waiting, poller)
            if time.monotonic() - ticked >= TICK_S:
                ticked = time.monotonic()
                for descriptor in [d for d in waiting if d not in ready]:
                    _resume(descriptor, False, waiting, poller)
    finally:
        for task in alive:
            task.close()


def _resume(descriptor: int, is_ready: bool, waiting: dict[int, Task[None]], poller: select.poll) -> None:
    task = waiting.pop(descriptor)
    poller.unregister(descriptor)
    _advance(task, is_ready, waiting, poller)


def _advance(
    task: Task[None], is_ready: bool | None, waiting: dict[int, Task[None]], poller: select.poll
) -> None:
    try:
        descriptor, events = next(task) if is_ready is None else task.send(is_ready)
    except StopIteration:
        return
    waiting[descriptor] = task
    poller.register(descriptor, events)
