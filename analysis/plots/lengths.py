"""How long trajectories are: curves by outcome, length against pass, and whole distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.drawing import Drawing, Section, finish, n_words, say
from analysis.plots.points import key_height, key_list, mark
from analysis.plots.stacks import (
    coloured,
    end_labels,
    highlight_words,
    highlighted,
    last_value,
    line,
    solid_part,
    stack,
    styled,
)
from analysis.plots.style import (
    MAX_SHOWN,
    MAX_TOGETHER,
    OTHERS,
    Look,
    log_ticks,
    new_figure,
    new_stack,
    place_names,
    short_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SPLITS = {"pass": "passing", "fail": "failing", "truncated": "cut off by a limit"}

_RIDGE_VARIANTS = 4


def length_curves(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """Generated tokens over steps for passing, failing and truncated trajectories."""
    from matplotlib.ticker import MaxNLocator

    variants = {v["label"]: v for v in sweep["length"]["variants"] if v["curves"]["all"]["step"]}
    splits = [s for s in _SPLITS if any(v["curves"][s]["step"] for v in variants.values())]
    if not splits:
        return None
    chosen = highlighted(sweep, list(variants))
    look = styled(sweep, looks, chosen)
    figure, panels = stack(len(splits), look)
    for axes, split in zip(panels, splits, strict=True):
        for label, variant in variants.items():
            one, pale = variant["curves"][split], label not in chosen
            style = looks[label] if pale else look[label]
            line(axes, one["step"], one["mean"], style, pale=pale, solid=solid_part(one))
        axes.set_title(_SPLITS[split], fontsize=7, loc="left", pad=2)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        log_tokens(axes)
    first = {
        label: last_value(
            variants[label]["curves"][splits[0]]["step"], variants[label]["curves"][splits[0]]["mean"]
        )
        for label in chosen
    }
    end_labels(panels[0], look, first)
    panels[-1].set_xlabel("training step", fontsize=8)
    figure.supylabel("generated tokens", fontsize=8)
    alt = "; ".join(
        f"{label}: growth {say(v['growth']['all']['percent'])} % per 100 steps"
        for label, v in variants.items()
    )
    caption = (
        "Generated tokens per training trajectory by outcome, means of 10 steps over seeds (log scale); "
        "dotted: where some seed has ended or has no such trajectory, over the others. "
        + highlight_words(sweep, chosen, len(variants))
        + n_words(sweep, "train_tokens")
    )
    return finish(figure, "length_curves", "Length by outcome", caption, alt)


def log_tokens(axes: Axes, axis: str = "y") -> None:
    """A log scale with plain numbers, if all values are positive."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    low, high = axes.get_ylim() if axis == "y" else axes.get_xlim()
    data = axes.dataLim.y0 if axis == "y" else axes.dataLim.x0
    if not data > 0:
        return
    (axes.set_yscale if axis == "y" else axes.set_xscale)("log")
    setter = axes.set_ylim if axis == "y" else axes.set_xlim
    bounds = max(low, data / 1.15), high * 1.05
    setter(*bounds)
    side = axes.yaxis if axis == "y" else axes.xaxis
    side.set_major_locator(FixedLocator(log_ticks(*bounds)))
    side.set_minor_locator(NullLocator())
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    side.set_minor_formatter(NullFormatter())


