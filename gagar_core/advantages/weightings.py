"""Quality weights from ranks: smooth schemes.

Notation: rank r = 1 (best) … k, share of the way t = (r - 1) / (k - 1), t = 0 for k = 1; the sum-preserving
rescale afterwards makes only ratios matter, unless a cap is set. ``SEARCH`` maps a field to its search range
for tuning: ``(low, high)``, ``(low, high, True)`` on a log scale, or a list of choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gagar_core.advantages.ranks import TIES
from gagar_core.errors import check_choice, check_range, gather
from gagar_core.protocols import Floats

Search = dict[str, Any]


def share_of_way(rank: Floats, k: Floats) -> Floats:
    """``t = (r - 1) / (k - 1)``, 0 for a single candidate."""
    return (rank - 1.0) / np.maximum(k - 1.0, 1.0)


@dataclass(kw_only=True)
class Uniform:
    """``w = 1``: every pass counts the same, the base advantages stay. k = 4: 1, 1, 1, 1."""

    reads: ClassVar[tuple[str, ...]] = ()
    SEARCH: ClassVar[Search] = {}

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        return np.ones_like(rank)


@dataclass(kw_only=True)
class RankWeighting:
    """What weightings that read ranks share."""

    ties: str = "average"
    """Tied ranks: average (mean of the weights they span) | dense (a tied block counts as one candidate)."""

    reads: ClassVar[tuple[str, ...]] = ("ranks",)

    def __post_init__(self) -> None:
        gather(self._faults(), headline=f"invalid {type(self).__name__} settings")

    def _faults(self) -> list[str]:
        return check_choice("ties", self.ties, TIES)


@dataclass(kw_only=True)
class FlooredWeighting(RankWeighting):
    """A rank weighting with a smallest weight."""

    floor: float = 0.1
    """Smallest weight, in (0, 1]; 1 = all equal."""

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("floor", self.floor, 0, 1, open_low=True)]


@dataclass(kw_only=True)
class Linear(FlooredWeighting):
    """``w = 1 - (1 - floor) t``: equal steps from 1 down to ``floor``; range [floor, 1].

    k = 4, floor = .2: 1, .7333, .4667, .2.
    """

    SEARCH: ClassVar[Search] = {"floor": (0.05, 0.9), "ties": list(TIES)}

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        return 1.0 - (1.0 - self.floor) * share_of_way(rank, k)
