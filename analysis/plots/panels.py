"""Curves over training steps: up to five variants in one panel, more as small multiples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.curves import Curve
from analysis.metrics import METRICS, Metric
from analysis.plots.drawing import Drawing, Section, capital, finish, n_words, shown_words
from analysis.plots.style import (
    HEIGHT,
    MAX_SHOWN,
    MAX_TOGETHER,
    Look,
    label_ends,
    log_ticks,
    new_figure,
    short_names,
)
from analysis.series import decimated
from analysis.statistics import Floats
from analysis.study import DEAD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 3
_PALE = "#d5d5d5"

_MAX_OTHERS = 12
"""Up to this many other variants are drawn as pale lines in a small multiple; more as their range."""

SEED_POINTS = 12_000
"""Points of all thin lines of a figure together; more would make the page large and show no more."""

PANEL_NAME = 18
"""Letters of a line of a small multiple's title."""

PANEL_POINTS = 50
"""Points per line in a small multiple."""

Series = Mapping[str, Mapping[str, Any]]
"""variant -> its entry of ``curves`` in the report tree."""


def curve_figure(
    sweep: Section, curve: Curve, look: Mapping[str, Look], key: str, title: str
) -> Drawing | None:
    """One metric over steps for all variants; null if nothing was recorded."""
    labels = [label for label, s in sweep["curves"][key].items() if s["step"]]
    if not labels:
        return None
    total, labels = len(labels), labels[:MAX_SHOWN]
    series = {label: sweep["curves"][key][label] for label in labels}
    together = len(labels) <= MAX_TOGETHER
    draw = _together if together else _multiples
    figure = draw(sweep, curve, look, series, METRICS[key])
    alt = "; ".join(f"{label}: {_first_last(series[label])}" for label in labels)
    caption = (
        f"{capital(METRICS[key].label)} ({METRICS[key].unit}) over training steps. Line: mean over seeds; "
        f"thin lines: seeds (cross: died); dotted: after the first seed ended. "
        + _bucket_words(series, None if together else PANEL_POINTS)
        + _thin_words(curve)
        + ("" if together else _band_words(len(labels)))
        + shown_words(len(labels), total)
        + n_words(sweep, key)
    )
    return finish(figure, key, title, caption, alt)


def _together(
    sweep: Section, curve: Curve, look: Mapping[str, Look], series: Series, metric: Metric
) -> Figure:
    figure, grid = new_figure(height=HEIGHT)
    axes: Axes = grid[0, 0]
    for label, one in series.items():
        _seeds(axes, sweep, curve, label, look[label].colour)
        _mean_line(axes, one, look[label])
    _frame(figure, [axes], metric, series, curve)
    # only now do the axes stand: labels are placed by their fraction of the height
    ends = [(one["step"][-1], one["mean"][-1], look[n].name, look[n].colour) for n, one in series.items()]
    label_ends(axes, [end for end in ends if end[1] is not None])
    return figure


def _multiples(
    sweep: Section, curve: Curve, look: Mapping[str, Look], series: Series, metric: Metric
) -> Figure:
    rows = math.ceil(len(series) / _COLUMNS)
    figure, grid = new_figure(rows, _COLUMNS, height=0.5 + 1.05 * rows)
    names = short_names(series, width=PANEL_NAME, lines=2)
    panels = list(grid.flat)
    series = {label: coarse(one) for label, one in series.items()}
    for axes, (label, one) in zip(panels, series.items(), strict=False):
        _others(axes, series)
        _seeds(axes, sweep, curve, label, look[label].colour)
        _band(axes, one, look[label].colour)
        _mean_line(axes, one, look[label])
        axes.set_title(names[label], fontsize=6, color=look[label].colour, loc="left", pad=2, linespacing=0.9)
    for axes in panels[len(series) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(series) - _COLUMNS) : len(series)]:
        axes.tick_params(labelbottom=True)
    _frame(figure, panels[: len(series)], metric, series, curve)
    return figure