def pareto(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """Length against held-out pass: seeds, means, and the front that nobody beats in both."""
    section = sweep["length"]["pareto"]
    points = section["points"]
    if not points:
        return None
    numbered = len(points) > MAX_TOGETHER
    keys = _keys(sweep, points) if numbered else []
    labels, front = [p["label"] for p in keys], {p["label"] for p in points if p["front"]}
    figure, grid = new_figure(height=2.7 + key_height(labels))
    axes: Axes = grid[0, 0]
    for point in points:
        look, x, y = looks[point["label"]], point["length"]["value"], point["pass"]["value"]
        if look.colour != OTHERS:
            axes.plot(
                [s["length"] for s in point["seeds"]], [s["pass"] for s in point["seeds"]],
                ls="", marker=".", ms=4, color=look.colour, alpha=0.5,
            )  # fmt: skip
        axes.plot([x], [y], **mark(look, filled=point["front"]))
    steps = sorted((p["length"]["value"], p["pass"]["value"]) for p in points if p["front"])
    axes.step([x for x, _ in steps], [y for _, y in steps], where="post", color="#888888", lw=0.8, zorder=1)
    axes.margins(x=0.18, y=0.15)
    texts = [(p, str(i)) for i, p in enumerate(keys, 1)] or [(p, looks[p["label"]].name) for p in points]
    place_names(
        axes,
        [(p["length"]["value"], p["pass"]["value"], text, looks[p["label"]].colour) for p, text in texts],
        [(p["length"]["value"], p["pass"]["value"]) for p in points],
    )
    axes.set_xlabel("median generated tokens, held-out", fontsize=8)
    if numbered:
        key_list(figure, labels, looks, front)
    figure.supylabel("held-out pass (share)", fontsize=8)
    alt = "; ".join(
        f"{p['label']}: {say(p['length'])} tokens, pass {say(p['pass'])}"
        + (", on the front" if p["front"] else "")
        for p in points
    )
    caption = (
        "Shorter is left, better is up. Mark: mean over seeds of per-seed medians (filled: no variant is as "
        f"short and as good); dots: seeds{' of those in colour' if numbered else ''}. "
        + _number_words(len(keys), len(points))
        + f"Hypervolume {section['hypervolume']:.4g} tokens x share, "
        f"reference ({section['reference'][0]:.4g} tokens, 0). The pass axis need not start at 0. "
        + n_words(sweep, "held_out_pass")
    )
    return finish(figure, "pareto", "Length against pass", caption, alt)


def _number_words(numbered: int, total: int) -> str:
    if not numbered:
        return ""
    which = "" if numbered == total else ", of those in colour or on the front"
    return f"Numbers from short to long{which}. "


def _keys(sweep: Section, points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Points that get a number, from short to long: all, or of very many those that matter."""
    own = set(coloured(sweep))
    some = [p for p in points if len(points) <= MAX_SHOWN or p["front"] or p["label"] in own]
    return sorted(some, key=lambda p: (p["length"]["value"], p["label"]))[:MAX_SHOWN]


def ridges(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """Distributions of generated tokens in parts of training, the latest in front."""
    variants = [v for v in sweep["length"]["variants"] if v["ridges"]]
    if not variants:
        return None
    chosen = highlighted(sweep, [v["label"] for v in variants])[:_RIDGE_VARIANTS]
    shown = [v for v in variants if v["label"] in chosen]
    figure, panels = new_stack(len(shown), 1.25, right=0.12)
    names = short_names([v["label"] for v in shown], width=46)
    low = min(r["first_bin"] for v in shown for r in v["ridges"])
    high = max(r["first_bin"] + len(r["share"]) for v in shown for r in v["ridges"])
    top = max(max(r["share"]) for v in shown for r in v["ridges"])
    for axes, variant in zip(panels, shown, strict=True):
        _ridge_panel(axes, variant["ridges"], looks[variant["label"]].colour, top)
        axes.set_xscale("log", base=2)
        axes.set_xlim(2 ** (low / 4), 2 ** (high / 4))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_title(names[variant["label"]], fontsize=7, loc="left", pad=2)
    panels[-1].set_xlabel("generated tokens", fontsize=8)
    figure.supylabel("up to step", fontsize=8)
    alt = "; ".join(
        f"{v['label']}: most common length {r['mode']:.3g} tokens up to step {r['step']}"
        for v in shown
        for r in (v["ridges"][0], v["ridges"][-1])
    )
    caption = (
        "Share of training trajectories per quarter octave of length, in equal parts of training (lowest: "
        f"the latest), mean over seeds. {len(shown)} of {len(variants)} variants. "
        + n_words(sweep, "train_tokens")
    )
    return finish(figure, "ridges", "Distribution of length over training", caption, alt)


def _ridge_panel(axes: Axes, ridges_: list[dict[str, Any]], colour: str, top: float) -> None:
    count = len(ridges_)
    for index, ridge in enumerate(ridges_):
        base = (count - 1 - index) * 0.6
        edges = 2.0 ** ((ridge["first_bin"] + np.arange(len(ridge["share"])) + 0.5) / 4)
        height = base + 1.1 * np.array(ridge["share"]) / top
        axes.fill_between(edges, base, height, color=colour, alpha=0.25, lw=0, zorder=index)
        axes.plot(edges, height, color=colour, lw=0.9, zorder=index)
    axes.set_yticks([(count - 1 - i) * 0.6 for i in range(count)], [str(r["step"]) for r in ridges_])
    axes.grid(visible=False, axis="y")
