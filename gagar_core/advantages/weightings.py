"""Quality weights from ranks.

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

_SLACK = 1e-9  # .29 * 100 is 28.999999999999996, and 29 ranks are meant


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
        # Rounding must not carry the last rank below the floor.
        return np.maximum(1.0 - (1.0 - self.floor) * share_of_way(rank, k), self.floor)


@dataclass(kw_only=True)
class GeometricSpan(FlooredWeighting):
    """``w = floor ** t``: equal ratios from 1 down to ``floor``; range [floor, 1].

    k = 4, floor = .2: 1, .5848, .3420, .2.
    """

    SEARCH: ClassVar[Search] = {"floor": (0.02, 0.9, True), "ties": list(TIES)}

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        # Rounding must not carry the last rank below the floor.
        return np.maximum(self.floor ** share_of_way(rank, k), self.floor)


@dataclass(kw_only=True)
class GeometricStep(FlooredWeighting):
    """``w = max(ratio ** (r - 1), floor)``: each rank has ``ratio`` of the one before; range [floor, 1].

    k = 4, ratio = .7: 1, .7, .49, .343.
    """

    ratio: float = 0.7
    """Weight of a rank over that of the rank before, in (0, 1]."""

    SEARCH: ClassVar[Search] = {"ratio": (0.3, 0.95), "floor": (0.02, 0.5, True), "ties": list(TIES)}

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("ratio", self.ratio, 0, 1, open_low=True)]

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        return np.maximum(self.ratio ** (rank - 1.0), self.floor)


@dataclass(kw_only=True)
class Exponential(FlooredWeighting):
    """``w = max(exp(-(r - 1) / tau), floor)``: a softmax over ranks, scaled to 1; range [floor, 1].

    k = 4, tau = 2: 1, .6065, .3679, .2231.
    """

    tau: float = 2.0
    """Ranks over which the weight falls by 1/e, > 0."""

    SEARCH: ClassVar[Search] = {"tau": (0.5, 8.0, True), "floor": (0.02, 0.5, True), "ties": list(TIES)}

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("tau", self.tau, 0, open_low=True)]

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        return np.maximum(np.exp(-(rank - 1.0) / self.tau), self.floor)


@dataclass(kw_only=True)
class ReciprocalRank(RankWeighting):
    """``w = 1 / (1 + steepness (r - 1))``; range (0, 1]. k = 4, steepness = 1: 1, .5, .3333, .25."""

    steepness: float = 1.0
    """How fast weights fall, >= 0; 0 = all equal."""

    SEARCH: ClassVar[Search] = {"steepness": (0.1, 4.0, True), "ties": list(TIES)}

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("steepness", self.steepness, 0)]

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        return 1.0 / (1.0 + self.steepness * (rank - 1.0))


@dataclass(kw_only=True)
class Dcg(RankWeighting):
    """``w = 1 / log2(1 + r)``: the discount of DCG; range (0, 1]. k = 4: 1, .6309, .5, .4307."""

    SEARCH: ClassVar[Search] = {"ties": list(TIES)}

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        return 1.0 / np.log2(1.0 + rank)


@dataclass(kw_only=True)
class Borda(FlooredWeighting):
    """``w = floor + (1 - floor) (wins + ties / 2) / (k - 1)`` over the other passes; range [floor, 1].

    Wins and ties are counted from the ranks. Under ``ties=average`` this is ``linear``: half a win per tie is
    the mean rank. A lone pass gets 1. k = 4, a > {b, c} > d, share before the floor: 1, .5, .5, 0.
    """

    SEARCH: ClassVar[Search] = {"floor": (0.05, 0.9), "ties": list(TIES)}

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise: rank r leaves k - r candidates beaten."""
        return self.floor + (1.0 - self.floor) * (1.0 - share_of_way(rank, k))


@dataclass(kw_only=True)
class TopK(FlooredWeighting):
    """``w = 1`` for the best ``top`` ranks, else ``floor``. k = 4, top = 2, floor = .2: 1, 1, .2, .2."""

    top: int = 2
    """Ranks with full weight, >= 1."""

    SEARCH: ClassVar[Search] = {"top": (1, 8), "floor": (0.05, 0.9), "ties": list(TIES)}

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("top", self.top, 1)]

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        return np.where(rank <= self.top, 1.0, self.floor)


@dataclass(kw_only=True)
class TopFraction(FlooredWeighting):
    """``w = 1`` for the best ``ceil(fraction k)`` ranks, else ``floor``.

    k = 4, fraction = .5, floor = .2: 1, 1, .2, .2.
    """

    fraction: float = 0.5
    """Share of the passes with full weight, in (0, 1]; at least one has it."""

    SEARCH: ClassVar[Search] = {"fraction": (0.1, 0.9), "floor": (0.05, 0.9), "ties": list(TIES)}

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("fraction", self.fraction, 0, 1, open_low=True)]

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        return np.where(rank <= np.ceil(self.fraction * k - _SLACK), 1.0, self.floor)


@dataclass(kw_only=True)
class DownweightLowest(FlooredWeighting):
    """``w = floor`` for the worst ``share`` of the passes, else 1.

    At least one and never all of two or more passes are weighted down. k = 4, share = .25, floor = .2:
    1, 1, 1, .2.
    """

    share: float = 0.25
    """Share of the passes that is weighted down, in (0, 1)."""

    SEARCH: ClassVar[Search] = {"share": (0.1, 0.9), "floor": (0.05, 0.9), "ties": list(TIES)}

    def _faults(self) -> list[str]:
        faults = check_range("share", self.share, 0, 1, open_low=True, open_high=True)
        return [*super()._faults(), *faults]

    def quality_weight(self, rank: Floats, k: Floats) -> Floats:
        """Weights of ranks, elementwise."""
        low = np.minimum(np.maximum(np.floor(self.share * k + _SLACK), 1.0), k - 1.0)
        return np.where(rank > k - low, self.floor, 1.0)
