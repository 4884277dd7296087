"""A finished figure: its bytes, and what caption and alt text say."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.plots.style import MAX_TOGETHER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Section = Mapping[str, Any]
"""One entry of ``sweeps`` in a report tree."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """File stem, title, caption, what it says in words (alt text), and its bytes in two formats."""

    key: str
    title: str
    caption: str
    alt: str
    png: bytes
    svg: bytes


def finish(figure: Figure, key: str, title: str, caption: str, alt: str) -> Drawing:
    """Save a figure; the same figure gives the same bytes."""
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Drawing(key, title, caption, alt, png.getvalue(), _tidy_svg(svg.getvalue(), key))


def _tidy_svg(data: bytes, key: str) -> bytes:
    """Drop comments (they hold label text) and make ids unique, so that several figures fit one page.

    Coordinates keep two decimals, a hundredth of a point: half the bytes, and nothing that an eye can see.
    """
    text = re.sub(r"<!--.*?-->\n?", "", data.decode(), flags=re.DOTALL)
    text = re.sub(r'\b(?:d|x|y)="[^"]*"|translate\([^)]*\)', lambda m: _LONG.sub(r"\1", m[0]), text)
    text = _POLYLINE.sub(lambda m: _shorter(m[0]), text)
    return prefix_ids(text, f"{key}-").encode()


_LONG = re.compile(r"(\.\d\d)\d+")
_TENTH = re.compile(r"(\.\d)\d+")
_POLYLINE = re.compile(r'\bd="M [-\d. L\n]{60,}"')


def _shorter(path: str) -> str:
    """Straight lines through many points: a tenth of a point each, and no letter for what goes on."""
    return re.sub(r" ?\nL ", " ", _TENTH.sub(r"\1", path))


def prefix_ids(svg: str, prefix: str) -> str:
    """The same picture with every id, and every reference to one, prefixed."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', svg)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\1{prefix}", svg)


def capital(text: str) -> str:
    """The text with its first letter raised."""
    return text[:1].upper() + text[1:]


def say(number: Mapping[str, Any]) -> str:
    """A number object in words."""
    if number["value"] is None:
        return f"no value ({number['why']})"
    text = f"{number['value']:.3g}"
    if number["interval"]:
        text += f" [{number['interval']['low']:.3g}, {number['interval']['high']:.3g}]"
    return f"{text}, n = {number['n_used']}"


def shown_words(shown: int, total: int) -> str:
    """That a figure leaves variants out, if it does."""
    return "" if shown == total else f"{shown} of {total} variants are drawn; all are in report.json. "


def n_words(sweep: Section, key: str) -> str:
    """n used / n planned of every variant, and the policies for dead runs."""
    values = [(v["label"], v["values"][key]) for v in sweep["variants"]]
    counts = sorted({f"{n['n_used']}/{n['n_planned']}" for _, n in values})
    if len(counts) == 1:
        text = f"n = {counts[0]} seeds per variant."
    elif len(values) > 2 * MAX_TOGETHER:
        text = "n differs between variants: see the table."
    else:
        text = (
            "n = " + ", ".join(f"{label} {n['n_used']}/{n['n_planned']}" for label, n in values) + " seeds."
        )
    policies = sorted({n["policy"] for _, n in values})
    return f"{text} Policy: {'; '.join(policies)}."
