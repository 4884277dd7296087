"""Quality weights from more than a rank: scores, tiers, lengths.

Their ``weigh`` sees all passing rows of the batch at once and returns one weight per row, NaN where the grade
is unusable. ``SEARCH`` is as in ``weightings``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gagar_core.advantages.groups import group_any, group_max, group_quantile, group_size, group_sum
from gagar_core.advantages.ranks import PassingRows, dense_levels
from gagar_core.advantages.weightings import Search, share_of_way
from gagar_core.errors import check_range, gather
from gagar_core.protocols import Bools, Floats, Ints


@dataclass(kw_only=True)
class SoftmaxScore:
    """``w = max(exp((s - s_max) / tau), floor)`` of the grader's score s; range [floor, 1].

    The scale of scores matters unless they are standardised over the group's passes. Scores 3, 2, 1, 0 have
    z = 1.3416, .4472, …; k = 4, tau = 1: 1, .4088, .1672, .1 (.0683 before the floor).
    """

    tau: float = 1.0
    """Score difference over which the weight falls by 1/e, > 0."""
    floor: float = 0.1
    """Smallest weight, in (0, 1]; 1 = all equal."""
    standardize: bool = True
    """Divide score differences by the population deviation over the group's passes."""

    reads: ClassVar[tuple[str, ...]] = ("scores",)
    SEARCH: ClassVar[Search] = {
        "tau": (0.2, 5.0, True),
        "floor": (0.02, 0.5, True),
        "standardize": [True, False],
    }

    def __post_init__(self) -> None:
        faults = check_range("tau", self.tau, 0, open_low=True)
        faults += check_range("floor", self.floor, 0, 1, open_low=True)
        gather(faults, headline=f"invalid {type(self).__name__} settings")

    def weigh(self, rows: PassingRows) -> Floats:
        """Weights (P,)."""
        assert rows.scores is not None
        scores = np.where(np.isfinite(rows.scores), rows.scores, np.nan)
        behind = scores - group_max(scores, rows.codes, rows.num_groups)[rows.codes]
        if self.standardize:
            behind = behind / _deviation(behind, rows.codes, rows.num_groups)[rows.codes]
        return np.maximum(np.exp(behind / self.tau), self.floor)


@dataclass(kw_only=True)
class BradleyTerry(SoftmaxScore):
    """``w = max(exp((θ - θ_max) / tau), floor)``, θ the strengths that pairwise wins imply; range [floor, 1].

    The grader turns wins into scores with ``pairwise.bradley_terry_scores``. Three items with a > b > c and
    a > c: 1, .469, .220. For four in a row, a > b > c > d: 1, .5556, .3194, .1775.
    """

    standardize: bool = False
    """Divide score differences by the population deviation over the group's passes."""


def _deviation(values: Floats, codes: Ints, num_groups: int) -> Floats:
    """Population deviation of each group (G,), 1 where all values are equal."""
    size = np.maximum(group_size(codes, num_groups), 1)
    centred = values - (group_sum(values, codes, num_groups) / size)[codes]
    spread = np.sqrt(group_sum(centred * centred, codes, num_groups) / size)
    return np.where(spread > 0.0, spread, np.where(np.isnan(spread), np.nan, 1.0))


@dataclass(kw_only=True)
class Tiers:
    """The paper's factors (arXiv 2609.32577 Eq. 6): by tier, and by order within tiers 1 and 2.

    The best tied level of tier 1 gets ``top``, its other levels ``tier1``; tier 2 falls in equal steps over
    its tied levels from ``tier2_high`` to ``tier2_low`` (a single level gets ``tier2_high``); tier 3 gets
    ``tier3``. Order comes from ranks; without ranks a tier is one level. k = 4, tiers 1, 2, 2, 3 in order:
    1, .85, .4, .2. Ranks that contradict the tiers, and tiers other than 1, 2, 3, are unusable.
    """

    top: float = 1.0
    """Weight of the best level of tier 1, in (0, 1]."""
    tier1: float = 0.9
    """Weight of the other levels of tier 1, in (0, top]."""
    tier2_high: float = 0.85
    """Weight of the best level of tier 2, in (0, tier1]."""
    tier2_low: float = 0.40
    """Weight of the worst of several levels of tier 2, in (0, tier2_high]."""
    tier3: float = 0.20
    """Weight of tier 3, in (0, tier2_low]."""

    reads: ClassVar[tuple[str, ...]] = ("tiers",)
    SEARCH: ClassVar[Search] = {
        "top": [1.0],  # the unit: only ratios matter
        "tier1": (0.85, 1.0),
        "tier2_high": (0.6, 0.85),
        "tier2_low": (0.3, 0.6),
        "tier3": (0.05, 0.3),
    }

    def __post_init__(self) -> None:
        names = ("top", "tier1", "tier2_high", "tier2_low", "tier3")
        faults, bound = [], 1.0
        for name in names:
            faults += check_range(name, getattr(self, name), 0, bound, open_low=True)
            bound = getattr(self, name)
        gather(faults, headline=f"invalid {type(self).__name__} settings")

    def weigh(self, rows: PassingRows) -> Floats:
        """Weights (P,)."""
        assert rows.tiers is not None
        tiers, ranks = rows.tiers, rows.ranks if rows.ranks is not None else np.ones(len(rows.tiers))
        usable = np.isin(tiers, (1.0, 2.0, 3.0)) & np.isfinite(ranks)
        if rows.ranks is not None:
            usable &= ~_contradictory(tiers, ranks, rows)[rows.codes]
        place = rows.codes * 3 + np.where(usable, tiers, 3.0).astype(np.int64) - 1
        level, levels = dense_levels(ranks, place, rows.num_groups * 3)
        inside = self.tier2_high - (self.tier2_high - self.tier2_low) * share_of_way(level, levels[place])
        first = np.where(level == 1.0, self.top, self.tier1)
        return np.where(usable, np.select([tiers == 1.0, tiers == 2.0], [first, inside], self.tier3), np.nan)


