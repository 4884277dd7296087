"""Comparisons and verdicts as objects of the report tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.comparisons import Difference, compare
from analysis.contrasts import UNDECIDED, joint_verdict
from analysis.curves import Curve
from analysis.data import SweepData, by_seed, value_at
from analysis.endpoints import Endpoint, filled
from analysis.hypotheses import (
    Declared,
    Hypothesis,
    Verdict,
    detectable,
    judge,
    outer_interval,
    parse,
    seeds_to_decide,
)
from analysis.metrics import BASE_CURVE, METRICS, Metric
from analysis.numbers import Number, difference_number, interval_object
from analysis.study import DEAD, FINISHED, Sweep


def compared(data: SweepData, metric: Metric, label: str, baseline: str, family: int) -> Number:
    """One variant against another, as a number with its test, outer interval and detectable effect."""
    difference, endpoint, values = difference_of(data, metric, label, baseline)
    sweep = data.sweep
    used = [
        run.run_id
        for side in (label, baseline)
        for run in sweep.runs_of(side)
        if run.run_id in values and run.seed in difference.blocks
    ]
    shared = set(sweep.planned.get(label, ())) & set(sweep.planned.get(baseline, ()))
    row = difference_number(
        difference,
        unit=metric.unit,
        n_planned=len(shared),
        policy=endpoint.policy,
        step=endpoint.step,
        runs=used,
    )
    row["outer_interval"] = interval_object(outer_interval(difference, family))
    row["detectable"] = detectable(difference)
    return row


def difference_of(
    data: SweepData, metric: Metric, label: str, baseline: str
) -> tuple[Difference, Endpoint, dict[str, float]]:
    """The paired difference at the shared endpoint, that endpoint, and the per-run values."""
    endpoint = data.shared_endpoint(metric, label, baseline)
    values = data.values(metric, endpoint)
    return _difference(data, label, baseline, values), endpoint, values


def _difference(data: SweepData, one: str, other: str, values: Mapping[str, float]) -> Difference:
    left, right = (by_seed(data.sweep.runs_of(label), values) for label in (one, other))
    return compare(left, right)


def declared_pairs(sweep: Sweep) -> set[tuple[str, str, str]]:
    """(metric, variant, against) of every readable part of the declared hypotheses."""
    parts = [part for entry in parse(sweep.hypotheses, sweep.variants) for part in entry.parts]
    return {(part.metric, part.variant, part.against) for part in parts}


def verdicts(data: SweepData) -> list[dict[str, Any]]:
    """One object per declared hypothesis, faulty ones included; joint claims hold their parts."""
    entries = parse(data.sweep.hypotheses, data.sweep.variants)
    # a joint claim needs no adjustment (intersection-union); the others form families by metric
    alone = [part for entry in entries if not entry.joint for part in entry.parts]
    judged = _judged(data, alone)
    rows = []
    for entry in entries:
        if entry.faults:
            rows.append(_unusable(entry))
        elif entry.joint:
            rows.append(_joint(data, entry))
        else:
            rows.append({"name": entry.name} | judged[entry.parts[0]])
    return rows


def _judged(data: SweepData, parts: Sequence[Hypothesis]) -> dict[Hypothesis, dict[str, Any]]:
    unique = list(dict.fromkeys(parts))
    pairs = [
        (part, difference_of(data, METRICS[part.metric], part.variant, part.against)[0]) for part in unique
    ]
    found = judge(pairs)
    return {
        part: _object(data, part, difference, verdict)
        for (part, difference), verdict in zip(pairs, found, strict=True)
    }


def _object(data: SweepData, part: Hypothesis, difference: Difference, verdict: Verdict) -> dict[str, Any]:
    needed, reason = seeds_to_decide(part.claim, difference, verdict.family)
    return {
        "sentence": part.sentence(),
        "metric": part.metric,
        "variant": part.variant,
        "against": part.against,
        "kind": part.claim.kind,
        "margin": part.claim.margin,
        "direction": part.claim.direction,
        "verdict": verdict.verdict,
        "why": verdict.why,
        "effect": compared(data, METRICS[part.metric], part.variant, part.against, verdict.family),
        "p_support": verdict.p_support,
        "p_refute": verdict.p_refute,
        "p_support_holm": verdict.p_support_holm,
        "p_refute_holm": verdict.p_refute_holm,
        "family": verdict.family,
        "seeds_to_decide": {"value": needed, "why": reason},
        "policies": _policies(data, part),
    }


def _unusable(entry: Declared) -> dict[str, Any]:
    return {"name": entry.name, "verdict": UNDECIDED, "why": "; ".join(entry.faults), "unusable": True}


def _joint(data: SweepData, entry: Declared) -> dict[str, Any]:
    objects = [_judged(data, [part])[part] for part in entry.parts]
    verdict = joint_verdict(o["verdict"] for o in objects)
    undecided = [o["sentence"] for o in objects if o["verdict"] == UNDECIDED]
    why = f"undecided: {'; '.join(undecided)}" if verdict == UNDECIDED else ""
    return {"name": entry.name, "verdict": verdict, "why": why, "all_of": objects}


def _policies(data: SweepData, part: Hypothesis) -> list[dict[str, Any]]:
    """The verdict under other treatments of dead runs, where any run of the two sides died.

    A dead run keeps its last value, or counts as 0 (for a share where higher is better).
    """
    runs = data.sweep.runs_of(part.variant) + data.sweep.runs_of(part.against)
    metric = METRICS[part.metric]
    ended = [run.run_id for run in runs if run.status in DEAD or run.status == FINISHED]
    end = _planned_end(data, metric, [run.run_id for run in runs if run.status == FINISHED])
    if end is None or not any(run.status in DEAD for run in runs):
        return []
    names = ["carried_forward"]
    if metric.unit == "share" and metric.better == "higher":
        names.append("dead_as_zero")
    rows = []
    for name in names:
        curve = data.curves[metric.key].select(ended)
        values = value_at(Curve(curve.run_ids, curve.steps, filled(curve, name)), metric, end)
        difference = _difference(data, part.variant, part.against, values)
        (verdict,) = judge([(part, difference)])
        rows.append(
            {
                "policy": name,
                "step": end,
                "value": difference.value,
                "interval": interval_object(difference.interval),
                "n_used": difference.n,
                "verdict": verdict.verdict,
            }
        )
    return rows


def _planned_end(data: SweepData, metric: Metric, finished: Sequence[str]) -> int | None:
    base = data.curves[BASE_CURVE[metric.source]].select(finished)
    steps = base.steps[(base.values == base.values).any(axis=0)] if finished else base.steps[:0]
    return int(steps[-1]) if steps.size else None


def depends_on_policy(verdict: dict[str, Any]) -> bool:
    """Whether another treatment of dead runs would change a verdict."""
    parts = verdict.get("all_of", [verdict])
    return any(row["verdict"] != part["verdict"] for part in parts for row in part.get("policies", []))
