"""The figures: each draws one message from the report tree, with every seed behind the mean."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.curves import Curve
from analysis.metrics import METRICS
from analysis.series import decimated
from analysis.style import HEIGHT, MAX_TOGETHER, Look, in_style, label_ends, looks, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Drawing:
    """A finished figure: file stem, what it shows (caption), what it says (alt text), and its bytes."""

    key: str
    title: str
    caption: str
    alt: str
    png: bytes
    svg: bytes


_CURVE_FIGURES = (
    ("train_pass", "Training pass rate"),
    ("train_tokens_pass", "Length of passing trajectories"),
    ("train_tokens_fail", "Length of failing trajectories"),
    ("train_test_runs", "Test runs per trajectory"),
    ("train_truncated", "Truncation rate"),
)

_FOREST = ("held_out_pass", "held_out_audit", "tokens")

_Y_FROM_ZERO = ("share", "per trajectory")


def draw_all(sweep: Mapping[str, Any], curves: Mapping[str, Curve]) -> list[Drawing]:
    """Every figure of one sweep's section that has something to show."""
    labels = [variant["label"] for variant in sweep["variants"]]
    look = looks(labels, sweep["baseline"])
    with in_style():
        found = [_held_out(sweep, look)]
        found += [_curve_figure(sweep, curves, look, key, title) for key, title in _CURVE_FIGURES]
        found += [_forest(sweep, look, key) for key in _FOREST]
    return [drawing for drawing in found if drawing is not None]


def _held_out(sweep: Mapping[str, Any], look: Mapping[str, Look]) -> Drawing | None:
    """Held-out pass from the SFT policy to the end: level, audit level, and all seeds."""
    rows = [
        (variant["label"], variant["values"]) for variant in sweep["variants"]
        if variant["values"]["held_out_pass"]["value"] is not None
    ]  # fmt: skip
    if not rows:
        return None
    figure, grid = new_figure(height=0.9 + 0.34 * len(rows))
    axes = grid[0, 0]
    runs = {run["run_id"]: run["values"] for run in sweep["runs"]}
    for y, (label, values) in enumerate(rows):
        _level_row(axes, y, look[label], values, runs)
    axes.set_yticks(range(len(rows)), [look[label].name for label, _ in rows])
    axes.invert_yaxis()
    axes.set_ylim(len(rows) - 0.45, -0.55)
    bounds = [v["held_out_pass"]["interval"] for _, v in rows if v["held_out_pass"]["interval"]]
    axes.set_xlim(min([0.0, *(b["low"] for b in bounds)]), max([1.0, *(b["high"] for b in bounds)]) + 0.02)
    figure.supxlabel("share of held-out tasks solved", fontsize=8)
    axes.grid(visible=False, axis="y")
    alt = "; ".join(
        f"{label}: SFT {_say(v['sft_pass'])}, final pass {_say(v['held_out_pass'])}, "
        f"audit {_say(v['held_out_audit'])}"
        for label, v in rows
    )
    caption = (
        "Tick: SFT policy. Large mark: final held-out pass, mean over seeds with 95 % t interval; "
        "dots: seeds. Cross: audit pass. " + _n_words(sweep, "held_out_pass")
    )
    return _finish(figure, "held_out", "Held-out pass, before and after", caption, alt)


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


def _interval_bar(axes: Axes, y: float, number: Mapping[str, Any], look: Look) -> None:
    if number["interval"]:
        axes.plot([number["interval"]["low"], number["interval"]["high"]], [y, y], color=look.colour, lw=2.2)


