"""One look for all figures: a colour that belongs to a variant, direct labels, short names.

matplotlib loads inside functions: importing this module, or asking for ``--help``, stays cheap.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.naming import compact, fitted, own_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 3.4, 2.6
"""Inches of one figure: a journal column, and a phone's screen without shrinking the type."""

_BASELINE = "#000000"
# Okabe and Ito's colours that reach a contrast of 3:1 on white; the pale ones are left for fills. Tol's wine
# is the fifth, for sweeps without a baseline: black stays the baseline's
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#882255")
OTHERS = "#6e6e6e"
"""Of variants beyond the five that have a colour of their own."""

_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.5, 1.2)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_MARKERS = ("o", "s", "^", "D", "v")

MAX_TOGETHER = 5
"""Variants that share one panel; more become small multiples."""

MAX_SHOWN = 30
"""Variants in one figure; beyond, a figure shows some and says so."""

_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    # a fixed height: to look for a free one costs a quarter of the drawing
    "axes.titley": 1.0,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "svg.hashsalt": "gagar",
    "svg.fonttype": "path",
    # labels are data: a dollar sign in a name is a dollar sign
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
}


END_WIDTH = 19
"""Letters of a line of a name beside a line's end, a row or a point."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one variant is drawn in every figure."""

    colour: str
    dash: Any
    marker: str
    name: str


def looks(
    labels: Sequence[str], baseline: str | None, coloured: Collection[str] | None = None
) -> dict[str, Look]:
    """Colour, dash, marker and name per variant, by order of registration; the baseline is black.

    Beyond five variants colours would repeat: only the ``coloured`` ones (at most five) have one, the same
    in every figure, and the others are grey.
    """
    names = short_names(labels, width=END_WIDTH, lines=2)
    if coloured is None:
        coloured = labels[:MAX_TOGETHER]
    first = int(baseline in labels)  # the first dash and marker are the baseline's, if there is one
    own = [label for label in labels if label in coloured and label != baseline]
    return {label: _look(label, names[label], baseline, own, first) for label in labels}


def _look(label: str, name: str, baseline: str | None, own: Sequence[str], first: int) -> Look:
    if label == baseline:
        return Look(_BASELINE, "-", "o", name)
    if label not in own:
        return Look(OTHERS, "-", "o", name)
    i = own.index(label)
    return Look(_COLOURS[i], _DASHES[first + i], _MARKERS[first + i], name)


NAME_WIDTH = 24
"""Letters of a name on one line of a figure."""


def short_names(labels: Iterable[str], width: int = NAME_WIDTH, lines: int = 1) -> dict[str, str]:
    """Names that fit a figure, without the words that all have; ones that would become equal are numbered.

    A name may take several ``lines`` of ``width`` letters.
    """
    own = own_names(labels)
    if any(len(name) > NAME_WIDTH for name in own.values()):
        own = dict(zip(own, compact(list(own.values())), strict=True))
    cut = {label: fitted(name, width, lines) for label, name in own.items()}
    taken = Counter(cut.values())
    return {
        label: name if taken[name] == 1 else f"{i + 1}: {fitted(own[label], width - 4, lines)}"
        for i, (label, name) in enumerate(cut.items())
    }


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = WIDTH, height: float = HEIGHT
) -> tuple[Figure, Any]:
    """A figure in the house style with a grid of axes ``(rows, columns)``, drawn without a display."""
    import matplotlib as mpl

    with mpl.rc_context(_RC):
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        # for many panels the layout solver costs more than the drawing
        engine = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06) if rows * columns == 1 else None
        figure = Figure(figsize=(width, height), layout=engine)
        if engine is None:
            inch_x, inch_y = 1 / width, 1 / height
            figure.subplots_adjust(
                left=0.55 * inch_x, right=1 - 0.1 * inch_x, bottom=0.45 * inch_y, top=1 - 0.2 * inch_y,
                hspace=0.42, wspace=0.12,
            )  # fmt: skip
        # matplotlib's shared axes would cost more than the drawing: callers give all panels the same limits
        axes = figure.subplots(rows, columns, squeeze=False)
        for axis in axes[:-1].flat:
            axis.tick_params(labelbottom=False)
        for axis in axes[:, 1:].flat:
            axis.tick_params(labelleft=False)
    return figure, axes


def new_stack(panels: int, height: float, right: float, gap: float = 0.36) -> tuple[Figure, list[Axes]]:
    """Axes one above the other with their own scales, in inches: each ``height``, ``right`` for labels."""
    import matplotlib as mpl

    total = 0.5 + panels * (height + gap - 0.08)
    with mpl.rc_context(_RC):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, total))
        # margins by hand: the layout solver would cost more than the drawing
        figure.subplots_adjust(
            left=0.58 / WIDTH, right=1 - right / WIDTH, bottom=0.42 / total, top=1 - 0.24 / total,
            hspace=gap / height,
        )  # fmt: skip
        axes = figure.subplots(panels, 1, squeeze=False)
    return figure, list(axes[:, 0])


