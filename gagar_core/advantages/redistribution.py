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
from gagar_core.advantages.groups import group_any, group_max, group_sum, varies
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


@dataclass(slots=True)
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
        np.broadcast_to(np.float64(1.0), len(base)),
        np.full(groups, np.nan),
        np.zeros(groups, np.bool_),
        np.where(size == 0, NO_ROW, ACTED),
        np.ones(groups),
    )


@dataclass(frozen=True, slots=True)
class Acting:
    """Passing rows: group, A⁺, f and u (None = 1), each (P,); what is found for idle groups is ignored."""

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
    """Groups in which all rows pass: zero (keep the base) | leave_one_out (beta times centred rank)."""
    beta: float = 0.1
    """Size of leave_one_out advantages at shrink 0, >= 0; keep it below the median |A| of mixed groups."""

    acts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        gather(self._faults(), headline=f"invalid {type(self).__name__} settings")

    def _faults(self) -> list[str]:
        return [
            *check_range("shrink", self.shrink, 0, 1),
            *check_range("temper", self.temper, 0),
            *check_range("start_step", self.start_step, 0),
            *check_range("ramp", self.ramp, 0),
            *([] if self.group_size == 0 else check_range("group_size (if not 0)", self.group_size, 2)),
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
        result.reason = self._reasons(weights, rows)
        if (result.reason == ACTED).any():
            self._act(result, base, weights, rows)
        if self.all_pass == "leave_one_out":
            self._leave_one_out(result, base, weights, rows)
        if self.group_size:
            result.advantages *= size_factor(rows.size, self.group_size).take(rows.all_codes)
        return result

    def _rule(self) -> Rule:
        return Rule()

    def _effective(self, weights: Floats, rows: PassingRows) -> Floats:
        if self.temper != 1.0:
            weights = weights**self.temper
        if self.shrink:
            mean = group_sum(weights, rows.codes, rows.num_groups) / np.maximum(rows.passes, 1)
            weights = (1.0 - self.shrink) * weights + self.shrink * mean.take(rows.codes)
        return weights

    def _reasons(self, weights: Floats, rows: PassingRows) -> Ints:
        groups, strict = rows.num_groups, self._rule().strict
        reason = np.zeros(groups, np.int64)
        # Later lines are the more basic reasons and overwrite the earlier ones.
        if not strict:
            reason[~varies(weights, rows.codes, groups)] = TIED
        unusable = np.isnan(weights)
        if unusable.any():
            reason[group_any(unusable, rows.codes, groups)] = UNUSABLE
        if not strict:
            reason[rows.passes == 1] = SINGLE
        if self.shrink == 1.0:
            reason[:] = OFF
        reason[rows.passes == 0] = NO_PASS
        reason[rows.size == 0] = NO_ROW
        return reason

    def _act(self, result: Redistributed, base: Floats, weights: Floats, rows: PassingRows) -> None:
        """Write what becomes of the passing rows into ``result``; idle groups keep their bits."""
        rule, index, codes = self._rule(), rows.index, rows.codes
        positive = np.maximum(base.take(index), 0.0)
        unit = rows.lengths if rule.conserve == "token" else None
        acting = Acting(codes, rows.num_groups, positive, weights, unit)
        before = acting.mass(positive)
        gain = self._gain(acting, before)
        on = result.reason == ACTED
        result.reason[on & ~np.isfinite(gain.lambda_)] = TOO_SMALL
        result.reason[on & ~(before > 0.0)] = NO_POSITIVE
        done = result.reason == ACTED
        recentred = gain.capped & done & rule.recentre_capped
        new = np.multiply(gain.rows, positive, out=gain.rows)
        _put_back(new, ~done.take(codes), base, index)
        negative = base.take(index) < 0.0
        if rule.negative_pass == "keep":
            _put_back(new, negative, base, index)
        elif negative.any():
            recentred |= group_any(negative, codes, rows.num_groups) & done
        result.advantages[index] = new
        if recentred.any():
            self._recentre(result, acting.total(base.take(index)) - acting.total(new), recentred, rows)
            new = result.advantages.take(index)
        after = acting.mass(np.maximum(new, 0.0, out=new))
        np.divide(after, before, out=result.positive_mass_kept, where=done)
        result.lambda_[done], result.capped[done] = gain.lambda_[done], gain.capped[done]
        result.weights = np.ones(len(base))
        result.weights[index] = weights
        result.weights[index.take(np.flatnonzero(~done.take(codes)))] = 1.0

    def _gain(self, acting: Acting, total: Floats) -> Gain:
        """Multipliers of A⁺; ``total`` (G,) is the mass to conserve."""
        raise NotImplementedError

    def _recentre(self, result: Redistributed, missing: Floats, where: Bools, rows: PassingRows) -> None:
        """Spread a group's missing sum over all its rows, so that the group's sum is that of the base."""
        # Adding -0.0 leaves every bit of a group that is not recentred, 0.0 would turn -0.0 into 0.0.
        shift = np.where(where, missing / np.maximum(rows.size, 1), -0.0)
        result.advantages += shift.take(rows.all_codes)

    def _leave_one_out(self, result: Redistributed, base: Floats, weights: Floats, rows: PassingRows) -> None:
        """All-pass groups with a zero base: ``beta * n / (n - 1) * (q - mean(q))``, q the rank percentile.

        The order is that of the ranks in groups that have them, else that of the weights.
        """
        flat = ~group_any(base.take(rows.index) != 0.0, rows.codes, rows.num_groups)
        chosen = np.isin(result.reason, (NO_POSITIVE, TIED)) & (rows.passes == rows.size) & flat
        chosen &= rows.passes > 1
        if not chosen.any():
            return
        on = chosen[rows.codes]
        codes, n = rows.codes[on], rows.passes.astype(np.float64)[rows.codes[on]]
        order = -weights[on]
        if rows.ranks is not None:
            ranks = rows.ranks[on]
            order = np.where(group_any(np.isnan(ranks), codes, rows.num_groups)[codes], order, ranks)
        percentile = 1.0 - (average_ranks(order, codes, rows.num_groups) - 1.0) / (n - 1.0)
        size = self.beta * (1.0 - self.shrink)
        values = size * n / (n - 1.0) * (percentile - 0.5)
        result.advantages[rows.index[on]] = values
        result.reason[group_any(values != 0.0, codes, rows.num_groups)] = ACTED


def _put_back(values: Floats, flags: Bools, base: Floats, index: Ints) -> None:
    """Give flagged rows (P,) of ``values`` the base advantage at their ``index``."""
    rows = np.flatnonzero(flags)
    values[rows] = base.take(index.take(rows))


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

    def _gain(self, acting: Acting, total: Floats) -> Gain:
        factor, lambda_, weights = rescale_factor(acting, total)
        capped = np.zeros(acting.num_groups, np.bool_)
        if self.lambda_max:
            capped = (lambda_ > self.lambda_max) & np.isfinite(lambda_)
            # Cut the factor in the same proportion: it may refer to weights in another unit than λ.
            factor[capped] *= self.lambda_max / lambda_[capped]
            lambda_[capped] = self.lambda_max
        return Gain(factor.take(acting.codes) * weights, lambda_, capped)


@dataclass(kw_only=True)
class Paper(SumPreserving):
    """The paper's rule: λ at most 1.5, passing rows with a negative base clipped to 0, then recentred."""

    lambda_max: float = 1.5
    """Largest rescale factor, >= 1; 0 = no cap."""
    negative_pass: str = "clip"
    """A passing row with a negative base: keep (untouched) | clip (0, then the group is recentred)."""


def rescale_factor(acting: Acting, total: Floats) -> tuple[Floats, Floats, Floats]:
    """``S / W`` for weights in a safe unit (G,), λ for the weights as they are (G,), and the former (P,).

    Shares do not change when a group's weights are divided by their largest one. Only groups with weights so
    small that products would leave the normal range are, so ordinary groups keep their bits. Where W is 0
    all the same, λ is infinite; a λ too large for a float is shown as the largest one.
    """
    weights, unit = acting.weights, np.ones(acting.num_groups)
    tiny = weights < _TINY
    if tiny.any():
        counted = np.where(acting.positive > 0.0, weights, 0.0)
        largest = group_max(counted, acting.codes, acting.num_groups)
        small = group_any(tiny, acting.codes, acting.num_groups) & (largest > 0.0)
        unit[small] = largest[small]
        with np.errstate(over="ignore"):
            # Above the unit are only rows without positive base, and their weight does not matter.
            weights = np.minimum(weights / unit.take(acting.codes), 1.0)
    weighted = acting.mass(weights * acting.positive)
    possible = weighted > 0.0
    with np.errstate(over="ignore"):
        factor = np.divide(total, weighted, out=np.zeros(acting.num_groups), where=possible)
        lambda_ = np.minimum(factor / unit, np.finfo(np.float64).max)
    possible &= np.isfinite(factor)
    factor[~possible] = 0.0
    return factor, np.where(possible, lambda_, np.inf), weights
