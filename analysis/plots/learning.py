"""Held-out pass over what it cost, and over seeds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.drawing import Drawing, Section, finish, n_words, shown_words
from analysis.plots.panels import PANEL_NAME
from analysis.plots.stacks import (
    SURVIVORS,
    end_labels,
    highlight_words,
    highlighted,
    last_value,
    line,
    numbers,
    solid_part,
    stack,
    styled,
)
from analysis.plots.style import MAX_SHOWN, NAME_WIDTH, Look, new_figure, short_names
from analysis.study import DEAD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AXES = {"step": "training steps", "tokens": "generated tokens", "cpu_s": "CPU seconds, artifacts included"}

_ZOOM = 0.4
"""Where all values lie above this share of the largest, a pass axis need not start at 0."""


def learning(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """Held-out pass on three x axes: dynamic sampling and grading change the price of a step."""
    series = {label: one for label, one in sweep["learning"]["variants"].items() if one["step"]}
    if not series:
        return None
    chosen = highlighted(sweep, list(series))
    look = styled(sweep, looks, chosen)
    axes_with_data = [a for a in _AXES if any(v is not None for one in series.values() for v in one[a])]
    figure, panels = stack(len(axes_with_data), look)
    camps = two_camps(sweep)
    all_drawn = len(chosen) == len(series)
    floor = pass_floor(one["runs"] for one in series.values())
    for axes, axis in zip(panels, axes_with_data, strict=True):
        for label, one in series.items():
            pale = label not in chosen
            middle = one["median"] if label in camps else one["mean"]
            style = looks[label] if pale else look[label]
            line(axes, one[axis], middle, style, pale=pale, solid=solid_part(one))
            if not pale:
                _runs(axes, sweep, label, one["runs"], axis, look[label].colour, lines=all_drawn)
        axes.set_xlabel(_axis_name(sweep, axis), fontsize=7, labelpad=1)
        _pass_axis(axes, floor, whole=axis == "step")
    middles = {n: (series[n]["median"] if n in camps else series[n]["mean"]) for n in chosen}
    ends = {label: last_value(series[label]["step"], middles[label]) for label in chosen}
    end_labels(panels[0], look, ends)
    figure.supylabel("held-out pass (share)", fontsize=8)
    alt = "; ".join(_words(label, one) for label, one in series.items())
    caption = (
        "Held-out pass over training steps, generated tokens and CPU seconds (mean cost reached at each "
        f"evaluation). {_artifact_words(sweep)}Line: mean over seeds; "
        f"{'thin: seeds (cross: died)' if all_drawn else 'crosses: seeds that died'}; {SURVIVORS}. "
        + floor_words(floor)
        + camp_words(camps)
        + highlight_words(sweep, chosen, len(series))
        + n_words(sweep, "held_out_pass")
    )
    return finish(figure, "learning", "Learning curves: by step, token and CPU second", caption, alt)


def _axis_name(sweep: Section, axis: str) -> str:
    if axis == "cpu_s" and sweep["learning"]["artifacts_unknown"]:
        return "CPU seconds, artifacts not known"
    return _AXES[axis]


def _artifact_words(sweep: Section) -> str:
    why = sweep["learning"]["artifacts_unknown"]
    return f"CPU seconds leave out artifacts: {why}. " if why else ""


def _words(label: str, one: Mapping[str, Any]) -> str:
    text = (
        f"{label}: {one['mean'][0]:.3f} at step {one['step'][0]}, {one['mean'][-1]:.3f} at {one['step'][-1]}"
    )
    if one["tokens"][-1] is not None:
        text += f", after {one['tokens'][-1]:,.0f} generated tokens"
    if one["cpu_s"][-1] is not None:
        text += f" and {one['cpu_s'][-1]:,.0f} CPU s"
    return f"{text} (n = {one['n'][-1]})"


def _runs(
    axes: Axes,
    sweep: Section,
    label: str,
    runs: Mapping[str, Any],
    axis: str,
    colour: str,
    *,
    lines: bool = True,
) -> None:
    from matplotlib.collections import LineCollection

    dead = {run["run_id"] for run in sweep["runs"] if run["status"] in DEAD}
    drawn = {i: np.column_stack([numbers(one[axis]), numbers(one["pass"])]) for i, one in runs.items()}
    if lines:
        axes.add_collection(LineCollection(list(drawn.values()), colors=colour, lw=0.5, alpha=0.35, zorder=2))
    ends = np.array([line[-1] for run_id, line in drawn.items() if run_id in dead]).reshape(-1, 2)
    if ends.size:
        axes.plot(*ends.T, ls="", marker="x", ms=4, mew=1.0, color=colour, zorder=4)


def _free_corner(runs: Collection[Mapping[str, Any]], floor: float) -> float:
    """Height for words at the right of a panel: below the lines, or above them where they end low."""
    ends = [
        (value - floor) / (1.02 - floor) for one in runs for value in one["pass"][len(one["pass"]) // 2 :]
    ]
    low = sum(value < 0.2 for value in ends)
    high = sum(value > 0.8 for value in ends)
    return 0.88 if low > high else 0.05


def pass_floor(variants: Iterable[Mapping[str, Any]]) -> float:
    """Where a pass axis starts: at 0, or at a tenth below all values if they lie far from 0."""
    values = [v for runs in variants for one in runs.values() for v in one["pass"] if v is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return math.floor(10 * low) / 10 if low > _ZOOM * high else 0.0


def floor_words(floor: float) -> str:
    """That an axis does not start at 0, if so."""
    return f"The pass axis starts at {floor:g}, not at 0. " if floor else ""


def _pass_axis(axes: Axes, floor: float, *, whole: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    top = axes.get_ylim()[1]
    axes.set_ylim(floor, max(floor + 0.2, min(1.02, top + 0.1 * (top - floor))))
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=whole))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 10_000 else f"{value:g}")


def two_camps(sweep: Section) -> set[str]:
    """Variants whose seeds fall into two camps: their median is drawn."""
    return {v["label"] for v in sweep["stability"]["variants"] if v["seeds"]["bistable"]}


def camp_words(camps: set[str]) -> str:
    """What a caption says of medians."""
    if not camps:
        return ""
    return f"Seeds fall into two camps, so the line is their median: {', '.join(sorted(camps))}. "


def seeds(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """Every seed of every variant, one panel each; the worst is named, a dead one ends in a cross."""
    series = {label: one for label, one in sweep["learning"]["variants"].items() if one["runs"]}
    if not series:
        return None
    shown = list(series)[:MAX_SHOWN]
    columns = min(3, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure, grid = new_figure(rows, columns, height=0.5 + (1.6 if rows == 1 else 1.05 * rows))
    names = short_names(shown, width=PANEL_NAME if columns == 3 else NAME_WIDTH, lines=2)
    # one panel is laid out by the solver, several by hand
    panels = list(grid.flat)
    worst = {v["label"]: v["seeds"]["worst_run"] for v in sweep["stability"]["variants"]}
    seed_of = {run["run_id"]: run["seed"] for run in sweep["runs"]}
    floor = pass_floor(series[label]["runs"] for label in shown)
    for axes, label in zip(panels, shown, strict=False):
        _runs(axes, sweep, label, series[label]["runs"], "step", looks[label].colour)
        low = series[label]["runs"].get(worst.get(label) or "")
        if low and len(series[label]["runs"]) > 1:
            axes.plot(low["step"], numbers(low["pass"]), color=looks[label].colour, lw=1.2, zorder=3)
            words = f"worst: seed {seed_of[worst[label]]}"
            height = _free_corner(series[label]["runs"].values(), floor)
            axes.text(0.97, height, words, transform=axes.transAxes, fontsize=6, ha="right")
        axes.set_title(
            names[label], fontsize=6, color=looks[label].colour, loc="left", pad=2, linespacing=0.9
        )
        _pass_axis(axes, floor, whole=True)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(shown) - columns) : len(shown)]:
        axes.tick_params(labelbottom=True)
    last = max(one["step"][-1] for one in series.values())
    for axes in panels[: len(shown)]:
        axes.set_ylim(floor, 1.02)
        axes.set_xlim(-0.03 * max(last, 1), 1.03 * max(last, 1))
    figure.supxlabel("training step", fontsize=8)
    figure.supylabel("held-out pass (share)", fontsize=8)
    spread = {v["label"]: v["seeds"] for v in sweep["stability"]["variants"]}
    alt = "; ".join(
        f"{label}: sd {spread[label]['sd']:.3g}, worst {spread[label]['worst']:.3g}"
        if spread[label]["sd"] is not None
        else f"{label}: {spread[label]['why']}"
        for label in shown
    )
    caption = (
        "Held-out pass of every run, one panel per variant; thick: the run that ended worst; cross: died. "
        + floor_words(floor)
        + shown_words(len(shown), len(series))
        + n_words(sweep, "held_out_pass")
    )
    return finish(figure, "seeds", "All seeds", caption, alt)
