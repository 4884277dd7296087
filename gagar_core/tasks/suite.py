"""A suite: the tasks of one question, split into those with demonstrations, for training, and held out."""

from __future__ import annotations

from dataclasses import dataclass

from gagar_core.tasks.format import content_hash
from gagar_core.types import Task


@dataclass(frozen=True)
class Suite:
    """Tasks by role. ``sft`` is a subset of ``train``; ``held_out`` shares no task with either."""

    name: str
    sft: tuple[Task, ...]
    train: tuple[Task, ...]
    held_out: tuple[Task, ...]

    def digest(self) -> str:
        """Content hash over every task in order; equal on every machine."""
        return content_hash((*self.sft, *self.train, *self.held_out))
