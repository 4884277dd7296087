"""Axis ``trainer``, choice ``policy_gradient``: settings of the optimiser."""

from __future__ import annotations

from dataclasses import dataclass

from gagar_core.errors import check_range, gather


@dataclass(kw_only=True)
class PolicyGradient:
    """One on-policy Adam update per step on the clipped surrogate (with one update no token is clipped)."""

    lr: float = 7e-4
    """Learning rate of Adam, > 0."""
    beta1: float = 0.9
    """Decay of the gradient's first moment, in [0, 1)."""
    beta2: float = 0.95
    """Decay of the gradient's second moment, in [0, 1)."""
    grad_clip: float = 1.0
    """Largest gradient norm, > 0; larger ones are scaled down."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("lr", self.lr, 0, open_low=True),
                *check_range("beta1", self.beta1, 0, 1, open_high=True),
                *check_range("beta2", self.beta2, 0, 1, open_high=True),
                *check_range("grad_clip", self.grad_clip, 0, open_low=True),
            ],
            headline="invalid policy_gradient",
        )
