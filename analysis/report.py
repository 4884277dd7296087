"""The report as data: everything that is said about a folder of runs, as one JSON-ready tree.

HTML, Markdown and figures render this tree and nothing else, so what a reader sees can be tested here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.comparisons import compare, holm
from analysis.curves import Curve, evaluation_curves, phase_seconds, training_curves
from analysis.endpoints import FINISHED_ONLY, LAST_COMMON, Endpoint, choose_endpoint
from analysis.frames import check_tables, gaps
from analysis.metrics import BASE_CURVE, EVALS, METRICS, PHASES, TRAIN_WINDOW, TRAINING, Metric
from analysis.numbers import Number, difference_number, mean_number, rounded
from analysis.series import CURVES, summarise
from analysis.study import (
    DAMAGED,
    FINISHED,
    ISOLATED,
    NOT_STARTED,
    UNFINISHED,
    Run,
    Sweep,
    load_sweeps,
    require_readable,
)
from gagar_core.errors import RecordsError

REPORT_VERSION = 1
"""Version of ``report.json``; a change of meaning raises it."""


class SweepData:
    """A sweep with its curves, read once."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        readable = [run for run in self.sweep.runs if run.readable]
        self.curves: dict[str, Curve] = evaluation_curves(readable) | training_curves(readable)
        self.seconds = phase_seconds(readable, PHASES)
        self.gaps = gaps(readable)
        self.ends = {
            (label, source): choose_endpoint(self.curves[base], self.sweep.runs_of(label))
            for label in self.sweep.variants
            for source, base in BASE_CURVE.items()
        }

    def shared_endpoint(self, metric: Metric, one: str, other: str) -> Endpoint:
        """Where two variants are compared: the same step for both, chosen from the two alone."""
        runs = self.sweep.runs_of(one) + self.sweep.runs_of(other)
        return choose_endpoint(self.curves[BASE_CURVE[metric.source]], runs)

    def values(self, metric: Metric, endpoint: Endpoint) -> dict[str, float]:
        """run_id -> value at the endpoint, for the runs that have one."""
        if endpoint.step is None:
            return {}
        curve = self.curves[metric.key].select(endpoint.run_ids)
        if metric.source == TRAINING:
            return curve.window(endpoint.step, TRAIN_WINDOW)
        return curve.at(endpoint.step)


def read(path: Path) -> list[SweepData]:
    """Load what lies at a root, a sweep or a run folder; raises ``RecordsError`` if nothing can be read."""
    sweeps = [check_tables(sweep) for sweep in load_sweeps(path)]
    require_readable(path, sweeps)
    data = [SweepData(sweep) for sweep in sweeps]
    if not any(curve.steps.size for part in data for curve in part.curves.values()):
        raise RecordsError(
            f"{path}: nothing is recorded yet: no run has rows in evals or trajectories; try again once a "
            "run has written its first chunk"
        )
    return data


def build(data: Sequence[SweepData], title: str) -> dict[str, Any]:
    """The tree of ``report.json``."""
    metrics = {
        key: {"label": m.label, "unit": m.unit, "better": m.better, "formula": m.formula}
        for key, m in METRICS.items()
    }
    tree = {
        "schema_version": REPORT_VERSION,
        "title": title,
        "metrics": metrics,
        "sweeps": [_sweep(part) for part in data],
    }
    rounded_tree: dict[str, Any] = rounded(tree)
    return rounded_tree


def _sweep(data: SweepData) -> dict[str, Any]:
    sweep, values = data.sweep, _run_values(data)
    return {
        "name": sweep.name,
        "question": sweep.question,
        "baseline": sweep.baseline,
        "plan_digest": sweep.plan_digest,
        "n_planned": sum(len(seeds) for seeds in sweep.planned.values()),
        "n_found": sum(run.status != NOT_STARTED for run in sweep.runs),
        "n_finished": sum(run.status == FINISHED for run in sweep.runs),
        "sandbox": _sandbox(sweep),
        "runs": [_run(data, run, values[run.run_id]) for run in sweep.runs],
        "variants": [_variant(data, label) for label in sweep.variants],
        "comparisons": _comparisons(data),
        "curves": _curves(data),
        "cost": _cost(data),
        "warnings": _warnings(data),
    }


