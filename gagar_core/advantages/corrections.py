"""Corrections around the base and the redistribution, each one function without settings of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gagar_core.errors import InputError, check_range, gather
from gagar_core.protocols import Bools, Floats, Ints


def zero_hacks(rewards: ArrayLike, passed: ArrayLike, hacked: ArrayLike) -> tuple[Floats, Bools]:
    """Rewards (N,) with 0 and verdicts (N,) with False where ``hacked``; call it before group statistics.

    Zeroing an advantage afterwards instead would leave a group's sum off zero: r = [1, 1, 1, 0] with a hack
    in row 2 must become [.5, .5, -.5, -.5], not [.25, .25, 0, -.75].
    """
    cheats = np.asarray(hacked, dtype=np.bool_)
    honest = np.asarray(passed, dtype=np.bool_) & ~cheats
    return np.where(cheats, 0.0, np.asarray(rewards, dtype=np.float64)), honest


def size_factor(size: Ints, group_size: int) -> Floats:
    """``(1 - 1/group_size) / (1 - 1/n)`` for groups with n rows (G,), 0 for a lone row.

    A mean baseline contains the row itself, which shrinks the expected gradient by 1 - 1/n; the factor makes
    groups with dropouts count like whole ones. Exactly 1 for a whole group.
    """
    own = 1.0 - 1.0 / np.maximum(size, 1)
    wanted = 1.0 - 1.0 / group_size
    return np.divide(wanted, own, out=np.zeros(len(size)), where=own > 0)


def segment_penalty(
    advantages: Floats,
    flagged: Bools,
    codes: Ints | None = None,
    *,
    kappa: float = 2.0,
    scale_min: float = 0.5,
    scale_max: float = 2.0,
) -> Floats:
    """Move advantage away from flagged tokens and keep the mass of each sign (arXiv 2610.11959 Eq. 5).

    Flagged tokens with a positive advantage get 0 and the clean positive ones ``α = min(scale_max, 1 + H/C)``
    times their own, H and C the flagged and clean mass; flagged tokens with a negative advantage get
    ``kappa`` times and the clean ones ``β = max(scale_min, 1 - (kappa - 1) H/C)`` times their own. A sign
    without clean mass keeps scale 1. Mass is kept unless a bound is reached.

    Parameters
    ----------
    advantages, flagged
        (N, T) per token, 0 and False where masked.
    codes
        (N,) groups within which mass is kept; None = within the whole batch.
    kappa
        Factor on flagged tokens of negative advantage, >= 1.
    scale_min, scale_max
        Bounds of β and α, in [0, 1] and >= 1.
    """
    faults = check_range("kappa", kappa, 1) + check_range("scale_min", scale_min, 0, 1)
    gather(faults + check_range("scale_max", scale_max, 1), headline="invalid segment penalty")
    if advantages.shape != flagged.shape:
        msg = f"flagged must have the shape of advantages, {advantages.shape}; got {flagged.shape}"
        raise InputError(msg)
    scope = np.zeros(len(advantages), np.int64) if codes is None else codes
    up, down = np.maximum(advantages, 0.0), np.maximum(-advantages, 0.0)
    alpha = np.minimum(1.0 + _odds(up, flagged, scope), scale_max)[:, None]
    beta = np.maximum(1.0 - (kappa - 1.0) * _odds(down, flagged, scope), scale_min)[:, None]
    moved: Floats = np.where(flagged, 0.0, alpha * up) - np.where(flagged, kappa, beta) * down
    return moved


def _odds(mass: Floats, flagged: Bools, scope: Ints) -> Floats:
    """Flagged over clean mass of a row's scope (N,), 0 where nothing is clean."""
    bad = np.bincount(scope, weights=np.where(flagged, mass, 0.0).sum(axis=1))
    good = np.bincount(scope, weights=np.where(flagged, 0.0, mass).sum(axis=1))
    odds: Floats = np.divide(bad, good, out=np.zeros(len(good)), where=good > 0.0)[scope]
    return odds
