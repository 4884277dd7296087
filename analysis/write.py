"""Writes a report folder: ``report.json`` first, then what renders it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.data import SweepData
from analysis.markdown import render_markdown
from analysis.naming import shortened_tree
from analysis.page import render
from analysis.plots.drawing import Drawing
from analysis.plots.parallel import draw
from analysis.report import build
from gagar_core import records
from gagar_core.errors import RecordsError


def write_report(
    data: Sequence[SweepData], out: Path, title: str, compare: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Write ``report.json``, ``.html``, ``.md`` and ``figures/`` under ``out``; returns the tree."""
    tree = build(data, title, compare)
    _make_folder(out)
    shown = shortened_tree(tree)
    sections: list[dict[str, Any]] = shown["sweeps"]
    figures = [draw(section, part.curves) for section, part in zip(sections, data, strict=True)]
    try:
        records.publish(out / "report.json", records.to_json(tree))
        paths = []
        for section, drawings in zip(sections, figures, strict=True):
            names = write_figures(out / "figures", section["name"] if len(figures) > 1 else "", drawings)
            paths.append([f"figures/{name}.png" for name in names])
        records.publish(out / "report.md", render_markdown(shown, figures, paths).encode())
        records.publish(out / "report.html", render(shown, figures).encode())
    except OSError as err:
        raise _unwritable(out, err) from err
    return tree


def _make_folder(out: Path) -> None:
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise _unwritable(out, err) from err


def _unwritable(out: Path, err: OSError) -> RecordsError:
    return RecordsError(f"cannot write the report to {out}: {err}; choose another folder with --out")


def write_figures(folder: Path, sweep: str, drawings: Sequence[Drawing]) -> list[str]:
    """Write each drawing as PNG and SVG; returns the file stems. ``sweep`` prefixes them, if given."""
    prefix = re.sub(r"[^\w.-]+", "_", f"{sweep}-") if sweep else ""
    names = []
    for drawing in drawings:
        names.append(f"{prefix}{drawing.key}")
        records.publish(folder / f"{names[-1]}.png", drawing.png)
        records.publish(folder / f"{names[-1]}.svg", drawing.svg)
    return names
