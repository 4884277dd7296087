"""What an arm cost: CPU seconds of its runs by phase, and of the artifacts that they needed.

An artifact (SFT weights, graded groups, a grader) is built once and used by many runs: it counts in full for
every arm that needs it, because that arm could not have been run without it, and per run as its share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis.data import SweepData
from analysis.endpoints import FINISHED_ONLY
from analysis.metrics import PHASES
from analysis.numbers import mean_number
from analysis.study import FINISHED, Sweep
from gagar_core import records
from gagar_core.errors import RecordsError


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


def artifact_seconds(sweep: Sweep) -> dict[str, float]:
    """run_id -> CPU seconds of the artifacts that it needs, where all are known."""
    built = built_artifacts(sweep)
    found = {}
    for run_id, digests in needed(sweep).items():
        parts = [built.get(digest, {}).get("cpu_s") for digest in digests]
        if parts and all(part is not None for part in parts):
            found[run_id] = float(sum(part for part in parts if part is not None))
    return found


def needed(sweep: Sweep) -> dict[str, list[str]]:
    """run_id -> digests of the artifacts that the plan says it needs; empty without a plan."""
    path = sweep.path / "plan.jsonl"
    if not path.exists():
        return {}
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            if row.get("kind", "run") == "run":
                found[str(row["run_id"])] = [str(digest) for digest in row.get("needs") or ()]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # reported with the plan: analysis.study names every line that cannot be read
    return found


def built_artifacts(sweep: Sweep) -> dict[str, dict[str, Any]]:
    """digest -> kind and CPU seconds, from ``<root>/artifacts/<kind>/<digest>/done.json``."""
    found = {}
    for path in sorted(_done_files(sweep.path.resolve().parent)):
        try:
            content = records.read_json(path)
        except RecordsError:
            continue  # not built completely: its cost stays unknown, and the arm's number says so
        seconds = content.get("cpu_s") if isinstance(content, dict) else None
        known = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        found[path.parent.name] = {
            "kind": path.parent.parent.name,
            "cpu_s": float(seconds) if known and seconds is not None else None,
        }
    return found


def _done_files(root: Path) -> Iterable[Path]:
    return root.glob("artifacts/*/*/done.json")
