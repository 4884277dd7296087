"""Axis ``trainer``: the optimiser, its schedule, and how advantages are laid over tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gagar_core.errors import check_choice, check_range, gather
from gagar_core.protocols import Floats
from gagar_core.training.process_reward import turn_credits
from gagar_core.types import Trajectory

SCHEDULES = ("constant", "linear", "cosine")


@dataclass(kw_only=True)
class PolicyGradient:
    """Adam on the clipped surrogate; by default one on-policy update per step (then no token is clipped)."""

    lr: float = 7e-4
    """Learning rate of Adam, > 0."""
    beta1: float = 0.9
    """Decay of the gradient's first moment, in [0, 1)."""
    beta2: float = 0.95
    """Decay of the gradient's second moment, in [0, 1)."""
    grad_clip: float = 1.0
    """Largest gradient norm, > 0; larger ones are scaled down."""
    epochs: int = 1
    """Passes over a step's trajectories, >= 1."""
    minibatches: int = 1
    """Updates per pass, >= 1; rows are shuffled anew for every pass."""
    entropy_coef: float = 0.0
    """Weight of an entropy bonus, aggregated like the loss, >= 0; 0 = off."""
    schedule: str = "constant"
    """Learning rate after the warm-up: constant, or linear or cosine down to 0 at the last step."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from 0, >= 0."""
    logprob_tolerance: float = 1e-2
    """Largest |trainer - sampler| log-prob of a fresh token, nats, > 0; a larger gap stops the run."""

    def __post_init__(self) -> None:
        gather(self._faults(), headline=f"invalid {type(self).__name__}")

    def _faults(self) -> list[str]:
        return [
            *check_range("lr", self.lr, 0, open_low=True),
            *check_range("beta1", self.beta1, 0, 1, open_high=True),
            *check_range("beta2", self.beta2, 0, 1, open_high=True),
            *check_range("grad_clip", self.grad_clip, 0, open_low=True),
            *check_range("epochs", self.epochs, 1),
            *check_range("minibatches", self.minibatches, 1),
            *check_range("entropy_coef", self.entropy_coef, 0),
            *check_choice("schedule", self.schedule, SCHEDULES),
            *check_range("warmup_steps", self.warmup_steps, 0),
            *check_range("logprob_tolerance", self.logprob_tolerance, 0, open_low=True),
        ]

    def lr_at(self, step: int, steps: int) -> float:
        """Learning rate of step ``step`` of ``steps``."""
        if step < self.warmup_steps:
            return self.lr * (step + 1) / (self.warmup_steps + 1)
        progress = (step - self.warmup_steps) / max(steps - self.warmup_steps, 1)
        if self.schedule == "linear":
            return self.lr * (1.0 - progress)
        return self.lr * (0.5 + 0.5 * math.cos(math.pi * progress)) if self.schedule == "cosine" else self.lr

    def token_advantages(
        self, advantages: Floats, trajectories: Sequence[Trajectory], group_codes: Any
    ) -> list[Floats]:
        """Advantage of every token of each trajectory, observations included (they are masked later)."""
        return [
            np.full(t.gen_tokens + t.obs_tokens, a) for a, t in zip(advantages, trajectories, strict=True)
        ]


@dataclass(kw_only=True)
class ProcessReward(PolicyGradient):
    """Adds credit per turn for public tests newly passed (the process-reward arm of the comparison)."""

    process_coef: float = 0.5
    """Weight of a turn's centred credit beside the trajectory's advantage, >= 0."""

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("process_coef", self.process_coef, 0)]

    def token_advantages(
        self, advantages: Floats, trajectories: Sequence[Trajectory], group_codes: Any
    ) -> list[Floats]:
        """The trajectory's advantage plus its turn's credit, centred over all turns of the group."""
        credits = [turn_credits(trajectory) for trajectory in trajectories]
        rows = super().token_advantages(advantages, trajectories, group_codes)
        for code in np.unique(group_codes):
            members = np.flatnonzero(np.asarray(group_codes) == code)
            centre = float(np.mean([credit for i in members for credit in credits[i]]))
            for i in map(int, members):
                _add_credit(rows[i], trajectories[i], credits[i], self.process_coef, centre)
        return rows


def _add_credit(
    row: Floats, trajectory: Trajectory, credits: list[float], coef: float, centre: float
) -> None:
    at, turn = 0, 0
    for segment in trajectory.segments:
        end = at + len(segment.token_ids)
        if segment.role == "agent":
            row[at:end] += coef * (credits[turn] - centre)
            turn += 1
        at = end
