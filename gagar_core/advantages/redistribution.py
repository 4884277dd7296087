"""Moving advantage among the passing rollouts of a group, by quality.

With P the passing rows of a group, base A, weights f in (0, 1] and conserved masses u (1, or tokens):

    S = Σ_P u A⁺        W = Σ_P u f A⁺        λ = S / W        A*_i = λ f_i A_i⁺   on P, A*_i = A_i elsewhere

(the paper's Eq. 2, 7, 8, arXiv 2609.32577). The ratio is taken over P and applied to P: over the whole group
of a mean-centred base it would be 0 / x, and every advantage would vanish.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from gagar_core.advantages.corrections import size_factor
from gagar_core.advantages.groups import group_any, group_max, group_size, group_sum, varies
from gagar_core.advantages.ranks import PassingRows, average_ranks
from gagar_core.errors import check_choice, check_range, gather
from gagar_core.protocols import Bools, Floats, Ints

REASONS = (
    "",
    "no valid row",
    "no pass",
    "single pass",
    "no usable grade of a passing row",
    "all passes tied",
    "no positive base advantage",
    "redistribution switched off (shrink is 1)",
    "weights too small to rescale",
)
"""Why a group kept its base advantages; "" where it did not."""

ACTED, NO_ROW, NO_PASS, SINGLE, UNUSABLE, TIED, NO_POSITIVE, OFF, TOO_SMALL = range(len(REASONS))

_TINY = 1e-100  # products of weights below this and ordinary advantages may leave the normal range


@dataclass(frozen=True, slots=True)
class Redistributed:
    """Arrays (V,) over valid rows and (G,) over groups; ``reason`` indexes ``REASONS``."""

    advantages: Floats
    weights: Floats
    lambda_: Floats
    capped: Bools
    reason: Ints
    positive_mass_kept: Floats


def untouched(base: Floats, size: Ints) -> Redistributed:
    """What a group keeps when nothing is redistributed."""
    groups = len(size)
    return Redistributed(
        base.copy(),
        np.ones(len(base)),
        np.full(groups, np.nan),
        np.zeros(groups, np.bool_),
        np.where(size == 0, NO_ROW, ACTED),
        np.ones(groups),
    )


@dataclass(frozen=True, slots=True)
class Acting:
    """Passing rows of the groups that are redistributed: A⁺, f and u (None = 1), each (P,)."""

    codes: Ints
    num_groups: int
    positive: Floats
    weights: Floats
    unit: Floats | None

    def total(self, values: Floats) -> Floats:
        """Sum over each group (G,)."""
        return group_sum(values, self.codes, self.num_groups)

    def mass(self, values: Floats) -> Floats:
        """Conserved mass of ``values`` over each group (G,)."""
        return self.total(values if self.unit is None else values * self.unit)


@dataclass(frozen=True, slots=True)
class Rule:
    """How a redistribution treats its edge cases."""

    conserve: str = "sequence"
    negative_pass: str = "keep"
    strict: bool = False
    recentre_capped: bool = True


@dataclass(frozen=True, slots=True)
class Gain:
    """``rows`` (P,) multiplies A⁺; ``lambda_`` (G,), not finite where impossible, and ``capped`` (G,)."""

    rows: Floats
    lambda_: Floats
    capped: Bools


@dataclass(kw_only=True)
class NoRedistribution:
    """Train on the base advantages, bit for bit."""

    acts: ClassVar[bool] = False

    def at_step(self, step: int) -> Self:
        """This choice does not depend on the step."""
        return self

    def redistribute(self, base: Floats, weights: Floats, rows: PassingRows) -> Redistributed:
        """Return the base."""
        return untouched(base, rows.size)


@dataclass(kw_only=True)
class Redistribution:
    """Settings that every redistribution shares."""

    shrink: float = 0.0
    """Pull weights towards the group's mean weight, in [0, 1]: 0 = as graded, 1 = base advantages."""
    temper: float = 1.0
    """Exponent on the weights, >= 0: 1 = as they are, 0 = all equal."""
    start_step: int = 0
    """First training step with redistribution, >= 0; our addition, not the paper's."""
    ramp: int = 0
    """Steps over which shrink falls from 1 to its value after start_step; 0 = at once."""
    group_size: int = 0
    """Intended rows per group; groups with dropouts are rescaled by (1 - 1/this) / (1 - 1/n), 0 = off."""
    all_pass: str = "zero"
    """Groups in which every row passes: zero (keep the base) | leave_one_out (beta times centred rank)."""
    beta: float = 0.1
    """Size of leave_one_out advantages, >= 0; keep it below the median |A| of mixed groups."""

    acts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        gather(self._faults(), headline=f"invalid {type(self).__name__} settings")

    def _faults(self) -> list[str]:
        return [
            *check_range("shrink", self.shrink, 0, 1),
            *check_range("temper", self.temper, 0),
            *check_range("start_step", self.start_step, 0),
            *check_range("ramp", self.ramp, 0),
            *check_range("group_size", self.group_size, 0),
            *check_choice("all_pass", self.all_pass, ("zero", "leave_one_out")),
            *check_range("beta", self.beta, 0),
        ]

    def at_step(self, step: int) -> Self:
        """Return a copy whose ``shrink`` is what ``start_step`` and ``ramp`` make of it at ``step``.

        Before ``start_step`` it is 1 (base advantages); it then falls in equal parts to its own value,
        which it reaches at ``start_step + ramp``.
        """
        strength = min(max((step - self.start_step + 1) / (self.ramp + 1), 0.0), 1.0)
        shrink = 1.0 - strength * (1.0 - self.shrink) if strength < 1.0 else self.shrink
        return dataclasses.replace(self, shrink=shrink, start_step=0, ramp=0)

    def redistribute(self, base: Floats, weights: Floats, rows: PassingRows) -> Redistributed:
        """Redistribute ``base`` (V,) by ``weights`` (P,) of ``rows``; NaN = no usable grade."""
        result = untouched(base, rows.size)
        weights = self._effective(weights, rows)
        reason = self._reasons(base, weights, rows)
        result.reason[:] = reason
        acting = reason == ACTED
        if acting.any():
            chosen = slice(None) if acting.all() else acting[rows.codes]
            self._act(result, base, weights, rows, chosen)
        if self.all_pass == "leave_one_out":
            self._leave_one_out(result, base, weights, rows)
        if self.group_size:
            result.advantages[:] *= size_factor(rows.size, self.group_size)[rows.all_codes]
        return result

    def _rule(self) -> Rule:
        return Rule()

    def _effective(self, weights: Floats, rows: PassingRows) -> Floats:
        if self.temper != 1.0:
            weights = weights**self.temper
        if self.shrink:
            total = group_sum(weights, rows.codes, rows.num_groups)
            mean = total / np.maximum(group_size(rows.codes, rows.num_groups), 1)
            weights = (1.0 - self.shrink) * weights + self.shrink * mean[rows.codes]
        return weights

    def _reasons(self, base: Floats, weights: Floats, rows: PassingRows) -> Ints:
        groups, strict = rows.num_groups, self._rule().strict
        passes = group_size(rows.codes, groups)
        reason = np.zeros(groups, np.int64)
        # Later lines are the more basic reasons and overwrite the earlier ones.
        reason[~group_any(base[rows.index] > 0.0, rows.codes, groups)] = NO_POSITIVE
        if not strict:
            reason[~varies(weights, rows.codes, groups)] = TIED
        unusable = np.isnan(weights)
        if unusable.any():
            reason[group_any(unusable, rows.codes, groups)] = UNUSABLE
        if not strict:
            reason[passes == 1] = SINGLE
        if self.shrink == 1.0:
            reason[:] = OFF
        reason[passes == 0] = NO_PASS
        reason[rows.size == 0] = NO_ROW
        return reason

    def _act(
        self, result: Redistributed, base: Floats, weights: Floats, rows: PassingRows, chosen: slice | Bools
    ) -> None:
        """Write the redistributed values of the chosen passing rows into ``result``."""
        rule = self._rule()
        index, codes = rows.index[chosen], rows.codes[chosen]
        old = base[index]
        unit = rows.lengths[chosen] if rule.conserve == "token" and rows.lengths is not None else None
        acting = Acting(codes, rows.num_groups, np.maximum(old, 0.0), weights[chosen], unit)
        gain = self._gain(acting)
        lost = ~np.isfinite(gain.lambda_) & (result.reason == ACTED)
        if lost.any():
            result.reason[lost] = TOO_SMALL
            gain.rows[lost[codes]] = 1.0
        new = gain.rows * acting.positive
        recentred = gain.capped & ~lost & rule.recentre_capped
        negative = old < 0.0
        if negative.any():
            clips = group_any(negative, codes, rows.num_groups) & ~lost & (rule.negative_pass == "clip")
            kept = negative & ~clips[codes]
            new[kept] = old[kept]
            recentred |= clips
        result.advantages[index] = new
        if recentred.any():
            self._recentre(result, acting.total(old) - acting.total(new), recentred, rows)
        self._report(result, acting, gain, index)

    def _gain(self, acting: Acting) -> Gain:
        raise NotImplementedError

    def _recentre(self, result: Redistributed, missing: Floats, where: Bools, rows: PassingRows) -> None:
        """Spread a group's missing sum over all its rows, so that the group's sum is that of the base."""
        shift = missing / np.maximum(rows.size, 1)
        touched = where[rows.all_codes]
        result.advantages[touched] += shift[rows.all_codes[touched]]

    def _report(self, result: Redistributed, acting: Acting, gain: Gain, index: Ints) -> None:
        done = result.reason == ACTED
        before = acting.mass(acting.positive)
        after = acting.mass(np.maximum(result.advantages[index], 0.0))
        result.positive_mass_kept[done] = after[done] / before[done]
        result.lambda_[done] = gain.lambda_[done]
        result.capped[done] = gain.capped[done]
        shown = done[acting.codes]
        result.weights[index[shown]] = acting.weights[shown]

    def _leave_one_out(self, result: Redistributed, base: Floats, weights: Floats, rows: PassingRows) -> None:
        """All-pass groups with a zero base: ``beta * n / (n - 1) * (q - mean(q))``, q the rank percentile."""
        passes = group_size(rows.codes, rows.num_groups)
        flat = ~group_any(base[rows.index] != 0.0, rows.codes, rows.num_groups)
        chosen = (result.reason == NO_POSITIVE) & (passes == rows.size) & (passes > 1) & flat
        if not chosen.any():
            return
        on = chosen[rows.codes]
        codes, n = rows.codes[on], passes.astype(np.float64)[rows.codes[on]]
        order = -weights[on]
        if rows.ranks is not None and not np.isnan(rows.ranks[on]).any():
            order = rows.ranks[on]
        percentile = 1.0 - (average_ranks(order, codes, rows.num_groups) - 1.0) / (n - 1.0)
        size = self.beta * (1.0 - self.shrink)
        result.advantages[rows.index[on]] = size * n / (n - 1.0) * (percentile - 0.5)
        result.reason[chosen] = ACTED


