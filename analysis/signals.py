"""What went wrong in a signal of training: spikes, runaways, values that fell to nothing or blew up.

Signals are one value per step. Definitions and defaults are those printed in the report's glossary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.statistics import Floats
from analysis.trend import log_slope, percent_per_100

START = 5
"""Steps whose median is a signal's start."""

LOW, HIGH, PERSIST = 0.2, 3.0, 10
"""Entropy below LOW x start for PERSIST steps in a row has collapsed; above HIGH x start it exploded."""

SPIKE_WINDOW, SPIKE_Z, SPIKE_MIN = 50, 6.0, 10
"""Steps that a spike is judged against, how far it must stand out, and how many steps are enough."""

WINDOW = 10
"""Steps of a rolling mean."""

GONE = 0.1
"""A rate has collapsed when its rolling mean stays below this share of its peak."""

MIN_RATE = 0.05
"""A rate that never reached this cannot collapse."""

RUNAWAY, RUNAWAY_PERCENT = 2.0, 20.0
"""Length runs away at twice the start and still growing by this many percent per 100 steps."""

FLIP_R1, FLIP_SHARE = -0.75, 0.8
"""Differences that alternate: lag-1 autocorrelation at most, share of sign changes at least."""


def finite(values: ArrayLike, steps: ArrayLike) -> tuple[Floats, Floats]:
    """The finite values and their steps, in the order given."""
    y, t = np.asarray(values, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    keep = np.isfinite(y)
    return y[keep], t[keep]


def first_run(mask: ArrayLike, length: int) -> int | None:
    """Index at which the first stretch of ``length`` true values in a row begins."""
    flags = np.asarray(mask, dtype=bool)
    if flags.size < length:
        return None
    inside = np.convolve(flags.astype(int), np.ones(length, dtype=int), mode="valid")
    found = np.flatnonzero(inside == length)
    return int(found[0]) if found.size else None


@dataclass(frozen=True, slots=True)
class EntropyState:
    """``state``: steady, collapsed or exploded; ``onset`` an index."""

    state: str
    onset: int | None = None


def entropy_state(values: ArrayLike) -> EntropyState:
    """Whether entropy fell below a fifth, or rose above three times, the median of its first five steps.

    Either must last ten steps in a row; the earlier one counts.
    """
    y = np.asarray(values, dtype=np.float64)
    start = float(np.median(y[:START])) if y.size else math.nan
    if not start > 0:
        return EntropyState("steady")
    onsets = {
        "collapsed": first_run(y < LOW * start, PERSIST),
        "exploded": first_run(y > HIGH * start, PERSIST),
    }
    known = {name: onset for name, onset in onsets.items() if onset is not None}
    if not known:
        return EntropyState("steady")
    name = min(known, key=lambda key: known[key])
    return EntropyState(name, known[name])


def spikes(values: ArrayLike) -> list[int]:
    """Indices at which a positive signal stands out from the 50 steps before it.

    z = (x - median) / max(1.4826 MAD, .05 median) > 6, with at least 10 earlier values.
    """
    y = np.asarray(values, dtype=np.float64)
    if y.size <= SPIKE_MIN:
        return []
    # row i holds the up to 50 values before y[i], padded at its start
    padded = np.concatenate([np.full(SPIKE_WINDOW, np.inf), y])
    before = np.lib.stride_tricks.sliding_window_view(padded, SPIKE_WINDOW)[SPIKE_MIN : y.size]
    counts = np.minimum(np.arange(SPIKE_MIN, y.size), SPIKE_WINDOW)
    centre = _medians(before, counts)
    spread = _medians(np.abs(before - centre[:, None]), counts)
    scale = np.maximum(1.4826 * spread, 0.05 * np.abs(centre))
    found = (scale > 0) & (y[SPIKE_MIN:] - centre > SPIKE_Z * scale)
    return [int(i) for i in np.flatnonzero(found) + SPIKE_MIN]


def _medians(table: Floats, counts: NDArray[np.int64]) -> Floats:
    """Median of the ``counts`` smallest entries of each row; the rest is infinite padding."""
    ordered = np.sort(table, axis=1)
    rows = np.arange(len(ordered))
    return np.asarray((ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2]) / 2)


def change_after(values: ArrayLike, at: list[int], width: int = WINDOW) -> float | None:
    """Mean over events of (mean of the ``width`` values after) - (mean of the ``width`` up to it).

    Null without an event that has a value after it.
    """
    y = np.asarray(values, dtype=np.float64)
    changes = [
        float(y[i + 1 : i + 1 + width].mean() - y[max(0, i + 1 - width) : i + 1].mean())
        for i in at
        if i + 1 < y.size
    ]
    return float(np.mean(changes)) if changes else None


