"""What an arm cost: CPU seconds of its runs by phase, and of the artifacts that they needed.

An artifact (SFT weights, graded groups, a grader) is built once and used by many runs: it counts in full for
every arm that needs it, because that arm could not have been run without it, and per run as its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.artifacts import built_artifacts, needed
from analysis.data import SweepData
from analysis.endpoints import FINISHED_ONLY
from analysis.metrics import PHASES
from analysis.numbers import mean_number
from analysis.study import FINISHED


def cost_section(data: SweepData) -> list[dict[str, Any]]:
    """Per variant: CPU seconds per run and phase (mean over finished runs), artifacts, and the whole arm."""
    needs, built = needed(data.sweep), built_artifacts(data.sweep)
    return [_arm(data, label, needs, built) for label in data.sweep.variants]


def _arm(
    data: SweepData, label: str, needs: Mapping[str, list[str]], built: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    done = [run.run_id for run in data.sweep.runs_of(label) if run.status == FINISHED]
    planned = len(data.sweep.planned.get(label, ()))
    phases = {
        column: mean_number(
            {i: data.seconds[i][column] for i in done if column in data.seconds.get(i, {})},
            unit="CPU s per run",
            n_planned=planned,
            policy=FINISHED_ONLY,
            step=None,
        )
        for column in PHASES
    }
    total = {i: sum(data.seconds[i].values()) for i in done if data.seconds.get(i)}
    digests = sorted({digest for run_id in done for digest in needs.get(run_id, [])})
    parts = [_artifact(digest, built) for digest in digests]
    known = [part["cpu_s"] for part in parts if part["cpu_s"] is not None]
    complete = bool(total) and len(total) == len(done) and len(known) == len(parts)
    why = "" if complete else "CPU seconds of some run or artifact are not known: a lower bound"
    return {
        "label": label,
        "phases": phases,
        "total": mean_number(total, unit="CPU s per run", n_planned=planned, policy=FINISHED_ONLY, step=None),
        "artifacts": parts,
        "arm_cpu_s": sum(total.values()) + sum(known),
        "artifact_cpu_s": sum(known) if known else None,
        "why": why,
    }


def _artifact(digest: str, built: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found = built.get(digest, {})
    return {"digest": digest, "kind": found.get("kind", ""), "cpu_s": found.get("cpu_s")}
