"""Shows a plan before anything is done about it. Writes nothing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gagar_core.records import read_json
from sweeps.estimate import Cost, estimate, to_data
from sweeps.launchers import Slurm
from sweeps.ledger import Ledger

SCHEMA_VERSION = 1
"""Of ``plan --json``; fields are only ever added within a version."""


def show(
    folder: Path, head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], launcher: Any,
    options: argparse.Namespace,
) -> int:  # fmt: skip
    """Print the table of runs and artifacts, what is done, the cost of the rest, and the sbatch script."""
    ledger = Ledger(folder)
    todo = [line for line in lines if line["kind"] == "run" and not ledger.is_done(line)]
    cost = estimate(todo, folder.parent, launcher)
    script = ""
    if isinstance(launcher, Slurm) and options.sbatch and todo:
        from sweeps.slurm_submit import render

        script = render(folder, launcher, cost.elements)
    if options.json:
        print(json.dumps(_data(ledger, head, lines, cost, script), indent=1))
        return 0
    print("\n".join(_row(ledger, line) for line in lines))
    runs = sum(line["kind"] == "run" for line in lines)
    print(f"{folder}: {runs} runs, {len(lines) - runs} artifacts; plan {head['plan_digest']}")
    print(cost.text(launcher))
    for text in (_conflict(ledger, head), script):
        if text:
            print(text)
    return 0


def _row(ledger: Ledger, line: Mapping[str, Any]) -> str:
    done = "done" if ledger.is_done(line) else ""
    what = line["variant"] or f"artifact {line['artifact']}"
    name = line.get("run_id", line.get("digest"))
    return f"{line['index']:4d}  {name}  seed {line['seed']:<4d} {done:5s} {what}"


def _conflict(ledger: Ledger, head: Mapping[str, Any]) -> str:
    path = ledger.path / "sweep.json"
    if not path.exists() or read_json(path).get("plan_digest") == head["plan_digest"]:
        return ""
    return f"{ledger.path} already holds another plan: submit will be refused; give name=OTHER"


def _data(
    ledger: Ledger, head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], cost: Cost, script: str
) -> dict[str, Any]:
    shown = ("index", "kind", "run_id", "artifact", "digest", "variant", "seed", "overrides", "needs")
    return {
        "schema_version": SCHEMA_VERSION,
        "path": str(ledger.path),
        **head,
        "lines": [
            {key: line[key] for key in shown if key in line} | {"done": ledger.is_done(line)}
            for line in lines
        ],
        "estimate": to_data(cost),
        "sbatch": script,
    }