def rolling(values: ArrayLike, width: int = WINDOW) -> Floats:
    """Means of each full window of ``width`` values; fewer values than a window give one mean of all."""
    y = np.asarray(values, dtype=np.float64)
    if y.size == 0:
        return y
    width = min(width, y.size)
    total = np.concatenate([[0.0], np.cumsum(y)])
    return np.asarray((total[width:] - total[:-width]) / width)


def vanished(values: ArrayLike, width: int = WINDOW) -> int | None:
    """Index of the step at which a rate has fallen to a tenth of its peak for good, or null.

    Both are rolling means over 10 steps: a window below the threshold, and every later one too. A rate that
    never reached .05 had nothing to lose.
    """
    means = rolling(values, width)
    if means.size == 0 or means.max() < MIN_RATE:
        return None
    above = np.flatnonzero(means > GONE * means.max())
    last = int(above[-1])
    return None if last == means.size - 1 else last + 1 + min(width, len(np.asarray(values))) - 1


def ran_away(lengths: ArrayLike, steps: ArrayLike) -> bool:
    """Whether length at least doubled from the first to the last 10 steps and is still growing.

    Still growing: by 20 % or more per 100 steps over the last third. Needs 20 steps.
    """
    y, t = finite(lengths, steps)
    if y.size < 2 * WINDOW or y.min() <= 0 or y[-WINDOW:].mean() < RUNAWAY * y[:WINDOW].mean():
        return False
    third = max(WINDOW, y.size // 3)
    return percent_per_100(log_slope(t[-third:], y[-third:])) >= RUNAWAY_PERCENT


@dataclass(frozen=True, slots=True)
class Oscillation:
    """How a curve swings.

    ``r1``: lag-1 autocorrelation of the differences; ``flips``: share of sign changes; ``high``: share of
    power above a quarter cycle per point, after removing the line. Any is null where it does not exist (no
    variance, uneven spacing, too few points).
    """

    r1: float | None
    flips: float | None
    high: float | None

    @property
    def alternating(self) -> bool:
        """White noise around a trend already gives r1 of -.5: only well below that is it an oscillation."""
        return (
            self.r1 is not None and self.flips is not None and self.r1 <= FLIP_R1 and self.flips >= FLIP_SHARE
        )


def oscillation(values: ArrayLike, steps: ArrayLike) -> Oscillation:
    """How much a curve swings from point to point."""
    y, t = finite(values, steps)
    d = np.diff(y)
    if d.size < 3:
        return Oscillation(None, None, None)
    centred = d - d.mean()
    power = float(centred @ centred)
    r1 = float(centred[1:] @ centred[:-1]) / power if power > 1e-24 else None
    signs = np.sign(d[d != 0])
    flips = float((signs[1:] != signs[:-1]).mean()) if signs.size > 1 else None
    even = bool(np.allclose(np.diff(t), t[1] - t[0]))
    return Oscillation(r1, flips, _high_share(y) if even else None)


def _high_share(y: Floats) -> float | None:
    x = np.arange(y.size) - (y.size - 1) / 2
    rest = y - y.mean() - x * float(x @ (y - y.mean())) / float(x @ x)
    power = np.abs(np.fft.rfft(rest)[1:]) ** 2
    total = float(power.sum())
    frequency = np.fft.rfftfreq(y.size)[1:]
    return float(power[frequency > 0.25].sum()) / total if total > 1e-24 else None


def bistable(values: ArrayLike) -> bool:
    """Whether seeds fall into two camps: a mean would then describe a run that does not exist.

    At least four values whose largest gap is .15 or more and at least half of the range.
    """
    y = np.sort(np.asarray(values, dtype=np.float64))
    if y.size < 4:
        return False
    gap = float(np.diff(y).max())
    return gap >= 0.15 - 1e-12 and gap >= 0.5 * float(y[-1] - y[0])


def expected_kept(passed: ArrayLike, tried: ArrayLike, group: float) -> float | None:
    """Share of groups with both outcomes that tasks' pass rates p imply: mean of 1 - p^n - (1 - p)^n."""
    k, n = np.asarray(passed, dtype=np.float64), np.asarray(tried, dtype=np.float64)
    p = np.sort(k[n > 0] / n[n > 0])  # in whatever order tasks were met
    return float((1 - p**group - (1 - p) ** group).mean()) if p.size else None
