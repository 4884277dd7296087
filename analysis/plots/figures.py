"""The figures of a sweep: each draws one message from the report tree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analysis.curves import Curve
from analysis.metrics import METRICS
from analysis.plots.drawing import Drawing, Section, capital, finish, n_words, say, shown_words
from analysis.plots.effects import profile, tornado, two_factor
from analysis.plots.graders import grader_value
from analysis.plots.learning import learning, seeds
from analysis.plots.lengths import length_curves, pareto, ridges
from analysis.plots.panels import curve_figure
from analysis.plots.stacks import coloured
from analysis.plots.steadiness import grader_drift, strip
from analysis.plots.style import MAX_SHOWN, Look, in_style, looks, new_figure
from analysis.plots.tuning import tuning

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_FIGURES = {
    "hack_gap": "Hack gap",
    "train_pass": "Training pass rate",
    "train_test_runs": "Test runs per trajectory",
    "train_truncated": "Truncation rate",
}

Draw = Callable[[Section, Mapping[str, Look], Mapping[str, Curve]], "Drawing | None"]


def _plain(draw: Callable[[Section, Mapping[str, Look]], Drawing | None]) -> Draw:
    return lambda sweep, look, curves: draw(sweep, look)


def _curve(key: str, title: str) -> Draw:
    return lambda sweep, look, curves: curve_figure(sweep, curves[key], look, key, title)


def _forest(key: str) -> Draw:
    return lambda sweep, look, curves: forest(sweep, look, key)


def draw_all(
    sweep: Section, curves: Mapping[str, Curve], only: Collection[str] | None = None
) -> list[Drawing]:
    """Every figure of one sweep's section that has something to show, or those named in ``only``."""
    look = looks([variant["label"] for variant in sweep["variants"]], sweep["baseline"], coloured(sweep))
    with in_style():
        found = [draw(sweep, look, curves) for key, draw in FIGURES.items() if only is None or key in only]
    return [drawing for drawing in found if drawing is not None]


def held_out(sweep: Section, look: Mapping[str, Look]) -> Drawing | None:
    """Held-out pass from the SFT policy to the end: level, audit level, and all seeds."""
    rows = [(v["label"], v["values"]) for v in sweep["variants"]]
    rows = [(label, values) for label, values in rows if values["held_out_pass"]["value"] is not None]
    if not rows:
        return None
    total, rows = len(rows), rows[:MAX_SHOWN]
    figure, grid = new_figure(height=0.9 + 0.34 * len(rows))
    axes = grid[0, 0]
    axes.tick_params(axis="y", labelsize=6.5)
    runs = {run["run_id"]: run["values"] for run in sweep["runs"]}
    for y, (label, values) in enumerate(rows):
        _level_row(axes, y, look[label], values, runs)
    axes.set_yticks(range(len(rows)), [look[label].name for label, _ in rows])
    axes.set_ylim(len(rows) - 0.45, -0.55)
    bounds = [v["held_out_pass"]["interval"] for _, v in rows if v["held_out_pass"]["interval"]]
    axes.set_xlim(min([0.0, *(b["low"] for b in bounds)]), max([1.0, *(b["high"] for b in bounds)]) + 0.02)
    axes.grid(visible=False, axis="y")
    figure.supxlabel("share of held-out tasks solved", fontsize=8)
    alt = "; ".join(
        f"{label}: SFT {say(v['sft_pass'])}, final pass {say(v['held_out_pass'])}, "
        f"audit {say(v['held_out_audit'])}"
        for label, v in rows
    )
    caption = (
        "Tick: SFT policy. Large mark: final held-out pass, mean over seeds with 95 % t interval; "
        "dots: seeds. Cross: audit pass. " + shown_words(len(rows), total) + n_words(sweep, "held_out_pass")
    )
    return finish(figure, "held_out", "Held-out pass, before and after", caption, alt)


def _level_row(
    axes: Axes, y: int, look: Look, values: Mapping[str, Any], runs: Mapping[str, Mapping[str, float]]
) -> None:
    end, start, audit = values["held_out_pass"], values["sft_pass"], values["held_out_audit"]
    if start["value"] is not None:
        axes.plot([start["value"], end["value"]], [y, y], color=look.colour, lw=0.8, alpha=0.5)
        axes.plot([start["value"]], [y], marker="|", ms=9, color=look.colour, mew=1.2)
    _interval_bar(axes, y, end, look)
    axes.plot([end["value"]], [y], marker=look.marker, ms=5.5, color=look.colour)
    seeds = [runs[run_id]["held_out_pass"] for run_id in end["runs"]]
    axes.plot(seeds, [y + 0.24] * len(seeds), ls="", marker=".", ms=3.5, color=look.colour, alpha=0.6)
    if audit["value"] is not None:
        axes.plot([audit["value"]], [y], marker="x", ms=5, mew=1.2, color=look.colour)


