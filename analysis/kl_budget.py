"""How far a policy was moved to reach a pass rate that every variant reaches: KL at equal held-out pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.curves import Curve
from analysis.data import SweepData
from analysis.members import Members
from analysis.metrics import EVALS
from analysis.series import summarise
from analysis.statistics import Floats
from analysis.step_signals import Signals

LAST = 10
"""Steps averaged for a level of KL."""


def kl_at_equal_pass(data: SweepData) -> dict[str, Any]:
    """``target`` and, per variant, over the runs that reach it: KL spent until then, and steps.

    The target is the highest held-out pass that the mean of every variant reaches. A run reaches it at its
    first evaluation at or above it; runs that never do have no value, and n says how many.
    """
    curve = data.curves["held_out_pass"]
    peaks = {label: _peak(data, curve, label) for label in data.sweep.variants}
    known = [peak for peak in peaks.values() if peak is not None]
    target = min(known) if known else None
    return {
        "target": target,
        "why": "" if known else "no variant has a held-out evaluation",
        "variants": [
            _variant(data, curve, label, target) for label, peak in peaks.items() if peak is not None
        ],
    }


def _peak(data: SweepData, curve: Curve, label: str) -> float | None:
    means = summarise(curve.select(Members(data, label, EVALS).ids))["mean"]
    return max(means) if means else None


def _variant(data: SweepData, curve: Curve, label: str, target: float | None) -> dict[str, Any]:
    members = Members(data, label, EVALS)
    own = curve.select(members.ids)
    reached = {
        run_id: step
        for run_id, row in zip(own.run_ids, own.values, strict=True)
        if target is not None and (step := first_reached(own.steps.astype(float), row, target)) is not None
    }
    spent = {i: kl_until(data.signals.get(i), step) for i, step in reached.items()}
    units = {"kl_k3_total": "nats per token", "kl_ref": "nats per token"}
    numbers = {
        name: members.number({i: one[name] for i, one in spent.items() if name in one}, unit)
        for name, unit in units.items()
    }
    return members.head() | {"steps": members.number(reached, "steps")} | numbers


def first_reached(steps: Floats, passed: Floats, target: float) -> float | None:
    """Step of the first evaluation at or above the target; NaN is no evaluation."""
    found = np.flatnonzero(passed >= target - 1e-12)
    return float(steps[found[0]]) if found.size else None


def kl_until(signals: Signals | None, step: float) -> dict[str, float]:
    """KL to the sampler, summed, and level of KL to the reference after ``step`` updates, where recorded."""
    if signals is None:
        return {}
    until = signals["done"] <= step
    moved, reference = signals["kl_k3"], signals["kl_ref"][until]
    reference = reference[np.isfinite(reference)][-LAST:]
    found = {"kl_k3_total": float(np.nansum(moved[until]))} if np.isfinite(moved).any() else {}
    return found | ({"kl_ref": float(reference.mean())} if reference.size else {})
