"""Many points in one panel: marks, and numbers with a list of names below where names would not fit."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analysis.plots.style import Look, short_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINE = 0.125
"""Inches of a line of the list."""


def mark(look: Look, *, filled: bool) -> dict[str, Any]:
    """How a variant's point is drawn: large and filled, or small and hollow."""
    face, size = (look.colour, 6.5) if filled else ("white", 5)
    return {"marker": look.marker, "ms": size, "color": look.colour, "markerfacecolor": face}


def key_height(labels: Sequence[str]) -> float:
    """Inches that the list of these names needs."""
    return _LINE * math.ceil(len(labels) / _key_names(labels)[1])


def key_list(
    figure: Figure, labels: Sequence[str], looks: Mapping[str, Look], filled: Collection[str]
) -> None:
    """Below a figure the names of its numbered points, in the order of their numbers."""
    from matplotlib.lines import Line2D

    names, columns = _key_names(labels)
    handles = [Line2D([], [], ls="", **mark(looks[label], filled=label in filled)) for label in labels]
    texts = [f"{i} {names[label]}" for i, label in enumerate(labels, 1)]
    legend = figure.legend(
        handles, texts, loc="outside lower center", ncols=columns, fontsize=6.5, labelspacing=0.25,
        handletextpad=0.2, columnspacing=0.8, handlelength=1.2,
    )  # fmt: skip
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_color(looks[label].colour)


def _key_names(labels: Sequence[str]) -> tuple[dict[str, str], int]:
    """Names beside the numbers, and in how many columns: one if two would have to cut a name."""
    names = short_names(labels, width=22)
    cut = any("…" in name for name in names.values())
    return (short_names(labels, width=48), 1) if cut else (names, 2)
