"""Panels one above the other, a column wide: readable on a phone, in a journal and in print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.drawing import Section
from analysis.plots.style import MAX_TOGETHER, Look, label_ends, new_stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALE = "#d0d0d0"


def highlighted(sweep: Section, labels: Sequence[str]) -> list[str]:
    """Which of ``labels`` are drawn in colour, the same in every figure of a sweep; the others are grey.

    Of up to five variants all, else the baseline and the largest differences to it (without a baseline the
    first ones). If a figure shows none of these, its own first five.
    """
    chosen = set(coloured(sweep))
    return [label for label in labels if label in chosen] or list(labels[:MAX_TOGETHER])


def coloured(sweep: Section) -> list[str]:
    """Variants of a sweep that have a colour of their own."""
    labels = [variant["label"] for variant in sweep["variants"]]
    if len(labels) <= MAX_TOGETHER:
        return labels
    effect = {
        row["variant"]: abs(row["value"])
        for row in sweep["comparisons"]
        if row["metric"] == "held_out_pass" and row["value"] is not None
    }
    ordered = sorted(labels, key=lambda label: (label != sweep["baseline"], -effect.get(label, -1.0)))
    chosen = set(ordered[:MAX_TOGETHER])
    return [label for label in labels if label in chosen]


def highlight_words(sweep: Section, chosen: Sequence[str], total: int) -> str:
    """What the caption says of variants drawn in grey."""
    if len(chosen) == total:
        return ""
    rest = f"grey: the other {total - len(chosen)}. "
    if sweep["baseline"] is None:
        return f"In colour: the first {len(chosen)} variants; {rest}"
    return (
        f"In colour: of the baseline and the {MAX_TOGETHER - 1} largest differences to it in held-out pass "
        f"those that are here ({len(chosen)}); {rest}"
    )


def styled(sweep: Section, looks: Mapping[str, Look], chosen: Sequence[str]) -> dict[str, Look]:
    """Looks of variants drawn in colour: their own, or fresh ones in a figure that shows none of those."""
    from analysis.plots.style import looks as fresh

    if set(chosen) <= set(coloured(sweep)):
        return {label: looks[label] for label in chosen}
    return fresh(chosen, None)


def line(
    axes: Axes,
    x: Sequence[Any],
    y: Sequence[Any],
    look: Look,
    *,
    pale: bool = False,
    solid: Sequence[bool] | None = None,
) -> None:
    """One mean line; a single point becomes a marker.

    ``solid`` is false where runs have begun to be missing: there the mean is over survivors, and dotted.
    """
    xs, ys = numbers(x), numbers(y)
    keep = np.isfinite(xs) & np.isfinite(ys)
    marker = look.marker if keep.sum() == 1 else ""
    if pale:
        axes.plot(xs[keep], ys[keep], color=PALE, lw=0.7, marker=marker, zorder=1)
        return
    whole = keep if solid is None else keep & np.asarray(solid, dtype=bool)
    axes.plot(xs[whole], ys[whole], color=look.colour, ls=look.dash, marker=marker, zorder=3)
    rest = np.flatnonzero(keep & ~whole)
    if rest.size:
        before = np.flatnonzero(whole)[-1:]
        tail = np.concatenate([before, rest])
        axes.plot(xs[tail], ys[tail], color=look.colour, ls=(0, (1, 2)), lw=1.0, zorder=3)


def solid_part(one: Mapping[str, Any]) -> list[bool]:
    """For each step of a summarised curve, whether every run that has any value has reached it."""
    until = -1 if one["solid_until"] is None else one["solid_until"]
    return [step <= until for step in one["step"]]


SURVIVORS = "dotted: after the first seed ended, over those left"
"""What captions say of the end of a line."""


def numbers(values: Sequence[Any]) -> np.ndarray:
    """Floats with NaN for null."""
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def end_labels(axes: Axes, looks: Mapping[str, Look], last: Mapping[str, float | None]) -> None:
    """Names at the right end of a panel, in the colour of their lines."""
    label_ends(
        axes,
        [(1.0, y, looks[label].name, looks[label].colour) for label, y in last.items() if y is not None],
    )


def last_value(x: Sequence[Any], y: Sequence[Any]) -> float | None:
    """The last y that exists."""
    found = [b for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    return found[-1] if found else None


def stack(panels: int, looks: Mapping[str, Look], height: float = 1.25) -> tuple[Figure, list[Axes]]:
    """``panels`` axes in a column, with room for the longest name at their right."""
    longest = max((len(row) for look in looks.values() for row in look.name.split("\n")), default=0)
    return new_stack(panels, height, right=0.12 + 0.062 * longest)


def widen_flat(axes: Axes) -> None:
    """Give a panel whose values are all equal a scale that shows them in the middle."""
    low, high = axes.get_ylim()
    if high - low < 1e-9 * max(1.0, abs(high)):
        pad = max(0.05, 0.1 * abs(high))
        axes.set_ylim(low - pad, high + pad)