def _run(data: SweepData, run: Run, values: Mapping[str, float]) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "variant": run.variant,
        "seed": run.seed,
        "status": run.status,
        "reason": run.reason,
        "last_step": _last_step(data, run),
        "sandbox_level": run.sandbox_level,
        "values": dict(values),
    }


def _run_values(data: SweepData) -> dict[str, dict[str, float]]:
    """run_id -> metric -> the value that entered its variant's number."""
    found: dict[str, dict[str, float]] = {run.run_id: {} for run in data.sweep.runs}
    for label in data.sweep.variants:
        for key, metric in METRICS.items():
            for run_id, value in data.values(metric, data.ends[label, metric.source]).items():
                found[run_id][key] = value
    return found


def _last_step(data: SweepData, run: Run) -> int | None:
    curve = data.curves[BASE_CURVE[TRAINING]].select([run.run_id])
    present = np.flatnonzero(np.isfinite(curve.values[0]))
    return int(curve.steps[present[-1]]) if present.size else None


def _variant(data: SweepData, label: str) -> dict[str, Any]:
    planned = data.sweep.planned.get(label, ())
    values = {}
    for key, metric in METRICS.items():
        endpoint = data.ends[label, metric.source]
        values[key] = mean_number(
            data.values(metric, endpoint),
            unit=metric.unit,
            n_planned=len(planned),
            policy=endpoint.policy,
            step=endpoint.step,
        )
    return {"label": label, "seeds": list(planned), "values": values}


def _comparisons(data: SweepData) -> list[dict[str, Any]]:
    """Every variant against the baseline, Holm-adjusted over the variants of each metric."""
    baseline = data.sweep.baseline
    if baseline is None or baseline not in data.sweep.variants:
        return []
    others = [label for label in data.sweep.variants if label != baseline]
    rows: list[dict[str, Any]] = []
    for key, metric in METRICS.items():
        family = [_comparison(data, metric, label, baseline) for label in others]
        tested = [row for row in family if row["p"] is not None]
        for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
            row["p_holm"] = float(p)
        rows += [
            {"metric": key, "variant": label, "against": baseline, "p_holm": None, "family": len(tested)}
            | row
            for label, row in zip(others, family, strict=True)
        ]
    return rows


def _comparison(data: SweepData, metric: Metric, label: str, baseline: str) -> Number:
    sweep = data.sweep
    sides = [sweep.runs_of(label), sweep.runs_of(baseline)]
    endpoint = data.shared_endpoint(metric, label, baseline)
    values = data.values(metric, endpoint)
    left, right = ({r.seed: values[r.run_id] for r in side if r.run_id in values} for side in sides)
    difference = compare(left, right)
    used = [r.run_id for side in sides for r in side if r.run_id in values and r.seed in difference.blocks]
    shared = set(sweep.planned.get(label, ())) & set(sweep.planned.get(baseline, ()))
    return difference_number(
        difference,
        unit=metric.unit,
        n_planned=len(shared),
        policy=endpoint.policy,
        step=endpoint.step,
        runs=used,
    )


def _curves(data: SweepData) -> dict[str, Any]:
    """Per plotted metric and variant: steps, mean, t bounds, median and n."""
    result: dict[str, Any] = {}
    for key in CURVES:
        per_variant = {}
        for label in data.sweep.variants:
            ids = [run.run_id for run in data.sweep.runs_of(label) if run.readable]
            per_variant[label] = summarise(data.curves[key].select(ids))
        result[key] = per_variant
    return result


def _cost(data: SweepData) -> list[dict[str, Any]]:
    """CPU seconds per run and phase, mean over the finished runs of each variant."""
    rows = []
    for label in data.sweep.variants:
        done = [run.run_id for run in data.sweep.runs_of(label) if run.status == FINISHED]
        phases = {
            column: mean_number(
                {
                    run_id: data.seconds[run_id][column]
                    for run_id in done
                    if column in data.seconds.get(run_id, {})
                },
                unit="CPU s per run",
                n_planned=len(data.sweep.planned.get(label, ())),
                policy=FINISHED_ONLY,
                step=None,
            )
            for column in PHASES
        }
        rows.append({"label": label, "phases": phases})
    return rows


