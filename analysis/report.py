"""The report as data: everything that is said about a folder of runs, as one JSON-ready tree.

HTML, Markdown and figures render this tree and nothing else, so what a reader sees can be tested here.

    schema_version, title, metrics {key: label, unit, better, formula}, compare (two, or null)
    sweeps [name, question, baseline, left_out, plan_digest, n_planned, n_found, n_finished, state, sandbox,
            runs, variants, verdicts, comparisons, tasks, curves, length, stability, learning, efficiency,
            factors,
            graders, tuning, cost, warnings]

A *number* is an object: value, unit, n_used, n_planned, sd, interval {low, high, level, method} or null, why
(the reason for a missing value or interval), policy (for dead runs), step, runs (the ids it came from).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.cautions import sandbox_levels, state_of, warnings_of
from analysis.comparisons import holm
from analysis.cost import cost_section
from analysis.cross import cross_section
from analysis.data import SweepData
from analysis.efficiency import efficiency_section
from analysis.factors import factor_section
from analysis.grader_value import grader_section
from analysis.learning import learning_section
from analysis.length_section import length_section
from analysis.metrics import METRICS
from analysis.naming import left_out
from analysis.numbers import mean_number, rounded
from analysis.series import CURVES, summarise
from analysis.stability_section import stability_section
from analysis.study import FINISHED, NOT_STARTED, Run
from analysis.tasks import task_section
from analysis.tuning_section import tuning_section
from analysis.verdicts import compared, declared_pairs, verdicts
from gagar_core import records
from gagar_core.errors import RecordsError

REPORT_VERSION = 2
"""Version of ``report.json``; a change of meaning raises it."""


def build(data: Sequence[SweepData], title: str, compare: tuple[str, str] | None = None) -> dict[str, Any]:
    """The tree of ``report.json``; ``compare`` names two variants, of one sweep or of two."""
    metrics = {
        key: {"label": m.label, "unit": m.unit, "better": m.better, "formula": m.formula}
        for key, m in METRICS.items()
    }
    tree = {
        "schema_version": REPORT_VERSION,
        "title": title,
        "metrics": metrics,
        "compare": cross_section(data, *compare) if compare else None,
        "sweeps": [_sweep(part) for part in data],
    }
    result: dict[str, Any] = rounded(tree)
    return result


def load_report(path: Path) -> dict[str, Any]:
    """A tree written before; raises ``RecordsError`` if it is damaged or of another version."""
    tree = records.read_json(path)
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    if version != REPORT_VERSION or "sweeps" not in tree:
        raise RecordsError(
            f"{path} has report version {version!r}; this code reads version {REPORT_VERSION}: write it "
            "again with `python -m analysis report`"
        )
    return dict(tree)


def _sweep(data: SweepData) -> dict[str, Any]:
    sweep, values = data.sweep, _run_values(data)
    judged = verdicts(data)
    return {
        "name": sweep.name,
        "question": sweep.question,
        "baseline": sweep.baseline,
        "left_out": left_out(sweep.variants),
        "plan_digest": sweep.plan_digest,
        "n_planned": sum(len(seeds) for seeds in sweep.planned.values()),
        "n_found": sum(run.status != NOT_STARTED for run in sweep.runs),
        "n_finished": sum(run.status == FINISHED for run in sweep.runs),
        "state": state_of(sweep),
        "sandbox": sandbox_levels(sweep),
        "runs": [_run(data, run, values[run.run_id]) for run in sweep.runs],
        "variants": [_variant(data, label) for label in sweep.variants],
        "verdicts": judged,
        "comparisons": _comparisons(data),
        "tasks": task_section(data),
        "curves": _curves(data),
        "length": length_section(data),
        "stability": stability_section(data),
        "learning": learning_section(data),
        "efficiency": efficiency_section(data.grounds),
        "factors": factor_section(data),
        "graders": grader_section(data),
        "tuning": tuning_section(data),
        "cost": cost_section(data),
        "warnings": warnings_of(data, judged),
    }


def _run(data: SweepData, run: Run, values: Mapping[str, float]) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "variant": run.variant,
        "seed": run.seed,
        "status": run.status,
        "reason": run.reason,
        "last_step": data.last_steps.get(run.run_id),
        "sandbox_level": run.sandbox_level,
        "nonfinite": data.nonfinite.get(run.run_id, {}),
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
    """Every variant against the baseline, Holm-adjusted over the variants of each metric.

    ``declared`` is false for a comparison that no hypothesis of the sweep speaks of: it is exploratory.
    """
    baseline = data.sweep.baseline
    if baseline is None or baseline not in data.sweep.variants:
        return []
    others = [label for label in data.sweep.comparable if label != baseline]
    declared = declared_pairs(data.sweep)
    rows: list[dict[str, Any]] = []
    for key, metric in METRICS.items():
        family = [compared(data, metric, label, baseline, len(others)) for label in others]
        tested = [row for row in family if row["p"] is not None]
        adjusted = iter(holm([row["p"] for row in tested]).tolist())
        for label, row in zip(others, family, strict=True):
            row |= {"metric": key, "variant": label, "against": baseline, "family": len(tested)}
            row["p_holm"] = None if row["p"] is None else next(adjusted)
            row["declared"] = (key, label, baseline) in declared
        rows += family
    return rows


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
