"""Small plans for the tests of the sweep machinery: real configurations, hand-written execution."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from gagar_core.records import publish_once, to_json
from sweeps.jobs import Job
from sweeps.ledger import Ledger
from sweeps.plan import Plan, build_plan
from sweeps.spec import read_spec

LISTED = {
    "question": "Does the machinery work?",
    "base": ["budget=smoke", "tracking=none"],
    "baseline": "algorithm=grpo",
    "factors": {"grid": {"algorithm": ["grpo", "rloo"]}},
    "seeds": 2,
}
"""Two variants, two seed blocks: four runs and two artifacts."""


def write_plan(root: Path, **changes: object) -> Ledger:
    """The plan of ``LISTED`` with some keys changed, written below ``root``."""
    plan = _planned(json.dumps({**LISTED, **changes}))
    return replace(plan, folder=root / "tiny").write()


@cache
def _planned(content: str) -> Plan:
    # composing takes most of a test's time, and where a plan is written is no part of it
    return build_plan(read_spec("tiny", json.loads(content)))


def finish(job: Job, content: object = None) -> None:
    """What a job leaves behind when it succeeds."""
    if job.kind == "run":
        publish_once(job.attempt.folder / "result.json", to_json(content or {"status": "finished"}))
    else:
        folder = Path(job.spec["root"]) / "artifacts" / job.spec["artifact"] / job.identity
        folder.mkdir(parents=True, exist_ok=True)
        publish_once(folder / "done.json", to_json({}))


def recorder(path: Path, then: Callable[[Job], None] = finish) -> Callable[[Job], None]:
    """A ``perform`` that writes down which jobs were begun, then does ``then``."""

    def perform(job: Job) -> None:
        with path.open("a") as stream:
            stream.write(json.dumps([job.kind, job.identity, job.attempt.number]) + "\n")
        then(job)

    return perform


def begun(path: Path) -> list[tuple[str, str, int]]:
    """Jobs that a ``recorder`` saw, in order."""
    if not path.exists():
        return []
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]
