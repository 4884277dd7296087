"""Where a figure or a number comes from: its formula, the runs behind it and what each contributed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis.metrics import METRICS
from analysis.stability_items import EVENTS, ITEMS
from analysis.text import format_number, format_value
from gagar_core.errors import InputError, check_choice, gather

Tree = Mapping[str, Any]

FIGURES: dict[str, dict[str, str]] = tomllib.loads(
    (Path(__file__).parent / "templates" / "figures.toml").read_text(encoding="utf-8")
)
"""Figure id -> metric, section, formula."""


def explain(tree: Tree, name: str) -> list[str]:
    """Lines about a figure, a metric, a stability measure or an event, by its id.

    Raises ``InputError`` with the valid ids.
    """
    known = list(dict.fromkeys([*FIGURES, *METRICS, *ITEMS, *EVENTS]))
    gather(check_choice("ID", name, known), headline="nothing to explain", error=InputError)
    if name in FIGURES and name not in METRICS:
        entry = FIGURES[name]
        head = [
            f"figure {name}",
            f"formula: {entry['formula']}",
            f"numbers: {entry['section']} of report.json",
            *(
                f"{sweep['name']}: not drawn, there is nothing to show"
                for sweep in tree["sweeps"]
                if _bare(sweep, name)
            ),
            f"runs behind it, each with its {METRICS[entry['metric']].label}:",
        ]
        return head + _metric(tree, entry["metric"])
    if name in METRICS:
        entry = FIGURES.get(name, {})
        drawn = [f"figure {name}: {entry['formula']}"] if entry else []
        return drawn + _metric(tree, name)
    if name in ITEMS:
        item = ITEMS[name]
        head = [f"{item['label']} ({item['unit']})" if item["unit"] else item["label"]]
        return [*head, f"formula: {item['formula']}", *_item(tree, name)]
    return [name.replace("_", " "), f"definition: {EVENTS[name]}", *_event(tree, name)]


def _bare(sweep: Tree, figure: str) -> bool:
    """Whether a figure that few sweeps have is missing in this one."""
    found = {
        "two_factor": sweep["factors"]["grids"],
        "tornado": sweep["factors"]["one_factor"][1:],
        "tuning": sweep["tuning"],
        "grader_value": [
            g for g in sweep["graders"] if g["agreement"]["right_over_lucky"]["value"] is not None
        ][1:],
        "grader_drift": [v for v in sweep["stability"]["variants"] if v["drift"]],
    }
    return not found.get(figure, True)


def _metric(tree: Tree, key: str) -> list[str]:
    metric = METRICS[key]
    lines = [f"{metric.label} ({metric.unit}): {metric.formula}"]
    for sweep in tree["sweeps"]:
        runs = {run["run_id"]: run for run in sweep["runs"]}
        lines.append(f"{sweep['name']}:")
        for variant in sweep["variants"]:
            number = variant["values"][key]
            lines.append(f"  {variant['label']}: {format_number(number)}; {_where(number)}")
            for run_id in number["runs"]:
                run = runs[run_id]
                value = format_value(run["values"].get(key), number["unit"])
                lines.append(f"    {run_id} seed {run['seed']}: {value}")
            lines += _left_out(sweep, variant["label"], number["runs"])
    return lines


def _where(number: Tree) -> str:
    return (
        f"step {number['step']}, policy: {number['policy']}"
        if number["step"] is not None
        else number["policy"]
    )


def _left_out(sweep: Tree, label: str, used: Iterable[str]) -> list[str]:
    return [
        f"    {run['run_id']} seed {run['seed']}: not used, {run['status']}"
        + (f" ({run['reason']})" if run["reason"] else "")
        for run in sweep["runs"]
        if run["variant"] == label and run["run_id"] not in used
    ]


def _item(tree: Tree, key: str) -> list[str]:
    lines = []
    for sweep in tree["sweeps"]:
        lines.append(f"{sweep['name']}:")
        for variant in sweep["stability"]["variants"]:
            number = variant["items"][key]
            runs = ", ".join(number.get("runs", variant["runs"])) or "none"
            lines.append(f"  {variant['label']}: {format_number(number)}; {_where(variant)}; runs: {runs}")
    return lines


def _event(tree: Tree, kind: str) -> list[str]:
    lines = []
    for sweep in tree["sweeps"]:
        found = [event for event in sweep["stability"]["events"] if event["kind"] == kind]
        lines.append(f"{sweep['name']}: {len(found)} runs")
        lines += [
            f"  {e['run_id']} ({e['variant']} seed {e['seed']}), step {e['step']}: {e['text']}" for e in found
        ]
    return lines