def in_style() -> Any:
    """Context in which matplotlib draws and saves in the house style."""
    import matplotlib as mpl

    return mpl.rc_context(_RC)


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write ``(x, y, text, colour)`` at the right end of lines, moved apart vertically where they collide."""
    if not ends:
        return
    low, high = axes.get_ylim()
    scale = axes.get_yscale()
    tall = axes.bbox.height / axes.figure.dpi
    lines = max(text.count("\n") + 1 for _, _, text, _ in ends)
    gap = max(0.075, min((0.02 + 0.105 * lines) / tall, 1.0 / len(ends)))
    place = spread([_unit(y, low, high, scale) for _, y, _, _ in ends], gap)
    for (_, y, text, colour), where in zip(ends, place, strict=True):
        axes.annotate(
            text,
            xy=(1.0, _unit(y, low, high, scale)),
            xycoords="axes fraction",
            xytext=(1.03, where),
            textcoords="axes fraction",
            color=colour,
            fontsize=7,
            va="center",
            ha="left",
            linespacing=0.95,
            annotation_clip=False,
        )


def _unit(y: float, low: float, high: float, scale: str) -> float:
    if scale == "log":
        y, low, high = math.log(y), math.log(low), math.log(high)
    return (y - low) / (high - low) if high > low else 0.5


def spread(wanted: Sequence[float], gap: float = 0.075) -> list[float]:
    """Positions at least ``gap`` apart, each as near as a sweep upwards and one downwards allow."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    place = [min(max(wanted[i], 0.0), 1.0) for i in order]
    for j in range(1, len(place)):
        place[j] = max(place[j], place[j - 1] + gap)
    ceiling = 1.0
    for j in reversed(range(len(place))):
        place[j] = min(place[j], ceiling)
        ceiling = place[j] - gap
    result = [0.0] * len(wanted)
    for i, value in zip(order, place, strict=True):
        result[i] = value
    return result


_SUBDIVISIONS = ((1, 10), (1, 3, 10), (1, 2, 5, 10), (1, 1.5, 2, 3, 5, 7, 10))


def log_ticks(low: float, high: float) -> list[float]:
    """Two to six round numbers between two positive ones, evenly spaced ones if they lie close together."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for parts in _SUBDIVISIONS:
        found = sorted({part * 10.0**k for k in decades for part in parts if low <= part * 10.0**k <= high})
        if len(found) >= 3:
            return found
    width = 10.0 ** math.floor(math.log10((high - low) / 2))
    width = next(width * part for part in (5, 2, 1) if (high - low) / (width * part) >= 2)
    return [width * k for k in range(math.ceil(low / width), math.floor(high / width) + 1)]


_NAME_WIDTH, _NAME_HEIGHT = 0.057, 0.105
"""Inches of a letter and of a line of a point's name."""


def place_names(
    axes: Axes, points: Sequence[tuple[float, float, str, str]], marks: Sequence[tuple[float, float]] = ()
) -> None:
    """Write ``(x, y, text, colour)`` beside points of a linear plot, where neither names nor ``marks`` lie.

    A name that finds room only further away gets a thin line to its point.
    """
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    wide, tall = WIDTH - 0.8, HEIGHT - 0.6  # inches of the panel, near enough

    def inches(x: float, y: float) -> tuple[float, float]:
        return (x - x0) / (x1 - x0) * wide, (y - y0) / (y1 - y0) * tall

    places = [inches(x, y) for x, y in [*marks, *((x, y) for x, y, _, _ in points)]]
    taken = [(px - 0.05, py - 0.05, px + 0.05, py + 0.05) for px, py in places]
    for x, y, text, colour in points:
        px, py = inches(x, y)
        lines = text.split("\n")
        length, high = _NAME_WIDTH * max(map(len, lines)), _NAME_HEIGHT * len(lines)
        options = [
            (side, step)
            for step in (0.06, -0.12, 0.2, -0.26, 0.34, -0.4, 0.48, -0.54, 0.62, -0.68)
            for side in (0.08, -0.08 - length)
        ]
        boxes = [(px + dx, py + dy, px + dx + length, py + dy + high) for dx, dy in options]
        cost = [
            _overlap(box, taken, wide, tall) + 0.001 * abs(dy)
            for box, (_, dy) in zip(boxes, options, strict=True)
        ]
        best = cost.index(min(cost))
        taken.append(boxes[best])
        far = abs(options[best][1]) > 0.15
        axes.annotate(
            text, (x, y), xytext=(72 * options[best][0], 72 * options[best][1]), textcoords="offset points",
            fontsize=6.5, color=colour,
            arrowprops={"arrowstyle": "-", "lw": 0.4, "color": "#888888", "shrinkB": 3} if far else None,
        )  # fmt: skip


Box = tuple[float, float, float, float]


def _overlap(box: Box, taken: Sequence[Box], wide: float, tall: float) -> float:
    """Square inches of a box that lie over others or outside the panel."""
    left, low, right, high = box
    area = (right - left) * (high - low)
    inside = max(0.0, min(right, wide + 0.05) - max(left, 0.0)) * max(0.0, min(high, tall) - max(low, 0.0))
    shared = (
        max(0.0, min(right, r) - max(left, a)) * max(0.0, min(high, t) - max(low, b)) for a, b, r, t in taken
    )
    return area - inside + sum(shared)
