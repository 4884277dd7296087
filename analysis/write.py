"""Writes a report folder: ``report.json`` first, then what renders it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.data import SweepData
from analysis.figures import Drawing, draw_all
from analysis.page import render
from analysis.report import build
from gagar_core import records
from gagar_core.errors import RecordsError


def write_report(data: Sequence[SweepData], out: Path, title: str) -> dict[str, Any]:
    """Write ``report.json``, ``report.html`` and ``figures/`` under ``out``; returns the tree."""
    tree = build(data, title)
    figures = {
        section["name"]: draw_all(section, part.curves)
        for section, part in zip(tree["sweeps"], data, strict=True)
    }
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
        records.publish(out / "report.json", records.to_json(tree))
        for name, drawings in figures.items():
            _write_figures(out / "figures", name if len(figures) > 1 else "", drawings)
        records.publish(out / "report.html", render(tree, figures).encode())
    except OSError as err:
        raise RecordsError(
            f"cannot write the report to {out}: {err}; choose another folder with --out"
        ) from err
    return tree


def _write_figures(folder: Path, sweep: str, drawings: Sequence[Drawing]) -> None:
    prefix = f"{sweep}-" if sweep else ""
    for drawing in drawings:
        records.publish(folder / f"{prefix}{drawing.key}.png", drawing.png)
        records.publish(folder / f"{prefix}{drawing.key}.svg", drawing.svg)
