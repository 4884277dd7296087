"""Which tasks a step rolls out: shuffled epochs over the training tasks, the same for a whole seed block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gagar_core.seeds import stream
from gagar_core.types import Task


class TaskFeed:
    """Stateless: the tasks of a step follow from the seed and the step's number alone."""

    def __init__(self, tasks: Sequence[Task], per_step: int, seed: int) -> None:
        self.tasks = tasks
        self.per_step = per_step
        self._seed = seed

    def at(self, step: int) -> list[Task]:
        """The tasks of one step, ``per_step`` of them."""
        epoch, first = divmod(step * self.per_step, len(self.tasks))
        order: list[int] = []
        while len(order) < first + self.per_step:
            order += self._order(epoch).tolist()
            epoch += 1
        return [self.tasks[i] for i in order[first : first + self.per_step]]

    def extra(self, step: int, first: int, count: int) -> list[Task]:
        """``count`` entries from ``first`` on of a shuffled list of the tasks that are not in ``at(step)``.

        Fewer when the list ends: no task comes twice because of a second round.
        """
        if count <= 0:
            return []
        known = {task.id for task in self.at(step)}
        order = self.stream(step, "extra tasks").permutation(len(self.tasks)).tolist()
        others = [self.tasks[i] for i in order if self.tasks[i].id not in known]
        return others[first : first + count]

    def stream(self, step: int, name: str) -> np.random.Generator:
        """Random numbers for one purpose in one step."""
        return stream(self._seed, name, step)

    def _order(self, epoch: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return stream(self._seed, "task order", epoch).permutation(len(self.tasks))
