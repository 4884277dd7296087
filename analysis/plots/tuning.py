"""Every trial of a tuning against each searched setting, darker with its rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.naming import fitted
from analysis.plots.drawing import Drawing, Section, finish, n_words
from analysis.plots.style import Look, log_ticks, new_stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_PANELS = 6

_LETTERS = 58
"""Small letters that the width of a panel holds."""


def tuning(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """One scatter per setting, strongest rank correlation first; no interpolation between trials."""
    section = sweep["tuning"]
    if not section or section["n_complete"] < 2:
        return None
    complete = [trial for trial in section["trials"] if trial["value"] is not None]
    varied = [s for s in section["settings"] if len({str(t["params"].get(s["name"])) for t in complete}) > 1]
    ordered = sorted(varied, key=lambda s: (-abs(s["rank_correlation"] or 0.0), s["name"]))[:_MAX_PANELS]
    if not ordered:
        return None
    figure, panels = new_stack(len(ordered), 1.1, right=0.12, gap=0.45)
    for axes, setting in zip(panels, ordered, strict=True):
        _panel(axes, setting, complete, section["best"])
    figure.supylabel("objective", fontsize=8)
    alt = "; ".join(
        f"{s['name']}: rank correlation "
        + ("not defined" if s["rank_correlation"] is None else f"{s['rank_correlation']:.2f}")
        for s in ordered
    )
    caption = (
        f"{section['n_complete']} of {section['n_trials']} trials complete; each point is a trial's mean "
        f"over seeds, darker is better, ring: best. {section['note'].capitalize()}. "
        + n_words(sweep, "held_out_pass")
    )
    return finish(figure, "tuning", "Tuning: trials by setting", caption, alt)


def _panel(axes: Axes, setting: Mapping[str, Any], trials: list[Mapping[str, Any]], best: int | None) -> None:
    rows = [trial for trial in trials if setting["name"] in trial["params"]]
    y = np.array([trial["value"] for trial in rows], dtype=float)
    raw = [trial["params"][setting["name"]] for trial in rows]
    if setting["numeric"]:
        x = np.array(raw, dtype=float)
        _number_axis(axes, x)
    else:
        names = sorted({str(value) for value in raw})
        x = np.array([names.index(str(value)) for value in raw], dtype=float)
        axes.set_xticks(range(len(names)), staggered(names), fontsize=6, linespacing=0.9)
    axes.margins(x=0.06, y=0.16)
    rank = np.argsort(np.argsort(y)) / max(1, len(y) - 1)
    axes.scatter(x, y, c=rank, cmap="Blues", vmin=-0.4, vmax=1.0, s=14, edgecolors="#333333", linewidths=0.4)
    top = [i for i, trial in enumerate(rows) if trial["trial"] == best]
    axes.scatter(x[top], y[top], s=60, facecolors="none", edgecolors="#D55E00", linewidths=1.2)
    corr = setting["rank_correlation"]
    words = "" if corr is None else f"  (rank correlation {corr:.2f}, n = {len(rows)})"
    name = fitted(setting["name"], _LETTERS - len(words), 1)
    axes.set_title(f"{name}{words}", fontsize=7, loc="left", pad=2)


def staggered(names: Sequence[str]) -> list[str]:
    """Names that fit side by side: every other one a line lower if they are long."""
    width = _LETTERS // len(names) - 1
    if max(map(len, names)) <= width:
        return list(names)
    return ["\n" * (i % 2) + fitted(name, max(3, 2 * width), 1) for i, name in enumerate(names)]


def _number_axis(axes: Axes, x: np.ndarray) -> None:
    """A log scale for a setting over more than a factor of 50; whole ticks for whole numbers."""
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    if x.min() > 0 and x.max() / x.min() > 50:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(log_ticks(x.min() / 1.5, x.max() * 1.5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=bool((x == np.round(x)).all())))
