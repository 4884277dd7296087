"""What graders were worth: how well they tell right from lucky, against what training made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.metrics import METRICS
from analysis.plots.drawing import Drawing, Section, finish, n_words, say
from analysis.plots.points import key_height, key_list, mark
from analysis.plots.style import MAX_SHOWN, MAX_TOGETHER, Look, new_figure, place_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def grader_value(
    sweep: Section, looks: Mapping[str, Look], measure: str = "right_over_lucky", key: str = "held_out_audit"
) -> Drawing | None:
    """Agreement of each grader with the label tests, against the effect of training with it."""
    effects = {c["variant"]: c for c in sweep["comparisons"] if c["metric"] == key and c["value"] is not None}
    rows = [
        row
        for row in sweep["graders"]
        if row["label"] in effects and row["agreement"][measure]["value"] is not None
    ]
    if len(rows) < 2:
        return None
    total, rows = len(rows), rows[:MAX_SHOWN]
    rows.sort(key=lambda row: (row["agreement"][measure]["value"], row["label"]))
    labels = [row["label"] for row in rows]
    real = {row["label"] for row in rows if not row["upper_bound"]}
    numbered = len(rows) > MAX_TOGETHER
    figure, grid = new_figure(height=2.7 + (key_height(labels) if numbered else 0))
    axes: Axes = grid[0, 0]
    axes.axhline(0, color="#000000", lw=0.8)
    axes.axvline(0.5, color="#888888", lw=0.8, ls=":")
    for row in rows:
        _point(
            axes, row["agreement"][measure], effects[row["label"]], looks[row["label"]], row["label"] in real
        )
    axes.margins(x=0.12, y=0.12)
    texts = [str(i) for i in range(1, len(rows) + 1)] if numbered else [looks[label].name for label in labels]
    places = [(r["agreement"][measure]["value"], effects[r["label"]]["value"]) for r in rows]
    place_names(
        axes,
        [(x, y, text, looks[la].colour) for (x, y), text, la in zip(places, texts, labels, strict=True)],
        places,
    )
    axes.set_xlabel("right above lucky: share of pairs, before training", fontsize=8)
    figure.supylabel(f"{METRICS[key].label}: difference", fontsize=8)
    if numbered:
        key_list(figure, labels, looks, real)
    alt = "; ".join(
        f"{label}: right above lucky {say(row['agreement'][measure])}, {say(effects[label])}"
        for row, label in zip(rows, labels, strict=True)
    )
    caption = (
        "Across: how often a grader ranks a right program above a lucky one on held-out groups (dotted: "
        f"chance). Up: {METRICS[key].label}, variant - {sweep['baseline']}. Bars: 95 % t intervals; hollow: "
        f"upper bound, reads the label tests. {len(rows)} of {total} judged graders. " + n_words(sweep, key)
    )
    return finish(figure, "grader_value", "What graders see and what it does", caption, alt)


def _point(axes: Axes, x: Mapping[str, Any], y: Mapping[str, Any], look: Look, real: bool) -> None:
    if x["interval"]:
        ends = [x["interval"]["low"], x["interval"]["high"]]
        axes.plot(ends, [y["value"]] * 2, color=look.colour, lw=0.7, alpha=0.7)
    if y["interval"]:
        ends = [y["interval"]["low"], y["interval"]["high"]]
        axes.plot([x["value"]] * 2, ends, color=look.colour, lw=0.7, alpha=0.7)
    axes.plot([x["value"]], [y["value"]], **mark(look, filled=real))
