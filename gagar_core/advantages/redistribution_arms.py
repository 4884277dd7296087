"""Other ways to redistribute: a cap per row that keeps the sum, and no rescale at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gagar_core.advantages.groups import group_max
from gagar_core.advantages.redistribution import Acting, Gain, Redistribution, Rule
from gagar_core.errors import check_choice, check_range
from gagar_core.protocols import Bools, Floats


@dataclass(kw_only=True)
class ShareCap(Redistribution):
    """Sum-preserving with each row's gain ``A*_i / A_i`` at most ``gain_max``; the cap moves no failing row.

    The excess is spread over the other passes in proportion to their weights (water-filling):
    ``A*_i = min(gain_max, μ f_i) A_i⁺`` with the one μ that keeps ``Σ u A⁺``. Our alternative to the paper's
    cap. r = [1, 1, 1, 0], f = [1, .2, .2], gain_max = 1.5 on a centred base gives
    [.375, .1875, .1875, -.75]. The μ is reported as ``lambda_``.
    """

    gain_max: float = 1.5
    """Largest ratio of redistributed to base advantage, >= 1; 1 = base advantages."""
    conserve: str = "sequence"
    """What stays over the passing rows: sequence (Σ A) | token (Σ A · length), to match the loss."""
    negative_pass: str = "keep"
    """A passing row with a negative base: keep (untouched) | clip (0, then the group is recentred)."""

    def _faults(self) -> list[str]:
        return [
            *super()._faults(),
            *check_range("gain_max", self.gain_max, 1),
            *check_choice("conserve", self.conserve, ("sequence", "token")),
            *check_choice("negative_pass", self.negative_pass, ("clip", "keep")),
        ]

    def _rule(self) -> Rule:
        return Rule(self.conserve, self.negative_pass, recentre_capped=False)

    def _gain(self, acting: Acting, total: Floats) -> Gain:
        full = np.zeros(len(acting.weights), np.bool_)
        lambda_ = np.ones(acting.num_groups)
        # Each round fills at least one more row, and filling raises the factor of the others.
        while True:
            left = total - self.gain_max * acting.mass(np.where(full, acting.positive, 0.0))
            gains = _spread(acting, full, np.maximum(left, 0.0), lambda_)
            over = ~full & (gains > self.gain_max)
            if not over.any():
                break
            full |= over
        capped = np.zeros(acting.num_groups, np.bool_)
        capped[acting.codes[full]] = True
        return Gain(np.where(full, self.gain_max, gains), lambda_, capped)


def _spread(acting: Acting, full: Bools, left: Floats, lambda_: Floats) -> Floats:
    """Gains (P,) that give each group's ``left`` mass to its rows that are not full; updates λ in place.

    Weights are divided by their group's largest among those rows, so that tiny ones do not leave the range.
    """
    largest = np.finfo(np.float64).max
    weights = np.where(full | ~(acting.positive > 0.0), 0.0, acting.weights)
    unit = group_max(weights, acting.codes, acting.num_groups)
    unit = np.where(unit > 0.0, unit, 1.0)
    weights = weights / unit.take(acting.codes)
    room = acting.mass(weights * acting.positive)
    some = room > 0.0
    with np.errstate(over="ignore"):
        factor = np.divide(left, room, out=np.zeros(acting.num_groups), where=some)
        factor = np.minimum(factor, largest)
        lambda_[some] = np.minimum(factor / unit, largest)[some]
    return factor.take(acting.codes) * weights


@dataclass(kw_only=True)
class DownweightOnly(Redistribution):
    """``A*_i = f_i A_i`` on passing rows with a positive base, without rescale: λ = 1.

    The paper's ablation: positive mass is lost, failing rows outweigh passing ones, entropy rises.
    r = [1, 1, 1, 0], f = [1, .85, .4] gives [.25, .2125, .1, -.75].
    """

    def _gain(self, acting: Acting, total: Floats) -> Gain:
        none = np.zeros(acting.num_groups, np.bool_)
        return Gain(acting.weights.copy(), np.ones(acting.num_groups), none)