def coarse(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """The curve with at most ``PANEL_POINTS`` points, means of equally many: a panel is an inch wide."""
    width = -(-len(one["step"]) // PANEL_POINTS)
    if width <= 1:
        return one
    starts = np.arange(0, len(one["step"]), width)
    sizes = np.diff(np.append(starts, len(one["step"])))
    means = {
        name: (np.add.reduceat(_numbers(one[name]), starts) / sizes).tolist()
        for name in ("mean", "low", "high")
    }
    ends = [one["step"][i] for i in starts + sizes - 1]
    return {**one, **means, "step": ends, "n": [one["n"][i] for i in starts + sizes - 1]}


def _others(axes: Axes, series: Series) -> None:
    from matplotlib.collections import LineCollection

    if len(series) <= _MAX_OTHERS:
        lines = [np.column_stack([one["step"], _numbers(one["mean"])]) for one in series.values()]
        axes.add_collection(LineCollection(lines, colors=_PALE, linewidths=0.6, zorder=1))
        return
    steps = sorted({step for one in series.values() for step in one["step"]})
    table = np.full((len(series), len(steps)), np.nan)
    for row, one in zip(table, series.values(), strict=True):
        row[np.searchsorted(steps, one["step"])] = _numbers(one["mean"])
    axes.fill_between(
        steps, np.nanmin(table, axis=0), np.nanmax(table, axis=0), color="#eeeeee", lw=0, zorder=0
    )


def _seeds(axes: Axes, sweep: Section, curve: Curve, label: str, colour: str) -> None:
    from matplotlib.collections import LineCollection

    runs = [run for run in sweep["runs"] if run["variant"] == label]
    found, _ = decimated(curve.select(run["run_id"] for run in runs))
    lines, drawn = _points(found), _points(found.bucketed(seed_width(curve)))
    axes.add_collection(LineCollection(drawn, colors=colour, linewidths=0.5, alpha=0.3, zorder=2))
    dead = [line[-1] for run, line in zip(runs, lines, strict=True) if run["status"] in DEAD and line.size]
    if dead:
        x, y = np.transpose(dead)
        axes.plot(x, y, ls="", marker="x", ms=4, mew=1.0, color=colour, zorder=4)


def _points(curve: Curve) -> list[Floats]:
    return [np.column_stack([curve.steps, row])[np.isfinite(row)] for row in curve.values]


def seed_width(curve: Curve) -> int:
    """Steps averaged into one point of a seed's line, so that a figure of many runs stays small."""
    found, width = decimated(curve)
    return width * max(1, -(-found.steps.size * len(curve.run_ids) // SEED_POINTS))


def _mean_line(axes: Axes, one: Mapping[str, Any], look: Look) -> None:
    steps, mean = np.array(one["step"]), _numbers(one["mean"])
    until = one["solid_until"] if one["solid_until"] is not None else -1
    solid = steps <= until
    marker = look.marker if steps.size == 1 else ""
    axes.plot(steps[solid], mean[solid], color=look.colour, ls=look.dash, marker=marker, zorder=3)
    if (~solid).any():
        tail = np.flatnonzero(~solid)
        tail = np.insert(tail, 0, max(0, tail[0] - 1))
        axes.plot(steps[tail], mean[tail], color=look.colour, ls=(0, (1, 2)), lw=1.0, zorder=3)


def _band(axes: Axes, one: Mapping[str, Any], colour: str) -> None:
    axes.fill_between(
        one["step"], _numbers(one["low"]), _numbers(one["high"]), color=colour, alpha=0.15, lw=0, zorder=1
    )


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _limits(panels: Sequence[Axes], series: Series, low: float, high: float) -> None:
    """Limits from means and seeds: a band of three seeds may be wide enough to flatten everything else."""
    from matplotlib.ticker import MaxNLocator

    last = max(one["step"][-1] for one in series.values())
    first = min(one["step"][0] for one in series.values())
    beside = 0.03 * (last - first) if last > first else 1.0
    pad = 0.04 * (high - low) if high > low else max(0.05, 0.1 * abs(high))
    for axes in panels:
        axes.set_xlim(first - beside, last + beside)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4 if len(panels) > 1 else 6))
        axes.set_ylim(low - pad, high + pad)


def _frame(figure: Figure, panels: Sequence[Axes], metric: Metric, series: Series, curve: Curve) -> None:
    values = curve.values[np.isfinite(curve.values)]
    low, high = float(values.min()), float(values.max())
    _limits(panels, series, low, high)
    for axes in panels:
        if metric.unit == "tokens" and low > 0:
            _log_scale(axes, low, high)
        elif metric.unit in ("share", "per trajectory"):
            axes.set_ylim(bottom=0)
            if metric.unit == "share" and metric.better != "lower":
                axes.set_ylim(top=1.02)
    figure.supxlabel("training step", fontsize=8)
    unit = "" if metric.unit.startswith("per") else f" ({metric.unit})"
    figure.supylabel(f"{metric.label}{unit}", fontsize=8)


def _log_scale(axes: Axes, low: float, high: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("log")
    axes.set_ylim(low / 1.1, high * 1.1)
    axes.yaxis.set_major_locator(FixedLocator(log_ticks(low / 1.1, high * 1.1)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _first_last(one: Mapping[str, Any]) -> str:
    return (
        f"{one['mean'][0]:.3g} at step {one['step'][0]}, {one['mean'][-1]:.3g} at step {one['step'][-1]}, "
        f"n = {one['n'][-1]}"
    )


def _bucket_words(series: Series, points: int | None) -> str:
    """How many steps a point stands for, if several; ``points`` is the most that a line may have."""
    widths = {one["bucket"] * (-(-len(one["step"]) // points) if points else 1) for one in series.values()}
    return f"Points are means of {max(widths)} steps. " if max(widths) > 1 else ""


def _thin_words(curve: Curve) -> str:
    width = seed_width(curve)
    return f"Thin lines are means of {width} steps. " if width > decimated(curve)[1] else ""


def _band_words(variants: int) -> str:
    pale = "the other variants" if variants <= _MAX_OTHERS else "range of all variants"
    return f"Band: 95 % t interval over seeds (cut at the frame); grey: {pale}. "
