"""The stability report: levels over seeds, what happened in which run, and how far seeds differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from analysis.data import SweepData
from analysis.details import RunDetails
from analysis.kl_budget import kl_at_equal_pass
from analysis.learning import signal_curves
from analysis.members import Members
from analysis.metrics import EVALS, METRICS, TRAINING
from analysis.numbers import interval_object
from analysis.signals import bistable
from analysis.stability_items import EVENTS, ITEMS
from analysis.statistics import sample_sd, wilson_interval
from analysis.study import DEAD, DIVERGED

STRIP = ("entropy_tok", "kl_k3", "grad_norm", "ratio_max", "truncated_rate", "groups_kept", "mean_test_runs")
"""Signals of ``steps`` that the stability strip draws."""


def stability_section(data: SweepData) -> dict[str, Any]:
    """``items`` and ``kinds`` (definitions), ``variants`` (levels, seeds, grader) and ``events`` by run."""
    return {
        "items": ITEMS,
        "kinds": EVENTS,
        "variants": [_variant(data, label) for label in data.sweep.variants],
        "events": _events(data),
        "kl_at_equal_pass": kl_at_equal_pass(data),
        "signals": signal_curves(data, STRIP),
    }


def _variant(data: SweepData, label: str) -> dict[str, Any]:
    members = Members(data, label, TRAINING)
    items = {
        key: members.number(members.values(_stability_value(key)), item["unit"])
        for key, item in ITEMS.items()
    }
    return members.head() | {
        "items": items,
        "shares": {kind: _share(data, members, kind) for kind in EVENTS},
        "seeds": _seeds(data, label),
        "hacking": _hacking(data, label),
        "drift": _drift(members),
        "drift_change": _drift_change(members),
    }


def _stability_value(name: str) -> Callable[[RunDetails], float | None]:
    return lambda details: details.stability.values.get(name)


def _share(data: SweepData, members: Members, kind: str) -> dict[str, Any]:
    """How many of the ended runs an event happened in, with a Wilson interval: 0 of 5 is not never."""
    ended = [run for run in members.runs if run.run_id in data.details]
    hit = [run.run_id for run in ended if kind in _kinds(data, run.run_id, run.status)]
    interval = wilson_interval(len(hit), len(ended)) if ended else None
    return {"n": len(ended), "hit": hit, "interval": interval_object(interval)}


def _kinds(data: SweepData, run_id: str, status: str) -> set[str]:
    found = {event["kind"] for event in data.details[run_id].stability.events}
    if status == DIVERGED:
        found.add("diverged")
    if data.nonfinite.get(run_id):
        found.add("nonfinite")
    return found


def _seeds(data: SweepData, label: str) -> dict[str, Any]:
    """How far runs of one variant differ in held-out pass: sd, worst run, two camps."""
    members = Members(data, label, EVALS)
    values = data.values(METRICS["held_out_pass"], data.ends[label, EVALS])
    column = np.array(list(values.values()))
    worst = min(values, key=lambda run_id: (values[run_id], run_id)) if values else None
    return members.head() | {
        "sd": sample_sd(column) if column.size > 1 else None,
        "worst_run": worst,
        "worst": None if worst is None else values[worst],
        "median": float(np.median(column)) if column.size else None,
        "bistable": bistable(column),
        "why": "" if column.size > 1 else "needs two runs",
    }


def _hacking(data: SweepData, label: str) -> dict[str, Any]:
    """Attempts that pass the reward tests and fail the audit, at the endpoint; slope of the gap."""
    import polars as pl

    endpoint = data.ends[label, EVALS]
    rows = data.outcomes.filter(
        (pl.col("step") == (-1 if endpoint.step is None else endpoint.step))
        & pl.col("run_id").is_in(list(endpoint.run_ids))
        & (pl.col("n_audit") == pl.col("n"))
    )
    visible, hidden = int(rows["passed"].sum()), int(rows["audit_passed"].sum())
    slope = Members(data, label, EVALS).number(_gap_slopes(data, endpoint.run_ids), "share per 100 steps")
    interval = interval_object(wilson_interval(visible - hidden, visible)) if visible else None
    return {
        "passing": visible,
        "failing_audit": visible - hidden,
        "rate": (visible - hidden) / visible if visible else None,
        "interval": interval,
        "note": "interval over attempts, which share runs and tasks: too narrow for a comparison of variants",
        "gap_slope": slope,
    }


def _gap_slopes(data: SweepData, run_ids: tuple[str, ...]) -> dict[str, float]:
    from analysis.trend import fit_line

    curve = data.curves["hack_gap"].select(run_ids)
    found = {}
    for run_id, row in zip(curve.run_ids, curve.values, strict=True):
        if np.isfinite(row).sum() >= 2:
            found[run_id] = 100 * fit_line(curve.steps, row).slope
    return found


def _drift(members: Members) -> list[dict[str, Any]]:
    """Grader against gold set per step, mean over runs; empty if no run graded a gold set."""
    steps = sorted({one.step for d in members.details().values() for one in d.drift})
    units = {
        "tau": "correlation", "top1": "share", "rank_shift": "ranks", "parse_fail": "share",
        "consistency": "share",
    }  # fmt: skip
    return [
        {"step": step}
        | {
            name: members.number(members.values(_drift_value(step, name)), unit)
            for name, unit in units.items()
        }
        for step in steps
    ]


def _drift_change(members: Members) -> dict[str, Any]:
    """Last minus first grading of the gold set, per run: the interval is over runs that graded it twice."""
    return {
        name: members.number(members.values(_change_value(name)), unit)
        for name, unit in (("tau", "correlation"), ("top1", "share"))
    }


def _change_value(name: str) -> Callable[[RunDetails], float | None]:
    return lambda details: last_minus_first([getattr(one, name) for one in details.drift])


def last_minus_first(found: Sequence[float | None]) -> float | None:
    """Change from the first to the last of several gradings; null if either has no value."""
    if len(found) < 2 or found[0] is None or found[-1] is None:
        return None
    return found[-1] - found[0]


def _drift_value(step: int, name: str) -> Callable[[RunDetails], float | None]:
    def value(details: RunDetails) -> float | None:
        found = [getattr(one, name) for one in details.drift if one.step == step]
        return found[0] if found else None

    return value


def _events(data: SweepData) -> list[dict[str, Any]]:
    """Every event of every readable run; spikes are gathered into one entry per run."""
    found: list[dict[str, Any]] = []
    for run in data.sweep.runs:
        if run.run_id not in data.details:
            continue
        head = {"run_id": run.run_id, "variant": run.variant, "seed": run.seed}
        events = list(data.details[run.run_id].stability.events)
        if run.status in DEAD:
            step = data.last_steps.get(run.run_id)
            kind = "diverged" if run.status == DIVERGED else run.status
            events.append({"kind": kind, "step": step, "text": run.reason or run.status})
        if data.nonfinite.get(run.run_id):
            events.append(_nonfinite(data.nonfinite[run.run_id]))
        spikes = [event for event in events if event["kind"] == "grad_spike"]
        found += [head | event for event in events if event["kind"] != "grad_spike"]
        if spikes:
            text = f"{len(spikes)} gradient spikes, at steps {', '.join(str(s['step']) for s in spikes[:8])}"
            found.append(head | {"kind": "grad_spike", "step": spikes[0]["step"], "text": text})
    return found


def _nonfinite(columns: Mapping[str, int]) -> dict[str, Any]:
    words = ", ".join(f"{name} {n}" for name, n in sorted(columns.items()))
    return {"kind": "nonfinite", "step": None, "text": f"not finite in steps: {words}"}
