"""Which setting does what: variants that differ from the baseline in one axis, and grids of two axes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from analysis.contrasts import interaction
from analysis.data import SweepData, by_seed
from analysis.metrics import METRICS, Metric
from analysis.numbers import difference_number, mean_number

APART = ("seed", "root", "name", "tracking", "sandbox", "resources")
"""Keys of a configuration that do not tell variants apart."""

PLOTTED = ("held_out_pass", "held_out_audit", "tokens")
"""Metrics that effects and grids are reported for."""

Axes = Mapping[str, str]
"""Axis of a configuration -> its setting in words."""


def factor_section(data: SweepData) -> dict[str, Any]:
    """``one_factor``: variants one axis away from the baseline. ``grids``: pairs of axes fully crossed."""
    settings = {label: settings_of(data, label) for label in data.sweep.comparable}
    settings = {label: axes for label, axes in settings.items() if axes}
    varying = {axis for axes in settings.values() for axis in axes}
    varying = {a for a in varying if len({axes.get(a, "") for axes in settings.values()}) > 1}
    return {
        "axes": sorted(varying),
        "one_factor": _one_factor(settings, data.sweep.baseline),
        "grids": [
            grid
            for pair in combinations(sorted(varying), 2)
            if (grid := _grid(data, settings, varying, pair))
        ],
    }


def settings_of(data: SweepData, label: str) -> dict[str, str]:
    """Axis -> kind and fields of a variant's runs, as text; empty if no configuration is known."""
    configs = [run.config for run in data.sweep.runs_of(label) if run.config]
    if not configs:
        return {}
    return {axis: _words(value) for axis, value in sorted(configs[0].items()) if axis not in APART}


def _words(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    head = [str(value["kind"])] if "kind" in value else []
    return " ".join(head + [f"{k}={value[k]}" for k in sorted(value) if k != "kind"])


def shorten(texts: set[str]) -> dict[str, str]:
    """Settings of one axis without what they all share: ``linear floor=0.1`` beside ``uniform`` by kind."""
    kinds = {text: text.split(" ")[0] for text in texts}
    if len(set(kinds.values())) == len(texts):
        return kinds
    shared = set.intersection(*(set(text.split(" ")) for text in texts))
    return {
        text: " ".join(word for word in text.split(" ") if word not in shared) or kinds[text]
        for text in texts
    }


def _one_factor(settings: Mapping[str, Axes], baseline: str | None) -> list[dict[str, str]]:
    if baseline is None or baseline not in settings:
        return []
    base = settings[baseline]
    found = []
    for label, axes in settings.items():
        changed = [axis for axis in sorted(set(base) | set(axes)) if axes.get(axis) != base.get(axis)]
        if len(changed) == 1:
            axis = changed[0]
            names = shorten({base.get(axis, "none"), axes.get(axis, "none")})
            found.append(
                {
                    "label": label,
                    "axis": axis,
                    "from": names[base.get(axis, "none")],
                    "to": names[axes.get(axis, "none")],
                }
            )
    return found


def _grid(
    data: SweepData, settings: Mapping[str, Axes], varying: set[str], pair: tuple[str, str]
) -> dict[str, Any] | None:
    """Two axes crossed, all others as in the baseline (or first variant); null without a complete square."""
    base = settings.get(data.sweep.baseline or "") or next(iter(settings.values()))
    others = varying - set(pair)
    cells = {
        (axes.get(pair[0], ""), axes.get(pair[1], "")): label
        for label, axes in settings.items()
        if all(axes.get(axis) == base.get(axis) for axis in others)
    }
    rows, columns = ({key[side] for key in cells} for side in (0, 1))
    corner = base.get(pair[0], ""), base.get(pair[1], "")
    if not any(
        {(row, corner[1]), (corner[0], column), corner, (row, column)} <= cells.keys()
        for row in rows - {corner[0]}
        for column in columns - {corner[1]}
    ):
        return None
    names = [shorten(rows), shorten(columns)]
    order = [sorted(rows, key=lambda s: (s != base.get(pair[0]), s)), sorted(columns)]
    order[1].sort(key=lambda s: (s != base.get(pair[1]), s))
    return {
        "axes": list(pair),
        "rows": [names[0][row] for row in order[0]],
        "columns": [names[1][column] for column in order[1]],
        "cells": [[cells.get((row, column)) for column in order[1]] for row in order[0]],
        "metrics": {
            key: _grid_values(data, METRICS[key], [[cells.get((r, c)) for c in order[1]] for r in order[0]])
            for key in PLOTTED
        },
    }


def _grid_values(data: SweepData, metric: Metric, cells: list[list[str | None]]) -> dict[str, Any]:
    """Mean per cell, and the interaction contrast of every 2 x 2 block at the baseline's corner."""
    values = [[None if label is None else _cell(data, metric, label) for label in row] for row in cells]
    contrasts = []
    for i in range(1, len(cells)):
        for j in range(1, len(cells[0])):
            corner = [cells[i][j], cells[i][0], cells[0][j], cells[0][0]]
            labels = [label for label in corner if label is not None]
            if len(labels) == 4:
                contrasts.append({"row": i, "column": j} | _contrast(data, metric, labels))
    return {"values": values, "interactions": contrasts}


def _values(data: SweepData, metric: Metric, label: str) -> dict[str, float]:
    return data.values(metric, data.ends[label, metric.source])


def _cell(data: SweepData, metric: Metric, label: str) -> dict[str, Any]:
    endpoint = data.ends[label, metric.source]
    return mean_number(
        _values(data, metric, label),
        unit=metric.unit,
        n_planned=len(data.sweep.planned.get(label, ())),
        policy=endpoint.policy,
        step=endpoint.step,
    )


def _contrast(data: SweepData, metric: Metric, labels: list[str]) -> dict[str, Any]:
    cells = [by_seed(data.sweep.runs_of(label), _values(data, metric, label)) for label in labels]
    found = interaction(*cells)
    endpoints = {data.ends[label, metric.source].step for label in labels}
    runs = [run.run_id for label in labels for run in data.sweep.runs_of(label) if run.seed in found.blocks]
    planned = set.intersection(*(set(data.sweep.planned.get(label, ())) for label in labels))
    return difference_number(
        found,
        unit=metric.unit,
        n_planned=len(planned),
        policy="each cell at its own endpoint",
        step=endpoints.pop() if len(endpoints) == 1 else None,
        runs=runs,
    )
