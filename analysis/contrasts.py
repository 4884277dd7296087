"""Claims about a difference: superior, non-inferior, equivalent, several at once; two-factor interactions.

One rule reads every claim off the interval that the report shows. With ``gain`` = difference turned so that
more is better, and margin m >= 0: *superior* claims gain > m, *non-inferior* claims gain > -m, *equivalent*
claims -m < gain < m. A claim is supported if the whole interval lies inside the claimed region, refuted if
it lies outside, else undecided. At level 95 % each direction errs in at most 2.5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.comparisons import Difference, compare
from analysis.distributions import t_cdf
from gagar_core.errors import InputError, check_choice, check_range, gather

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"
KINDS = ("superior", "non_inferior", "equivalent")
DIRECTIONS = ("higher", "lower")

ALPHA = 0.025
"""One-sided level of each direction: that of a two-sided 95 % interval."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed of a difference: kind, margin (>= 0, in the metric's unit), which way is better."""

    kind: str
    margin: float = 0.0
    direction: str = "higher"

    def __post_init__(self) -> None:
        faults = check_choice("kind", self.kind, KINDS) + check_choice(
            "direction", self.direction, DIRECTIONS
        )
        faults += check_range("margin", self.margin, 0.0)
        if self.kind in ("non_inferior", "equivalent") and not self.margin > 0:
            faults.append(f"kind {self.kind} needs a margin above 0; got {self.margin!r}")
        gather(faults, headline="invalid claim", error=InputError)

    @property
    def bounds(self) -> tuple[float, float]:
        """The claimed open interval of the gain."""
        low = self.margin if self.kind == "superior" else -self.margin
        return low, (self.margin if self.kind == "equivalent" else math.inf)

    def gain(self, value: float) -> float:
        """A difference turned so that more is better."""
        return value if self.direction == "higher" else -value


@dataclass(frozen=True, slots=True)
class Evidence:
    """One-sided p values of a claim and of its opposite; null where no t test exists."""

    p_support: float | None
    p_refute: float | None


def evidence(claim: Claim, difference: Difference) -> Evidence:
    """p of the data if the claim is false (``p_support``) and if it is true (``p_refute``).

    For an equivalence claim ``p_support`` is the larger of two one-sided p values (TOST) and ``p_refute``
    the smaller of the two opposite ones, doubled.
    """
    if difference.value is None or not difference.se or difference.df is None:
        return Evidence(None, None)
    gain, (low, high) = claim.gain(difference.value), claim.bounds
    above_low = t_cdf(-(gain - low) / difference.se, difference.df)
    below_low = 1.0 - above_low
    if math.isinf(high):
        return Evidence(above_low, below_low)
    below_high = t_cdf((gain - high) / difference.se, difference.df)
    return Evidence(max(above_low, below_high), min(1.0, 2 * min(1.0 - above_low, 1.0 - below_high)))


def decide(p_support: float | None, p_refute: float | None, alpha: float = ALPHA) -> str:
    """Verdict from one-sided, family-adjusted p values."""
    if p_support is not None and p_support <= alpha:
        return SUPPORTED
    if p_refute is not None and p_refute <= alpha:
        return REFUTED
    return UNDECIDED


def joint_verdict(verdicts: Iterable[str]) -> str:
    """Intersection-union: all parts hold if each is supported on its own, without any adjustment.

    One refuted part refutes the whole.
    """
    found = list(verdicts)
    if not found:
        raise InputError("a joint claim needs at least one part")
    if REFUTED in found:
        return REFUTED
    return SUPPORTED if set(found) == {SUPPORTED} else UNDECIDED


def interaction(
    both: Mapping[int, float],
    first: Mapping[int, float],
    second: Mapping[int, float],
    neither: Mapping[int, float],
) -> Difference:
    """(both - first) - (second - neither), per seed block: does the second change depend on the first?

    Each argument maps seed blocks to per-run values. Only blocks with all four cells count; the others are
    in ``unmatched``.
    """
    cells = (both, first, second, neither)
    shared = set.intersection(*(set(cell) for cell in cells))
    left = {b: both[b] - first[b] for b in shared}
    right = {b: second[b] - neither[b] for b in shared}
    left |= dict.fromkeys(set.union(*(set(cell) for cell in cells)) - shared, math.nan)
    found = compare(left, right)
    outside = tuple(sorted(b for b in left if b not in found.blocks))
    return Difference(
        **{name: getattr(found, name) for name in Difference.__slots__} | {"unmatched": outside}
    )
