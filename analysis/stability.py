"""What went wrong in one curve: risk over time, collapse, regression.

Curves are held-out pass rates of a fixed task set, not training rewards: dynamic sampling changes the task
mix of training. Definitions of risk follow arXiv 1912.05663, with the upper tail for drawdowns (the lower
tail, as in its published code, calls a run that fell from .6 to .1 perfect).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.statistics import Floats, complete
from gagar_core.errors import InputError

MIN_GAIN = 0.05
"""A curve that never gained this much over its start cannot collapse."""

DROP_SHARE, RECOVERED_SHARE = 0.5, 0.25
"""Onset: half the gain is lost. Recovery: less than a quarter of the gain is missing again."""

CONFIRMING_POINTS = 3
"""Points after the onset that a collapse needs; with fewer it is only suspected."""

REGRESSION = 0.10
"""Fall of the last three points below the start that counts as regression."""


@dataclass(frozen=True, slots=True)
class Collapse:
    """``state``: none, suspected, transient or collapsed.

    ``onset`` is an index; ``drop`` the deepest fall below the peak from there to the recovery or the end;
    ``recovered_after`` is in points from the onset.
    """

    state: str
    onset: int | None = None
    drop: float | None = None
    recovered_after: int | None = None


def differences(values: ArrayLike, steps: ArrayLike | None = None) -> Floats:
    """First differences per step: (y_i - y_(i-1)) / (t_i - t_(i-1)); per point if no steps are given."""
    y = _curve(values)
    if steps is None:
        return np.diff(y)
    t = np.asarray(steps, dtype=np.float64)
    if t.shape != y.shape or (np.diff(t) <= 0).any():
        raise InputError("steps must rise and be as many as values")
    return np.asarray(np.diff(y) / np.diff(t))


def drawdowns(values: ArrayLike) -> Floats:
    """Fall below the running maximum, >= 0, per point."""
    y = _curve(values)
    return np.asarray(np.maximum.accumulate(y) - y)


def short_term_risk(values: ArrayLike, steps: ArrayLike | None = None, alpha: float = 0.05) -> float:
    """Mean of the differences at or below their alpha quantile; more negative is worse. No normalising."""
    d = differences(values, steps)
    return float(d[d <= np.quantile(d, alpha)].mean())


def long_term_risk(values: ArrayLike, alpha: float = 0.05) -> float:
    """Mean of the drawdowns at or above their (1 - alpha) quantile; larger is worse."""
    d = drawdowns(values)
    return float(d[d >= np.quantile(d, 1 - alpha)].mean())


def dispersion_over_time(values: ArrayLike, steps: ArrayLike | None = None) -> float:
    """Interquartile range of the differences."""
    low, high = np.quantile(differences(values, steps), [0.25, 0.75])
    return float(high - low)


def collapse(values: ArrayLike) -> Collapse:
    """Whether a curve lost what it had learned, and whether it came back.

    With running maximum M, gain G = M - y_0 and drop = M - y: a point is an onset when G >= .05 and the drop
    is at least half of G. Peak and gain are frozen there. If a later drop falls below a quarter of the
    frozen gain the fall was transient (the search goes on after the recovery); otherwise it is a collapse,
    or only suspected if fewer than three points follow.
    """
    y = _curve(values)
    found, start = Collapse("none"), 0
    while (onset := _onset(y, start)) is not None:
        peak = float(y[: onset + 1].max())
        later = peak - y[onset + 1 :]
        back = np.flatnonzero(later < RECOVERED_SHARE * (peak - y[0]))
        end = onset + 1 + int(back[0]) if back.size else y.size
        drop = peak - float(y[onset:end].min())
        if back.size == 0:
            state = "collapsed" if later.size >= CONFIRMING_POINTS else "suspected"
            return Collapse(state, onset, drop)
        if found.state == "none":
            found = Collapse("transient", onset, drop, end - onset)
        start = end + 1
    return found


def _onset(y: Floats, start: int) -> int | None:
    peak = np.maximum.accumulate(y)
    gain = peak - y[0]
    candidates: NDArray[np.int64] = np.flatnonzero((gain >= MIN_GAIN) & (peak - y >= DROP_SHARE * gain))
    later = candidates[candidates >= start]
    return int(later[0]) if later.size else None


def regressed(values: ArrayLike) -> bool:
    """Whether the median of the last three points lies .10 or more below the start."""
    y = _curve(values)
    return bool(y[0] - np.median(y[-3:]) >= REGRESSION - 1e-12)


def _curve(values: ArrayLike) -> Floats:
    y = complete(values)
    if y.ndim != 1 or y.size < 2:
        raise InputError(f"a curve needs two or more points; got shape {y.shape}")
    return y
