"""What single settings do: tornado, two-factor grid, and profiles over tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.metrics import METRICS
from analysis.naming import fitted
from analysis.plots.drawing import Drawing, Section, finish, n_words, say, shown_words
from analysis.plots.stacks import end_labels, highlight_words, highlighted, line, stack, styled
from analysis.plots.style import MAX_SHOWN, Look, new_figure
from analysis.statistics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def tornado(sweep: Section, looks: Mapping[str, Look], key: str = "held_out_pass") -> Drawing | None:
    """Effect of changing one axis of the baseline, largest at the top."""
    effects = {c["variant"]: c for c in sweep["comparisons"] if c["metric"] == key and c["value"] is not None}
    rows = [(one, effects[one["label"]]) for one in sweep["factors"]["one_factor"] if one["label"] in effects]
    if len(rows) < 2:
        return None
    rows.sort(key=lambda pair: (abs(pair[1]["value"]), pair[0]["label"]))
    total, rows = len(rows), rows[-MAX_SHOWN:]
    figure, grid = new_figure(height=0.9 + 0.36 * len(rows))
    axes = grid[0, 0]
    for y, (one, effect) in enumerate(rows):
        colour = looks[one["label"]].colour
        axes.barh(y, effect["value"], height=0.5, color=colour, alpha=0.35, lw=0)
        if effect["interval"]:
            axes.plot([effect["interval"]["low"], effect["interval"]["high"]], [y, y], color=colour, lw=1.8)
        axes.plot([effect["value"]], [y], marker=looks[one["label"]].marker, ms=4, color=colour)
    axes.axvline(0, color="#000000", lw=0.8)
    names = [f"{one['axis']}:\n{_cut(one['from'])} → {_cut(one['to'])}" for one, _ in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=6)
    axes.grid(visible=False, axis="y")
    figure.supxlabel(f"{METRICS[key].label}: change against baseline", fontsize=8)
    alt = "; ".join(
        f"{one['axis']} {one['from']} to {one['to']}: {say(effect)}" for one, effect in reversed(rows)
    )
    caption = (
        f"Variants that differ from {sweep['baseline']} in one setting, ordered by effect; bar: 95 % t "
        "interval of the paired difference. " + shown_words(len(rows), total) + n_words(sweep, key)
    )
    return finish(figure, "tornado", "One setting changed at a time", caption, alt)


def _cut(text: str) -> str:
    """Cut in the middle: settings tend to differ at their ends."""
    return fitted(text, 22, 1)


def two_factor(sweep: Section, looks: Mapping[str, Look], key: str = "held_out_pass") -> Drawing | None:
    """Heat map of the fullest crossed pair of settings, centred on the baseline's cell."""
    if not sweep["factors"]["grids"]:
        return None
    grid = max(sweep["factors"]["grids"], key=lambda g: sum(c is not None for row in g["cells"] for c in row))
    cells = grid["metrics"][key]["values"]
    table = np.array(
        [[np.nan if c is None or c["value"] is None else c["value"] for c in row] for row in cells]
    )
    if not np.isfinite(table).any():
        return None
    alt = "; ".join(
        f"{row} / {column}: {'no run' if np.isnan(table[i, j]) else format(table[i, j], '.3f')}"
        for i, row in enumerate(grid["rows"])
        for j, column in enumerate(grid["columns"])
    )
    contrasts = grid["metrics"][key]["interactions"]
    words = "; ".join(
        f"{grid['rows'][c['row']]} with {grid['columns'][c['column']]}: {say(c)}" for c in contrasts
    )
    caption = (
        f"{METRICS[key].label}, mean over seeds; colours centred on the first cell, hatched: not run. "
        f"Interaction (does one change depend on the other): {words}. " + n_words(sweep, key)
    )
    figure = heat_map(table, grid["axes"], grid["rows"], grid["columns"])
    return finish(figure, "two_factor", f"{grid['axes'][0]} × {grid['axes'][1]}", caption, alt)


def heat_map(table: Floats, axes_names: list[str], rows: list[str], columns: list[str]) -> Figure:
    """One cell per pair; the setting with more levels runs downwards, where names have room."""
    if len(columns) > len(rows):
        table, axes_names, rows, columns = table.T, axes_names[::-1], columns, rows
    centre = table[0, 0] if np.isfinite(table[0, 0]) else float(np.nanmean(table))
    reach = max(1e-9, float(np.nanmax(np.abs(table - centre))))
    names = [_cut(column) for column in columns]
    turned = max(map(len, names)) * _LETTER > _MAP_WIDTH / len(columns)
    figure, panel = new_figure(height=0.9 + 0.34 * len(rows) + (0.05 * max(map(len, names)) if turned else 0))
    axes: Axes = panel[0, 0]
    axes.pcolormesh(table, cmap="PuOr", vmin=centre - reach, vmax=centre + reach, edgecolors="white", lw=1)
    tight = len(columns) > 6
    for (i, j), value in np.ndenumerate(table):
        if np.isnan(value):
            axes.add_patch(_hatched(j, i))
            continue
        dark = abs(value - centre) > 0.65 * reach
        axes.text(
            j + 0.5, i + 0.5, f"{value:.2f}" if tight else f"{value:.3f}", ha="center", va="center",
            fontsize=5.5 if tight else 7, color="white" if dark else "black",
        )  # fmt: skip
    axes.set_xticks(np.arange(len(columns)) + 0.5, names, fontsize=6.5)
    if turned:
        axes.tick_params(axis="x", labelrotation=90)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [_cut(row) for row in rows], fontsize=6.5)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel(axes_names[1], fontsize=8)
    axes.set_ylabel(axes_names[0], fontsize=8)
    return figure


_LETTER, _MAP_WIDTH = 0.055, 2.3
"""Inches of a letter of a tick label, and of a heat map less its labels."""


def _hatched(x: float, y: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), 1, 1, facecolor="white", edgecolor="#999999", hatch="///", lw=0)


def profile(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """Share of tasks solved more often than a threshold."""
    rows = {row["label"]: row["profile"] for row in sweep["tasks"] if row["profile"]}
    if not rows:
        return None
    chosen = highlighted(sweep, list(rows))
    look = styled(sweep, looks, chosen)
    figure, panels = stack(1, look, height=1.7)
    axes = panels[0]
    for label, one in rows.items():
        pale = label not in chosen
        line(axes, one["threshold"], one["share"], looks[label] if pale else look[label], pale=pale)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    end_labels(axes, look, {label: rows[label]["share"][-1] for label in chosen})
    axes.set_xlabel("pass rate of a task", fontsize=8)
    figure.supylabel("share of tasks above it", fontsize=8)
    middle = len(next(iter(rows.values()))["threshold"]) // 2
    alt = "; ".join(
        f"{label}: {one['share'][middle]:.2f} of tasks above {one['threshold'][middle]:.2f}"
        for label, one in rows.items()
    )
    caption = (
        "Performance profile: share of held-out tasks whose pass rate, averaged over runs, lies "
        "above a threshold. " + highlight_words(sweep, chosen, len(rows)) + n_words(sweep, "held_out_pass")
    )
    return finish(figure, "profile", "Profile over tasks", caption, alt)
