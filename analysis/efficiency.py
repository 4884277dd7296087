"""What a sweep's runs bought at equal cost, and what they paid for an equal pass rate.

Costs are generated tokens and CPU seconds of training (``step_signals.costs_at``). Both grounds of comparison
are chosen per seed block, because runs are compared within one: the *budget* is the least that a run of the
block spent in all, the *level* the lowest of the best held-out pass rates that its runs reached. So every run
that counts has a value, and none is judged beyond what it did. Which runs count, if some died, is decided as
for the endpoint of the whole sweep (``endpoints.choose_endpoint``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.artifacts import artifact_seconds
from analysis.curves import Curve
from analysis.endpoints import choose_endpoint
from analysis.statistics import Floats
from analysis.step_signals import Signals, costs_at, cumulative
from analysis.study import Sweep

COSTS = ("tokens", "cpu_s")


@dataclass(frozen=True)
class Grounds:
    """Per seed block: the common ``budgets`` by kind of cost, and the common ``levels`` of held-out pass."""

    budgets: dict[str, dict[int, float]] = field(default_factory=lambda: {kind: {} for kind in COSTS})
    levels: dict[int, float] = field(default_factory=dict)


def efficiency(
    sweep: Sweep, passed: Curve, signals: Mapping[str, Signals]
) -> tuple[Grounds, dict[str, Curve]]:
    """The grounds of a sweep and the curves of the metrics of cost; ``passed`` is held-out pass over steps.

    Pass at a budget and cost of a level are one number per run, repeated at every step that it has.
    """
    starts, _ = artifact_seconds(sweep)
    costs = {i: costs_at(signals.get(i), passed.steps, starts.get(i, 0.0)) for i in passed.run_ids}
    grounds = find_grounds(sweep, passed, costs)
    seeds = {run.run_id: run.seed for run in sweep.runs}
    tables = {name: np.full_like(passed.values, np.nan) for name in _CURVES}
    for row, (run_id, values) in enumerate(zip(passed.run_ids, passed.values, strict=True)):
        present = np.isfinite(values)
        found = _run(values, costs[run_id], grounds, seeds[run_id])
        found["wasted_share"] = wasted_share(signals.get(run_id), passed.steps)
        for name, one in found.items():
            tables[name][row] = np.where(present, one, np.nan)
    return grounds, {name: Curve(passed.run_ids, passed.steps, table) for name, table in tables.items()}


_CURVES = (
    "pass_at_tokens", "pass_at_cpu", "tokens_to_level", "cpu_to_level", "spent_tokens", "spent_cpu",
    "wasted_share",
)  # fmt: skip


def _run(values: Floats, costs: Mapping[str, Floats], grounds: Grounds, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, name in zip(COSTS, ("tokens", "cpu"), strict=True):
        budget, level = grounds.budgets[kind].get(seed, np.nan), grounds.levels.get(seed, np.nan)
        found[f"pass_at_{name}"] = value_at_cost(costs[kind], values, budget)
        found[f"{name}_to_level"] = cost_of_level(costs[kind], values, level)
        found[f"spent_{name}"] = costs[kind]
    return found


def find_grounds(sweep: Sweep, passed: Curve, costs: Mapping[str, Mapping[str, Floats]]) -> Grounds:
    """Least spent and lowest best per seed block, over the runs that count and whose costs are known."""
    grounds = Grounds()
    counted = choose_endpoint(passed, [run for run in sweep.runs if not run.apart]).run_ids
    seeds = {run.run_id: run.seed for run in sweep.runs}
    for run_id, values in zip(counted, passed.select(counted).values, strict=True):
        present = np.isfinite(values)
        _lower(grounds.levels, seeds[run_id], float(values[present].max()))
        for kind in COSTS:
            spent = float(costs[run_id][kind][present][-1])
            if np.isfinite(spent):
                _lower(grounds.budgets[kind], seeds[run_id], spent)
    return grounds


def _lower(known: dict[int, float], key: int, value: float) -> None:
    known[key] = min(value, known.get(key, value))


def value_at_cost(costs: Floats, values: Floats, budget: float) -> float:
    """Value of a run when it had spent ``budget``, linear between evaluations.

    Before the first one (artifacts still being built) it is the first value; NaN beyond the last one.
    """
    known = np.isfinite(costs) & np.isfinite(values)
    x, y = costs[known], values[known]
    if x.size == 0 or not budget <= x[-1] * (1 + 1e-12):
        return float("nan")
    return float(np.interp(budget, x, y))


def cost_of_level(costs: Floats, values: Floats, level: float) -> float:
    """Cost at which a run first reached ``level``, linear between evaluations; NaN if it never did."""
    known = np.isfinite(costs) & np.isfinite(values)
    x, y = costs[known], values[known]
    reached = np.flatnonzero(y >= level)
    if reached.size == 0:
        return float("nan")
    i = int(reached[0])
    if i == 0:
        return float(x[0])
    return float(x[i - 1] + (level - y[i - 1]) / (y[i] - y[i - 1]) * (x[i] - x[i - 1]))


def wasted_share(signals: Signals | None, steps: Any) -> Floats:
    """Share of the tokens generated until each of ``steps`` updates that never entered the loss.

    NaN before the first step, and everywhere if some step did not record it.
    """
    at = np.asarray(steps, dtype=np.float64)
    if signals is None or not all(np.isfinite(signals[n]).all() for n in ("wasted_tokens", "gen_tokens")):
        return np.full(at.size, np.nan)
    position = np.searchsorted(signals["done"], at, side="right")
    columns = [np.append(0.0, cumulative(signals, name)) for name in ("wasted_tokens", "gen_tokens")]
    wasted, spent = (column[position] for column in columns)
    return np.where(spent > 0, wasted / np.maximum(spent, 1.0), np.nan)


def efficiency_section(grounds: Grounds) -> dict[str, Any]:
    """The grounds as objects of ``report.json``, keyed by seed block."""
    return {
        "budget": {kind: _keyed(values) for kind, values in grounds.budgets.items()},
        "level": _keyed(grounds.levels),
    }


def _keyed(values: Mapping[int, float]) -> dict[str, float]:
    return {str(seed): values[seed] for seed in sorted(values)}