def _curve_figure(
    sweep: Mapping[str, Any], curves: Mapping[str, Curve], look: Mapping[str, Look], key: str, title: str
) -> Drawing | None:
    series = {label: s for label, s in sweep["curves"][key].items() if s["step"]}
    if not series:
        return None
    labels = list(series)
    together = len(labels) <= MAX_TOGETHER
    columns = 1 if together else 3
    rows = 1 if together else math.ceil(len(labels) / columns)
    figure, grid = new_figure(rows, columns, height=HEIGHT if together else 0.5 + 1.05 * rows)
    panels = [labels] if together else [[label] for label in labels]
    for axes, shown in zip(grid.flat, panels, strict=False):
        _draw_panel(axes, series, shown, labels, look, _seed_lines(sweep, curves[key]), together)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    _axes_words(figure, grid, key, series)
    for axes, shown in zip(grid.flat, panels, strict=False):
        _names(axes, series, shown, look, together)
    alt = "; ".join(f"{label}: {_first_last(series[label])}" for label in labels)
    caption = (
        f"{_capital(METRICS[key].label)} ({METRICS[key].unit}) over training steps. Line: mean over seeds; "
        f"thin lines: seeds; dotted: after the first seed ended. {_bucket_words(series)}"
        + _band_words(together)
        + _n_words(sweep, key)
    )
    return _finish(figure, key, title, caption, alt)


def _seed_lines(sweep: Mapping[str, Any], curve: Curve) -> Callable[[str], Curve]:
    ids: dict[str, list[str]] = {}
    for run in sweep["runs"]:
        ids.setdefault(run["variant"], []).append(run["run_id"])
    return lambda label: decimated(curve.select(ids.get(label, [])))[0]


def _draw_panel(
    axes: Axes,
    series: Mapping[str, Any],
    shown: Sequence[str],
    labels: Sequence[str],
    look: Mapping[str, Look],
    seeds: Callable[[str], Curve],
    together: bool,
) -> None:
    if not together:
        for label in labels:
            axes.plot(series[label]["step"], series[label]["mean"], color="#d5d5d5", lw=0.6, zorder=1)
    for label in shown:
        curve = seeds(label)
        for row in curve.values:
            axes.plot(curve.steps, row, color=look[label].colour, lw=0.5, alpha=0.3, zorder=2)
        _mean_line(axes, series[label], look[label], band=not together)


def _mean_line(axes: Axes, series: Mapping[str, Any], look: Look, *, band: bool) -> None:
    steps = np.array(series["step"])
    mean = np.array([np.nan if v is None else v for v in series["mean"]])
    solid = steps <= (series["solid_until"] if series["solid_until"] is not None else -1)
    axes.plot(steps[solid], mean[solid], color=look.colour, ls=look.dash, zorder=3, solid_capstyle="round")
    if (~solid).any():
        tail = np.flatnonzero(~solid)
        tail = np.insert(tail, 0, max(0, tail[0] - 1))
        axes.plot(steps[tail], mean[tail], color=look.colour, ls=(0, (1, 2)), lw=1.0, zorder=3)
    if band:
        low, high = ([np.nan if v is None else v for v in series[side]] for side in ("low", "high"))
        axes.fill_between(steps, low, high, color=look.colour, alpha=0.15, lw=0, zorder=1)


def _axes_words(figure: Figure, grid: Any, key: str, series: Mapping[str, Any]) -> None:
    metric = METRICS[key]
    first = grid.flat[0]
    if metric.unit == "tokens" and min(v for s in series.values() for v in s["mean"] if v is not None) > 0:
        first.set_yscale("log")
        _plain_log_ticks(first)
    elif metric.unit in _Y_FROM_ZERO:
        first.set_ylim(bottom=0)
        if metric.unit == "share":
            first.set_ylim(top=max(first.get_ylim()[1], 0.05) if metric.better == "lower" else 1.0)
    figure.supxlabel("training step", fontsize=8)
    figure.supylabel(
        f"{metric.label}{'' if metric.unit.startswith('per') else f' ({metric.unit})'}", fontsize=8
    )


