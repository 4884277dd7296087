"""``--compare A B``: two variants against each other, of one sweep or of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.comparisons import compare
from analysis.curves import Curve
from analysis.data import SweepData, by_seed, value_at
from analysis.endpoints import choose_endpoint
from analysis.factors import settings_of
from analysis.hypotheses import detectable
from analysis.metrics import BASE_CURVE, METRICS, WITHIN_SWEEP, Metric
from analysis.numbers import difference_number
from analysis.study import Run
from gagar_core.errors import InputError


@dataclass(frozen=True)
class Side:
    """A variant inside its sweep."""

    data: SweepData
    label: str

    @property
    def name(self) -> str:
        """``sweep/variant``."""
        return f"{self.data.sweep.name}/{self.label}"

    @property
    def runs(self) -> list[Run]:
        """Its runs by seed."""
        return self.data.sweep.runs_of(self.label)


def find_side(data: Sequence[SweepData], wanted: str) -> Side:
    """The variant named ``wanted``: a label, or ``sweep/label`` where several sweeps have it.

    Raises ``InputError`` with what there is.
    """
    sides = [Side(part, label) for part in data for label in part.sweep.variants]
    found = [side for side in sides if wanted in (side.label, side.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(side.name for side in found or sides)
    problem = "is a variant of several sweeps; give one of" if found else "is no variant; there are"
    raise InputError(f"--compare: {wanted!r} {problem} {names}")


def cross_section(data: Sequence[SweepData], one: str, other: str) -> dict[str, Any]:
    """Every metric of ``one`` minus ``other``, paired by seed block, and what differs between the two."""
    a, b = find_side(data, one), find_side(data, other)
    if a == b:
        raise InputError(f"--compare: both sides are {a.name}")
    settings = [settings_of(side.data, side.label) for side in (a, b)]
    differing = {
        axis: list(what_differs(*(part.get(axis, "not set") for part in settings)))
        for axis in sorted(set(settings[0]) | set(settings[1]))
        if settings[0].get(axis) != settings[1].get(axis)
    }
    return {
        "variant": a.name,
        "against": b.name,
        "settings": differing,
        "note": _note(a, b),
        "rows": [
            _row(metric, a, b)
            for key, metric in METRICS.items()
            if a.data is b.data or key not in WITHIN_SWEEP
        ],
    }


def what_differs(one: str, other: str) -> tuple[str, str]:
    """Two settings of an axis: the kind of each and the fields that differ, without the many that do not."""
    words = one.split(" "), other.split(" ")
    shared = set(words[0]) & set(words[1])
    cut = [" ".join([own[0], *(word for word in own[1:] if word not in shared)]) for own in words]
    return (cut[0], cut[1]) if cut[0] != cut[1] else (one, other)


def _note(a: Side, b: Side) -> str:
    codes = {run.code for side in (a, b) for run in side.runs if run.code}
    if len(codes) > 1:
        return f"the runs are of different code ({', '.join(sorted(codes))}): what differs may be the code"
    if a.data is b.data:
        return ""
    return (
        "the two come from different sweeps: seed blocks pair only if both trained from the same artifacts "
        "and were evaluated on the same tasks"
    )


def _row(metric: Metric, a: Side, b: Side) -> dict[str, Any]:
    base = choose_endpoint(merged(a, b, BASE_CURVE[metric.source]), _tagged(a) + _tagged(b))
    values = {}
    if base.step is not None:
        values = value_at(merged(a, b, metric.key).select(base.run_ids), metric, base.step)
    difference = compare(by_seed(_tagged(a), values), by_seed(_tagged(b), values))
    shared = set(a.data.sweep.planned.get(a.label, ())) & set(b.data.sweep.planned.get(b.label, ()))
    row = difference_number(
        difference,
        unit=metric.unit,
        n_planned=len(shared),
        policy=base.policy,
        step=base.step,
        runs=[run.run_id for run in _tagged(a) + _tagged(b) if run.run_id in values],
    )
    return row | {"metric": metric.key, "detectable": detectable(difference)}


def _tagged(side: Side) -> list[Run]:
    """Runs with ids that say whose they are: one run may belong to two sweeps under one id."""
    from dataclasses import replace

    return [replace(run, run_id=f"{side.name}/{run.run_id}") for run in side.runs]


def merged(a: Side, b: Side, key: str) -> Curve:
    """The curves of both sides on their common grid of steps."""
    parts = [(side, side.data.curves[key].select(run.run_id for run in side.runs)) for side in (a, b)]
    grid = np.unique(np.concatenate([curve.steps for _, curve in parts]))
    ids, rows = [], []
    for side, curve in parts:
        wide = np.full((len(curve.run_ids), grid.size), np.nan)
        wide[:, np.searchsorted(grid, curve.steps)] = curve.values
        ids += [f"{side.name}/{run_id}" for run_id in curve.run_ids]
        rows.append(wide)
    return Curve(tuple(ids), grid, np.concatenate(rows))