@dataclass(kw_only=True)
class SumPreserving(Redistribution):
    """``A*_i = λ f_i A_i⁺`` on the passing rows, λ = S / W: their sum stays, failing rows stay.

    r = [1, 1, 1, 0], f = [1, .85, .4] on a centred base gives [.3333, .2833, .1333, -.75], λ = 4/3. With a
    ``lambda_max`` that is reached, λ is cut and the group recentred: the sum over P is then not kept.
    """

    lambda_max: float = 0.0
    """Largest rescale factor, >= 1; 0 = no cap."""
    conserve: str = "sequence"
    """What stays over the passing rows: sequence (Σ A) | token (Σ A · length), to match the loss."""
    negative_pass: str = "keep"
    """A passing row with a negative base: keep (untouched) | clip (0, then the group is recentred)."""
    strict: bool = False
    """Apply the cap also where one row passes or all passes tie, as the paper's formula does."""

    def _faults(self) -> list[str]:
        cap = [] if self.lambda_max == 0 else check_range("lambda_max (if not 0)", self.lambda_max, 1)
        return [
            *super()._faults(),
            *cap,
            *check_choice("conserve", self.conserve, ("sequence", "token")),
            *check_choice("negative_pass", self.negative_pass, ("clip", "keep")),
        ]

    def _rule(self) -> Rule:
        return Rule(self.conserve, self.negative_pass, self.strict)

    def _gain(self, acting: Acting) -> Gain:
        factor, lambda_, weights = rescale_factor(acting)
        capped = np.zeros(acting.num_groups, np.bool_)
        if self.lambda_max:
            capped = lambda_ > self.lambda_max
            # Cut the factor in the same proportion: it may refer to weights in another unit than λ.
            factor[capped] *= self.lambda_max / lambda_[capped]
            lambda_ = np.minimum(lambda_, self.lambda_max)
        return Gain(factor[acting.codes] * weights, lambda_, capped)