def _plain_log_ticks(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _names(
    axes: Axes, series: Mapping[str, Any], shown: Sequence[str], look: Mapping[str, Look], together: bool
) -> None:
    if not together:
        axes.set_title(look[shown[0]].name, fontsize=6.5, color=look[shown[0]].colour, loc="left", pad=2)
        return
    ends = [(series[n]["step"][-1], series[n]["mean"][-1], look[n].name, look[n].colour) for n in shown]
    label_ends(axes, [end for end in ends if end[1] is not None])


def _forest(sweep: Mapping[str, Any], look: Mapping[str, Look], key: str) -> Drawing | None:
    """Differences to the baseline with their intervals, ordered by effect."""
    rows = [c for c in sweep["comparisons"] if c["metric"] == key and c["value"] is not None]
    if not rows:
        return None
    rows.sort(key=lambda c: c["value"])
    figure, grid = new_figure(height=0.9 + 0.3 * len(rows))
    axes = grid[0, 0]
    axes.axvline(0, color="#000000", lw=0.8)
    for y, row in enumerate(rows):
        variant = look[row["variant"]]
        _interval_bar(axes, y, row, variant)
        axes.plot([row["value"]], [y], marker=variant.marker, ms=5.5, color=variant.colour)
    axes.set_yticks(range(len(rows)), [f"{look[r['variant']].name}\nn = {r['n_used']}" for r in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.margins(x=0.1)
    axes.grid(visible=False, axis="y")
    metric = METRICS[key]
    figure.supxlabel(f"{metric.label}: difference to baseline ({metric.unit})", fontsize=8)
    alt = "; ".join(f"{row['variant']} - {row['against']}: {_say(row)}" for row in rows)
    caption = (
        f"{_capital(metric.label)}: variant - {sweep['baseline']}, paired by seed block where blocks pair; "
        "bar: unadjusted 95 % t interval (none for n = 1). " + _n_words(sweep, key)
    )
    return _finish(
        figure, f"difference_{key}", f"{_capital(metric.label)}: difference to baseline", caption, alt
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _say(number: Mapping[str, Any]) -> str:
    if number["value"] is None:
        return f"no value ({number['why']})"
    text = f"{number['value']:.3g}"
    if number["interval"]:
        text += f" [{number['interval']['low']:.3g}, {number['interval']['high']:.3g}]"
    return f"{text}, n = {number['n_used']}"


def _first_last(series: Mapping[str, Any]) -> str:
    return (
        f"{series['mean'][0]:.3g} at step {series['step'][0]}, {series['mean'][-1]:.3g} at step "
        f"{series['step'][-1]}, n = {series['n'][-1]}"
    )


def _bucket_words(series: Mapping[str, Any]) -> str:
    widths = sorted({s["bucket"] for s in series.values()} - {1})
    return f"Points are means of {widths[-1]} steps. " if widths else ""


def _band_words(together: bool) -> str:
    return "" if together else "Band: 95 % t interval over seeds; grey: the other variants. "


def _n_words(sweep: Mapping[str, Any], key: str) -> str:
    """n used / n planned of every variant, and the policy for dead runs where one applies."""
    values = [(v["label"], v["values"][key]) for v in sweep["variants"]]
    counts = sorted({f"{n['n_used']}/{n['n_planned']}" for _, n in values})
    if len(counts) == 1:
        text = f"n = {counts[0]} seeds per variant."
    else:
        text = (
            "n = " + ", ".join(f"{label} {n['n_used']}/{n['n_planned']}" for label, n in values) + " seeds."
        )
    policies = sorted({n["policy"] for _, n in values})
    return f"{text} Policy: {'; '.join(policies)}."


def _finish(figure: Figure, key: str, title: str, caption: str, alt: str) -> Drawing:
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    figure.clear()
    return Drawing(key, title, caption, alt, png.getvalue(), _tidy_svg(svg.getvalue(), key))


def _tidy_svg(data: bytes, key: str) -> bytes:
    """Drop comments (they hold label text) and make ids unique, so that several figures fit one page."""
    text = re.sub(r"<!--.*?-->\n?", "", data.decode(), flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{key}-\1"', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\1{key}-", text)
    return text.encode()
