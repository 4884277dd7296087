"""Reward shaping before group statistics. The user's own goes here too; the base sees its output only.

All take valid rows only. Groups are filtered on the outcome, not on what comes out here: a length penalty
would make an all-pass group look mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gagar_core.advantages.graded_weightings import check_excess, excess
from gagar_core.advantages.groups import group_any, group_quantile, group_size
from gagar_core.errors import InputError, check_range, gather
from gagar_core.protocols import Bools, Floats, Ints


@dataclass(kw_only=True)
class NoShaping:
    """Leave the rewards as they are."""

    def shape(
        self, rewards: Floats, passed: Bools, codes: Ints, lengths: Floats, scores: Floats | None = None
    ) -> Floats:
        """Return ``rewards``."""
        return rewards


@dataclass(kw_only=True)
class LengthPenalty:
    """Passing rows pay for being longer than their group's short passes (arXiv 2610.11959 Eq. 4).

    ``r - penalty * clip((length / reference - 1 - slack) / (span - slack), 0, 1) ** power`` with reference
    the ``quantile`` of the group's passing lengths, only in groups whose pass rate is above ``gate``.
    """

    penalty: float = 0.2
    """Largest deduction, reward units, >= 0; 0 = off."""
    quantile: float = 0.3
    """Which passing length is the reference, in [0, 1]."""
    gate: float = 0.5
    """Pass rate that a group must exceed, in [0, 1]: hard tasks are left alone."""
    slack: float = 0.0
    """Relative excess over the reference that costs nothing, >= 0."""
    span: float = 1.0
    """Relative excess at which the whole penalty is due, > slack."""
    power: float = 1.5
    """Shape of the rise, > 0; above 1 small excesses cost little."""

    def __post_init__(self) -> None:
        faults = check_excess(self.quantile, self.slack, self.span, self.power)
        faults += check_range("penalty", self.penalty, 0) + check_range("gate", self.gate, 0, 1)
        gather(faults, headline="invalid LengthPenalty settings")

    def shape(
        self, rewards: Floats, passed: Bools, codes: Ints, lengths: Floats, scores: Floats | None = None
    ) -> Floats:
        """Rewards (N,) less the penalty of passing rows."""
        groups = int(codes.max(initial=-1)) + 1
        where = codes[passed]
        rate = group_size(where, groups) / np.maximum(group_size(codes, groups), 1)
        reference = group_quantile(lengths[passed], where, groups, self.quantile)
        over = excess(lengths[passed], reference[where], self.slack, self.span) ** self.power
        shaped = rewards.astype(np.float64)
        shaped[passed] -= self.penalty * over * (rate > self.gate)[where]
        return shaped


@dataclass(kw_only=True)
class Overlong:
    """Soft punishment near the length limit, passing or not (DAPO, arXiv 2503.14476 Eq. 13).

    0 up to ``limit - buffer``, then falling in a line to ``-penalty`` at ``limit``, and no lower beyond it.
    """

    limit: int = 192
    """Largest length, tokens, > 0."""
    buffer: int = 48
    """Length of the falling part, tokens, in [1, limit]."""
    penalty: float = 1.0
    """Deduction at the limit, reward units, >= 0; 0 = off."""
    bounded: bool = True
    """Stop at ``-penalty`` beyond the limit; off = the line goes on, as in verl 0.9.1."""

    def __post_init__(self) -> None:
        faults = check_range("limit", self.limit, 1) + check_range("buffer", self.buffer, 1, self.limit)
        gather(faults + check_range("penalty", self.penalty, 0), headline="invalid Overlong settings")

    def shape(
        self, rewards: Floats, passed: Bools, codes: Ints, lengths: Floats, scores: Floats | None = None
    ) -> Floats:
        """Rewards (N,) less the punishment of rows near or beyond the limit."""
        over = np.maximum((lengths - (self.limit - self.buffer)) / self.buffer, 0.0)
        due: Floats = rewards - self.penalty * (np.minimum(over, 1.0) if self.bounded else over)
        return due


@dataclass(kw_only=True)
class ProductReward:
    """``r * s`` on passing rows, s the grader's score in [0, 1]: all-pass groups get a signal.

    The reward-side sister of redistribution (GRS, arXiv 2610.11959): failing rows keep their reward. A group
    with a passing row that has no score keeps all its rewards.
    """

    floor: float = 0.0
    """Smallest factor, in [0, 1]; 1 = off. Keep it above 0 if a pass must always beat a failure."""

    reads: ClassVar[tuple[str, ...]] = ("scores",)
    unit_scores: ClassVar[bool] = True
    """It reads only scores in [0, 1]."""

    def __post_init__(self) -> None:
        gather(check_range("floor", self.floor, 0, 1), headline="invalid ProductReward settings")

    def shape(
        self, rewards: Floats, passed: Bools, codes: Ints, lengths: Floats, scores: Floats | None = None
    ) -> Floats:
        """Rewards (N,) times scores (N,) on passing rows; raises for scores outside [0, 1]."""
        if scores is None:
            msg = "shaping by product needs the scores of a grader"
            raise InputError(msg)
        if ((scores[passed] < 0.0) | (scores[passed] > 1.0)).any():
            msg = f"scores must be in [0, 1] to multiply rewards; got {scores[passed].tolist()[:8]}"
            raise InputError(msg)
        groups = int(codes.max(initial=-1)) + 1
        blank = group_any(passed & np.isnan(scores), codes, groups)
        graded = passed & ~blank[codes]
        shaped = rewards.astype(np.float64)
        shaped[graded] *= np.maximum(scores[graded], self.floor)
        return shaped
