"""What a plan will cost: from past runs below the same root, and at most from the limits that it asks for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.identity import digest_of
from experiments.schema import BOOKKEEPING
from gagar_core.errors import RecordsError
from gagar_core.records import read_json
from sweeps.launchers import Slurm

_MOST = 400
"""Past runs that are read: the newest; more would tell no more and cost seconds."""

_SIZE = ("budget", "policy", "tasks")
"""Axes that decide what a run costs, more or less."""


@dataclass(frozen=True)
class Cost:
    """Sums over the runs that are to be done; ``known`` of ``runs`` are like a past one."""

    runs: int
    known: int
    cpu_hours: float
    disk_mb: float
    peak_mb: float
    gpu_hours_at_most: float
    elements: int

    def text(self, launcher: Any) -> str:
        """One line for people."""
        text = f"{self.runs} runs to do: {self._from_the_past()}"
        if not isinstance(launcher, Slurm):
            return text
        hours = launcher.time_min / 60
        gpus = f"{self.elements} x {launcher.gpus} GPU x {hours:g} h = {self.gpu_hours_at_most:g} GPU-hours"
        cpu_hours = self.elements * launcher.cpus * hours
        cpus = f"{self.elements} x {launcher.cpus} CPU x {hours:g} h = {cpu_hours:g} CPU-hours"
        return f"{text}\n{gpus} at most, {cpus} at most"

    def _from_the_past(self) -> str:
        if not self.known:
            return "cost unknown, no past run below this root is alike"
        told = (
            f"about {self.cpu_hours:.2f} CPU-hours, {self.disk_mb:.0f} MB on disk, {self.peak_mb:.0f} MB each"
        )
        return (
            told if self.known == self.runs else f"{told} for {self.known}; the others are like no past run"
        )


def estimate(todo: Sequence[Mapping[str, Any]], root: Path, launcher: Any) -> Cost:
    """The cost of ``todo`` (lines of runs of a plan)."""
    exact, similar = _past(root)
    found = [exact.get(_key(line["config"])) or similar.get(_key(line["config"], _SIZE)) for line in todo]
    known = [costs for costs in found if costs]
    elements = (
        min(launcher.workers, math.ceil(len(todo) / launcher.slots)) if isinstance(launcher, Slurm) else 0
    )
    return Cost(
        runs=len(todo),
        known=len(known),
        cpu_hours=sum(_mean(costs, 0) for costs in known) / 3600,
        disk_mb=sum(_mean(costs, 1) for costs in known),
        peak_mb=max((cost[2] for costs in known for cost in costs), default=0.0),
        gpu_hours_at_most=elements * getattr(launcher, "gpus", 0) * getattr(launcher, "time_min", 0) / 60,
        elements=elements,
    )


def to_data(cost: Cost) -> dict[str, Any]:
    """The estimate as plain data."""
    return asdict(cost)


Costs = list[tuple[float, float, float]]
"""CPU seconds, megabytes on disk and of memory, of past runs."""


def _past(root: Path) -> tuple[dict[str, Costs], dict[str, Costs]]:
    exact: dict[str, Costs] = {}
    similar: dict[str, Costs] = {}
    results = sorted(root.glob("*/runs/*/result.json"), key=lambda path: path.stat().st_mtime)
    for path in results[-_MOST:]:
        try:
            config = read_json(path.parent / "config.json")["config"]
            cost = _cost_of(path.parent)
        except (RecordsError, KeyError):
            continue  # a run of another version, or in another hand: it tells nothing
        if cost[0] > 0:
            exact.setdefault(_key(config), []).append(cost)
            similar.setdefault(_key(config, _SIZE), []).append(cost)
    return exact, similar


def _cost_of(folder: Path) -> tuple[float, float, float]:
    exits = [read_json(path) for path in folder.glob("attempts/[0-9]*/exit.json")]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return (
        sum(float(e.get("cpu_s", 0.0)) for e in exits),
        size / 1e6,
        max((float(e.get("max_rss_mb", 0.0)) for e in exits), default=0.0),
    )


def _key(config: Mapping[str, Any], axes: Iterable[str] = ()) -> str:
    chosen = tuple(axes) or tuple(key for key in config if key not in (*BOOKKEEPING, "seed"))
    return digest_of({axis: config.get(axis) for axis in chosen})


def _mean(costs: Costs, part: int) -> float:
    return sum(cost[part] for cost in costs) / len(costs)