def _sandbox(sweep: Sweep) -> dict[str, Any]:
    """Levels as recorded; a started run that recorded none counts as not isolated."""
    levels: dict[str, list[str]] = {}
    for run in sweep.runs:
        if run.readable:
            levels.setdefault(run.sandbox_level or "not recorded", []).append(run.run_id)
    open_runs = [run_id for level, ids in sorted(levels.items()) if level not in ISOLATED for run_id in ids]
    return {
        "levels": {level: sorted(ids) for level, ids in levels.items()},
        "not_isolated": sorted(open_runs),
    }


def _warnings(data: SweepData) -> list[dict[str, Any]]:
    sweep = data.sweep
    found = [_warning("plan", text) for text in sweep.warnings]
    found += _sandbox_warning(sweep)
    found += [
        _warning("run", f"{_name(run)} {_fate(data, run)}", [run.run_id])
        for run in sweep.runs
        if run.status != FINISHED
    ]
    found += [
        _warning("gap", f"{gap.run_id} lacks steps {_ranges(gap.steps)} of table {gap.table}", [gap.run_id])
        for gap in data.gaps
    ]
    found += _endpoint_warnings(data)
    return found


def _warning(code: str, text: str, runs: Sequence[str] = ()) -> dict[str, Any]:
    return {"code": code, "text": text, "runs": list(runs)}


def _sandbox_warning(sweep: Sweep) -> list[dict[str, Any]]:
    sandbox = _sandbox(sweep)
    if not sandbox["not_isolated"]:
        return []
    levels = ", ".join(sorted(level for level in sandbox["levels"] if level not in ISOLATED))
    text = (
        f"programs ran NOT ISOLATED (sandbox level {levels}) in {len(sandbox['not_isolated'])} of "
        f"{sum(run.readable for run in sweep.runs)} runs: generated code had this account's rights"
    )
    return [_warning("sandbox", text, sandbox["not_isolated"])]


def _name(run: Run) -> str:
    return f"{run.variant} seed {run.seed} ({run.run_id})" if run.variant else run.run_id


def _fate(data: SweepData, run: Run) -> str:
    step = _last_step(data, run)
    at = "before its first step" if step is None else f"at step {step}"
    reason = f": {run.reason}" if run.reason else ""
    if run.status in (NOT_STARTED,):
        return "is planned and has not started"
    if run.status == DAMAGED:
        return f"is damaged and left out{reason}"
    if run.status == UNFINISHED:
        return f"is not finished, last recorded {at}{reason}"
    return f"{run.status} {at}{reason}"


def _endpoint_warnings(data: SweepData) -> list[dict[str, Any]]:
    found = []
    for label in data.sweep.variants:
        endpoint = data.ends[label, EVALS]
        if endpoint.policy == FINISHED_ONLY:
            text = f"{label}: dead runs are left out; if they died of bad training, its numbers flatter it"
            found.append(_warning("survivors", text))
        elif endpoint.policy == LAST_COMMON:
            found.append(_warning("common_step", f"{label}: read off at step {endpoint.step}, {LAST_COMMON}"))
        planned = len(data.sweep.planned.get(label, ()))
        if data.sweep.has_plan and len(endpoint.run_ids) < planned:
            text = f"{label}: planned n not reached, {len(endpoint.run_ids)} of {planned} runs"
            found.append(_warning("n_planned", text))
        if len(endpoint.run_ids) == 1:
            found.append(_warning("one_run", f"{label}: one run, so no interval can be given"))
    return found


def _ranges(steps: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for step in steps:
        if parts and step == parts[-1][1] + 1:
            parts[-1][1] = step
        else:
            parts.append([step, step])
    return ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in parts)


def number_of(tree: Mapping[str, Any], sweep: int, variant: str, metric: str) -> Number:
    """Look up one number of a report tree."""
    for entry in tree["sweeps"][sweep]["variants"]:
        if entry["label"] == variant:
            found: Number = entry["values"][metric]
            return found
    raise KeyError(variant)
