"""What graders of a sweep were worth: how right they rank, and what they cost, beside what came of it.

How right a grader ranks is measured on held-out groups by ``python -m experiments train_grader``, and lies
below the sweep's root. An arm is joined with what was measured of its own graders: of the same settings,
suite, policy and seed block.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from analysis.artifacts import built_artifacts, needed
from analysis.data import SweepData
from analysis.endpoints import FINISHED_ONLY
from analysis.numbers import Number, mean_number
from analysis.study import FINISHED, Run, Sweep
from gagar_core import records
from gagar_core.errors import RecordsError

MEASURES = {"pair_accuracy": "pairs ordered rightly", "right_over_lucky": "right above lucky"}
"""Measures of agreement that stand in the report -> what a reader calls them."""
GRADING = ("grade_cpu_s", "gold_cpu_s", "recalibrate_cpu_s")
"""CPU-second columns of ``steps`` that are there because of a grader."""
WATCHING = (
    "gold_every", "gold_groups", "gold_drop", "recalibrate_every", "recalibrate_groups", "error_from",
)  # fmt: skip
"""Settings of a grader that do not change how it ranks before training; they join nothing."""
_DATA = ("group_size", "groups_per_step", "sft_demos", "sft_epochs")
NOT_JUDGED = "not judged on held-out groups: python -m experiments train_grader does it"
UNTRAINED = "nothing is trained for it"

Judged = Mapping[str, Mapping[str, Any]]


def grader_section(data: SweepData) -> list[dict[str, Any]]:
    """One row per variant that has a grader: agreement, CPU seconds of grading, and of training the grader.

    Empty if no run has one.
    """
    judged, needs, built = judged_graders(data.sweep), needed(data.sweep), built_artifacts(data.sweep)
    rows = []
    for label in data.sweep.variants:
        runs = [run for run in data.sweep.runs_of(label) if _kind(run) not in ("", "none")]
        if runs:
            rows.append(_row(data, label, runs, judged) | _costs(data, label, runs, needs, built))
    return rows


def _row(data: SweepData, label: str, runs: Iterable[Run], judged: Judged) -> dict[str, Any]:
    found = {run.run_id: judged[key] for run in runs if (key := _key(run.config, run.seed)) in judged}
    planned = len(data.sweep.planned.get(label, ()))
    numbers: dict[str, Number] = {}
    for measure in MEASURES:
        values = {i: one["all"][measure] for i, one in found.items() if one["all"][measure] is not None}
        numbers[measure] = mean_number(
            values, unit="share", n_planned=planned, policy="all seed blocks that were judged", step=None
        )
        if not found:
            numbers[measure]["why"] = NOT_JUDGED
    return {
        "label": label,
        "upper_bound": any(one["upper_bound"] for one in found.values()),
        "agreement": numbers,
    }


def _costs(
    data: SweepData,
    label: str,
    runs: Iterable[Run],
    needs: Mapping[str, list[str]],
    built: Mapping[str, Mapping[str, Any]],
) -> dict[str, Number]:
    """CPU seconds per finished run: of grading, of all of it, and of what its grader was trained with."""
    done = [run.run_id for run in runs if run.status == FINISHED and data.seconds.get(run.run_id)]
    grading = {i: sum(data.seconds[i].get(column, 0.0) for column in GRADING) for i in done}
    total = {i: sum(data.seconds[i].values()) for i in done}
    # the first that a run needs are the SFT weights of its own policy
    made = {i: [built.get(digest, {}).get("cpu_s") for digest in needs[i][1:]] for i in done if i in needs}
    training = {i: _sum(parts) for i, parts in made.items() if parts and None not in parts}
    planned = len(data.sweep.planned.get(label, ()))

    def number(values: Mapping[str, float], unit: str) -> Number:
        return mean_number(values, unit=unit, n_planned=planned, policy=FINISHED_ONLY, step=None)

    return {
        "grading": number(grading, "CPU s per run"),
        "share": number({i: grading[i] / total[i] for i in done if total[i]}, "share"),
        "training": number(training, "CPU s per run") | ({} if any(made.values()) else {"why": UNTRAINED}),
        "run": number(total, "CPU s per run"),
    }


def _sum(parts: Iterable[Any]) -> float:
    return float(sum(parts))


def judged_graders(sweep: Sweep) -> dict[str, dict[str, Any]]:
    """What was measured of graders below the sweep's root, by grader, suite, policy and seed block."""
    found = {}
    for done in sorted(sweep.path.resolve().parent.glob("artifacts/grader_accuracy/*/done.json")):
        try:
            spec = records.read_json(done.with_name("spec.json"))
            key = _key(spec["config"], spec["seed"])
            found[key] = records.read_json(done.with_name("accuracy.json"))
        except (RecordsError, KeyError, TypeError, AttributeError):
            continue  # not written completely: its arm says that it was not judged
    return found


def _key(config: Mapping[str, Any], seed: int) -> str:
    """What a run and a measurement of its grader have in common."""
    grader = {name: value for name, value in config["grader"].items() if name not in WATCHING}
    budget = {name: config.get("budget", {}).get(name) for name in _DATA}
    parts = [grader, config.get("tasks"), config.get("policy"), budget, seed]
    return json.dumps(parts, sort_keys=True)


def _kind(run: Run) -> str:
    return str((run.config.get("grader") or {}).get("kind", ""))
