"""What the artifacts of a sweep cost to build, and which runs need them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.study import Sweep
from gagar_core import records
from gagar_core.errors import RecordsError


def artifact_seconds(sweep: Sweep) -> tuple[dict[str, float], str]:
    """run_id -> CPU seconds of the artifacts that it needs; and why they are not known, or "".

    All or none: a run whose artifacts were left out would look cheaper than one that pays for them.
    """
    if not sweep.has_plan:
        return {}, "without a plan it is not known which ones the runs needed"
    built, planned = built_artifacts(sweep), needed(sweep)
    needs = {run.run_id: planned.get(run.run_id, []) for run in sweep.runs if run.readable}
    digests = {digest for found in needs.values() for digest in found}
    unknown = sorted(digest for digest in digests if built.get(digest, {}).get("cpu_s") is None)
    if unknown:
        return {}, (
            f"what {len(unknown)} of {len(digests)} artifacts cost is not known (is this a copy of the sweep "
            "without the artifacts folder beside it?)"
        )
    return {i: float(sum(built[d]["cpu_s"] for d in found)) for i, found in needs.items()}, ""


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
