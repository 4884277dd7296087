"""Which tasks a step rolls out: shuffled epochs over the training tasks, the same for a whole seed block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gagar_core.seeds import stream
from gagar_core.types import Task


class TaskFeed:
    """Stateless: the tasks of a step follow from the seed and the step's number alone."""

    def __init__(self, tasks: Sequence[Task], per_step: int, seed: int) -> None:
        self._tasks = tasks
        self._per_step = per_step
        self._seed = seed

    def at(self, step: int) -> list[Task]:
        """The tasks of one step, ``per_step`` of them."""
        first = step * self._per_step
        return [self._nth(position) for position in range(first, first + self._per_step)]

    def _nth(self, position: int) -> Task:
        epoch, index = divmod(position, len(self._tasks))
        return self._tasks[int(self._order(epoch)[index])]

    def _order(self, epoch: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return stream(self._seed, "task order", epoch).permutation(len(self._tasks))
