"""CPU milliseconds that a sampling policy takes to decide on 1,000 groups of 8, and CPU seconds to load a suite.

    python tests/bench/bench_sampling.py

Limits: 1 ms for all decisions of a step (which tasks, which groups are kept, what is remembered), 1 s for a
suite. Outcomes are counted once, when a group is made: that is a line of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gagar_core.choices import CHOICES
from gagar_core.protocols import SamplingRound
from gagar_core.training.feed import TaskFeed
from gagar_core.types import Group
from tests.sampling.coin import PLAIN, tasks

ROOT = Path(__file__).parent.parent.parent
GROUPS, SIZE = 1000, 8


def measure() -> dict[str, float]:
    """Name -> milliseconds per 1,000 groups (sampling) or seconds (suites), the best of several."""
    many = tasks(GROUPS)
    rows = [
        tuple(replace(PLAIN, verdict="pass" if k * 7 < i % 57 else "wrong") for k in range(SIZE))
        for i in range(GROUPS)
    ]
    numbered = list(enumerate(zip(many, rows, strict=True)))
    groups = [Group(i, task, row) for i, (task, row) in numbered]
    feed = TaskFeed(many, GROUPS, 0)
    figures = {"groups made, ms": 1e3 * _best(lambda: [Group(i, task, row) for i, (task, row) in numbered])}
    for name, cls in CHOICES["sampling"].items():
        policy = cls()
        state = policy.observe(groups, policy.start())
        seen = SamplingRound(feed, 3, 0, SIZE, [], state)
        feed.at(3)
        figures[f"{name} select, ms"] = 1e3 * _best(lambda p=policy: p.select(groups, GROUPS))  # type: ignore[misc]
        figures[f"{name} observe, ms"] = 1e3 * _best(lambda p=policy, s=state: p.observe(groups, s))  # type: ignore[misc]
        figures[f"{name} request, ms"] = 1e3 * _best(lambda p=policy, s=seen: p.request(s))  # type: ignore[misc]
        parts = ("request", "select", "observe")
        figures[f"{name} decisions, ms"] = sum(figures[f"{name} {part}, ms"] for part in parts)
    figures |= {f"{name} load, s": _load(name) for name in CHOICES["tasks"]}
    return figures


def _best(call: Callable[[], object], repeats: int = 50) -> float:
    found = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        found.append(time.process_time() - started)
    return min(found)


def _load(name: str) -> float:
    """In a fresh process: what is worked out once per process counts."""
    code = (
        "import time; from gagar_core.choices import CHOICES\n"
        f"settings = CHOICES['tasks'][{name!r}](); started = time.process_time()\n"
        "settings.load().digest(); print(time.process_time() - started)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Print the figures."""
    for name, value in measure().items():
        print(f"{name:36} {value:8.3f}")


if __name__ == "__main__":
    main()
