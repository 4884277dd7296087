"""Axis ``budget``: how much of everything a run may use. One class per named budget."""

from __future__ import annotations

from dataclasses import dataclass

from gagar_core.errors import check_range, gather


@dataclass(kw_only=True)
class Small:
    """The default: 60 steps, about 20 CPU seconds after the SFT warm start is built."""

    steps: int = 60
    """Training steps; 0 = evaluate the SFT policy only."""
    groups_per_step: int = 12
    """Tasks rolled out per step, >= 1."""
    group_size: int = 8
    """Trajectories per task, >= 2."""
    sft_demos: int = 5000
    """Demonstrations of the SFT warm start, >= 1."""
    sft_epochs: int = 3
    """Passes over the demonstrations, >= 1."""
    eval_tasks: int = 0
    """Held-out tasks evaluated, drawn once per seed block; 0 = all."""
    eval_attempts: int = 8
    """Attempts per held-out task at every evaluation, >= 1."""
    eval_every: int = 20
    """Steps between evaluations besides the first and the last; 0 = off."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("steps", self.steps, 0),
                *check_range("groups_per_step", self.groups_per_step, 1),
                *check_range("group_size", self.group_size, 2),
                *check_range("sft_demos", self.sft_demos, 1),
                *check_range("sft_epochs", self.sft_epochs, 1),
                *check_range("eval_tasks", self.eval_tasks, 0),
                *check_range("eval_attempts", self.eval_attempts, 1),
                *check_range("eval_every", self.eval_every, 0),
            ],
            headline="invalid budget",
        )


@dataclass(kw_only=True)
class Smoke(Small):
    """Seconds: proves that everything runs, says nothing about learning."""

    steps: int = 3
    groups_per_step: int = 6
    group_size: int = 6
    sft_demos: int = 2500
    sft_epochs: int = 2
    eval_tasks: int = 20
    eval_attempts: int = 2
    eval_every: int = 0


@dataclass(kw_only=True)
class Full(Small):
    """For results one would publish: 200 steps of 16 groups."""

    steps: int = 200
    groups_per_step: int = 16


BUDGETS = {"smoke": Smoke, "small": Small, "full": Full}