def _contradictory(tiers: Floats, ranks: Floats, rows: PassingRows) -> Bools:
    """Groups (G,) in which a worse tier has a better or an equal rank."""
    order = np.lexsort((tiers, ranks, rows.codes))
    codes, tier, rank = rows.codes[order], tiers[order], ranks[order]
    wrong = (tier[1:] < tier[:-1]) | ((tier[1:] != tier[:-1]) & (rank[1:] == rank[:-1]))
    return group_any(wrong & (codes[1:] == codes[:-1]), codes[1:], rows.num_groups)


@dataclass(kw_only=True)
class TiersFlat:
    """One weight per tier: 1, .625, .2. k = 4, tiers 1, 2, 2, 3: 1, .625, .625, .2; range [tier3, tier1]."""

    tier1: float = 1.0
    """Weight of tier 1, in (0, 1]."""
    tier2: float = 0.625
    """Weight of tier 2, in (0, tier1]."""
    tier3: float = 0.20
    """Weight of tier 3, in (0, tier2]."""

    reads: ClassVar[tuple[str, ...]] = ("tiers",)
    # tier1 is the unit: only ratios matter
    SEARCH: ClassVar[Search] = {"tier1": [1.0], "tier2": (0.3, 0.95), "tier3": (0.05, 0.3)}

    def __post_init__(self) -> None:
        faults = check_range("tier1", self.tier1, 0, 1, open_low=True)
        faults += check_range("tier2", self.tier2, 0, self.tier1, open_low=True)
        faults += check_range("tier3", self.tier3, 0, self.tier2, open_low=True)
        gather(faults, headline=f"invalid {type(self).__name__} settings")

    def weigh(self, rows: PassingRows) -> Floats:
        """Weights (P,)."""
        assert rows.tiers is not None
        cases = [rows.tiers == 1.0, rows.tiers == 2.0, rows.tiers == 3.0]
        return np.select(cases, [self.tier1, self.tier2, self.tier3], np.nan)


@dataclass(kw_only=True)
class LengthBucket:
    """Weight by length alone, without a grader: ``w = 1 - (1 - floor) x``; range [floor, 1].

    ``x = clip((e - slack) / (span - slack), 0, 1) ** power`` with ``e = length / reference - 1`` and
    reference the ``quantile`` of the group's passing lengths. k = 4, lengths 100, 100, 150, 300, floor = .2:
    reference 100, 1, 1, .7172, .2.
    """

    quantile: float = 0.3
    """Which passing length is the reference, in [0, 1]."""
    slack: float = 0.0
    """Relative excess over the reference that costs nothing, >= 0."""
    span: float = 1.0
    """Relative excess at which the weight reaches the floor, > slack."""
    power: float = 1.5
    """Shape of the fall, > 0; above 1 small excesses cost little."""
    floor: float = 0.1
    """Smallest weight, in (0, 1]; 1 = all equal."""

    reads: ClassVar[tuple[str, ...]] = ("lengths",)
    SEARCH: ClassVar[Search] = {
        "slack": (0.0, 0.5),
        "quantile": (0.1, 0.5),
        "span": (0.5, 2.0),
        "power": (0.5, 2.0),
        "floor": (0.05, 0.9),
    }

    def __post_init__(self) -> None:
        faults = check_excess(self.quantile, self.slack, self.span, self.power)
        faults += check_range("floor", self.floor, 0, 1, open_low=True)
        gather(faults, headline=f"invalid {type(self).__name__} settings")

    def weigh(self, rows: PassingRows) -> Floats:
        """Weights (P,)."""
        assert rows.lengths is not None
        reference = group_quantile(rows.lengths, rows.codes, rows.num_groups, self.quantile)
        over = excess(rows.lengths, reference[rows.codes], self.slack, self.span) ** self.power
        return 1.0 - (1.0 - self.floor) * over


def check_excess(quantile: float, slack: float, span: float, power: float) -> list[str]:
    """Faults of the settings that ``excess`` is called with."""
    return [
        *check_range("quantile", quantile, 0, 1),
        *check_range("slack", slack, 0),
        *check_range("span", span, slack, open_low=True),
        *check_range("power", power, 0, open_low=True),
    ]


def excess(lengths: Floats, reference: Floats, slack: float, span: float) -> Floats:
    """``clip((length / reference - 1 - slack) / (span - slack), 0, 1)``; above a reference of 0 it is 1."""
    ratio = np.divide(lengths, reference, out=np.where(lengths > 0, np.inf, 1.0), where=reference > 0)
    return np.clip((ratio - 1.0 - slack) / (span - slack), 0.0, 1.0)