@dataclass(kw_only=True)
class Paper(SumPreserving):
    """The paper's rule: λ at most 1.5, passing rows with a negative base clipped to 0, then recentred."""

    lambda_max: float = 1.5
    """Largest rescale factor, >= 1; 0 = no cap."""
    negative_pass: str = "clip"
    """A passing row with a negative base: keep (untouched) | clip (0, then the group is recentred)."""


def rescale_factor(acting: Acting) -> tuple[Floats, Floats, Floats]:
    """``S / W`` for weights in a safe unit (G,), λ for the weights as they are (G,), and the former (P,).

    Shares do not change when a group's weights are divided by their largest one. Only groups with weights so
    small that products would leave the normal range are, so ordinary groups keep their bits. Both numbers are
    infinite where W is 0 all the same; a λ too large for a float is shown as the largest one.
    """
    weights, unit = acting.weights, np.ones(acting.num_groups)
    if weights.min(initial=1.0) < _TINY:
        small = group_any(weights < _TINY, acting.codes, acting.num_groups)
        unit = np.where(small, group_max(weights, acting.codes, acting.num_groups), 1.0)
        weights = weights / unit[acting.codes]
    weighted = acting.mass(weights * acting.positive)
    total = acting.mass(acting.positive)
    factor = np.divide(total, weighted, out=np.full(acting.num_groups, np.inf), where=weighted > 0)
    with np.errstate(over="ignore"):
        lambda_ = np.minimum(factor / unit, np.finfo(np.float64).max)
    return factor, np.where(np.isfinite(factor), lambda_, np.inf), weights