def _interval_bar(
    axes: Axes, y: float, number: Mapping[str, Any], look: Look, key: str = "interval", width: float = 2.2
) -> None:
    if number[key]:
        axes.plot([number[key]["low"], number[key]["high"]], [y, y], color=look.colour, lw=width)


def forest(sweep: Section, look: Mapping[str, Look], key: str) -> Drawing | None:
    """Differences to the baseline with their intervals, ordered by effect."""
    rows = [c for c in sweep["comparisons"] if c["metric"] == key and c["value"] is not None]
    if not rows:
        return None
    rows.sort(key=lambda c: (c["value"], c["variant"]))
    total = len(rows)
    rows = rows if total <= MAX_SHOWN else rows[: MAX_SHOWN // 2] + rows[-MAX_SHOWN // 2 :]
    alike = len({row["n_used"] for row in rows}) == 1
    figure, grid = new_figure(height=0.9 + (0.3 if alike else 0.38) * len(rows))
    axes = grid[0, 0]
    axes.axvline(0, color="#000000", lw=0.8)
    for y, row in enumerate(rows):
        variant = look[row["variant"]]
        _interval_bar(axes, y, row, variant, "outer_interval", 0.7)
        _interval_bar(axes, y, row, variant)
        axes.plot([row["value"]], [y], marker=variant.marker, ms=5.5, color=variant.colour)
    names = [_forest_name(look, row, with_n=not alike) for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=6.5)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(*_forest_range(rows))
    axes.grid(visible=False, axis="y")
    metric = METRICS[key]
    figure.supxlabel(f"{metric.label}: difference to baseline ({metric.unit})", fontsize=8)
    alt = "; ".join(f"{row['variant']} - {row['against']}: {say(row)}" for row in rows)
    caption = (
        f"{capital(metric.label)}: variant - {sweep['baseline']}, paired by seed block where blocks pair. "
        "Thick bar: 95 % t interval; thin: simultaneous over all variants (cut at the frame); star: "
        "Holm-adjusted p <= .05. " + shown_words(len(rows), total) + n_words(sweep, key)
    )
    title = f"{capital(metric.label)}: difference to baseline"
    return finish(figure, f"difference_{key}", title, caption, alt)


def _forest_range(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Room for values and thick bars; thin bars of few seeds would squeeze everything else."""
    inner = [row["interval"] for row in rows if row["interval"]]
    ends = [row["value"] for row in rows] + [b[side] for b in inner for side in ("low", "high")]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    pad = 0.12 * (high - low) or 0.05
    return low - pad, high + pad


def _forest_name(look: Mapping[str, Look], row: Mapping[str, Any], *, with_n: bool) -> str:
    star = " *" if row["p_holm"] is not None and row["p_holm"] <= 0.05 else ""
    n = f"\nn = {row['n_used']}" if with_n else ""
    return f"{look[row['variant']].name}{star}{n}"


FIGURES: dict[str, Draw] = {
    "held_out": _plain(held_out),
    "difference_held_out_pass": _forest("held_out_pass"),
    "difference_held_out_audit": _forest("held_out_audit"),
    "difference_hack_gap": _forest("hack_gap"),
    "difference_tokens": _forest("tokens"),
    "difference_pass_at_tokens": _forest("pass_at_tokens"),
    "difference_pass_at_cpu": _forest("pass_at_cpu"),
    "learning": _plain(learning),
    "pareto": _plain(pareto),
    "length_curves": _plain(length_curves),
    "ridges": _plain(ridges),
    "stability_strip": _plain(strip),
    "seeds": _plain(seeds),
    "profile": _plain(profile),
    "tornado": _plain(tornado),
    "two_factor": _plain(two_factor),
    "grader_value": _plain(grader_value),
    "grader_drift": _plain(grader_drift),
    "tuning": _plain(tuning),
    **{key: _curve(key, title) for key, title in CURVE_FIGURES.items()},
}
"""Id of a figure -> how it is drawn; the order is that of the page."""
