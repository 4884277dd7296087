"""How accurate graders are: one row per grader, suite and policy, with t intervals over training seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from analysis.statistics import Estimate, mean_estimate
from gagar_core.errors import RecordsError
from gagar_core.records import read_json

Row = dict[str, str]
Accuracy = Mapping[str, Any]

MEASURES = {
    "pair_accuracy": "pairs of clearly different quality ordered rightly, a tie counts half",
    "right_over_lucky": "the same where one passes all label tests and the other passed by luck",
    "tau": "mean Kendall tau-b over groups",
    "top1": "groups whose best-ranked trajectory is of the best quality",
}

DIFFICULTIES = ("easy", "middle", "hard")
"""Classes of a task's prior difficulty, in thirds; those that no held-out group has are not shown."""


def accuracies(root: Path) -> list[Accuracy]:
    """Content of every finished ``grader_accuracy`` artifact below a root, in order of path.

    Raises ``RecordsError`` where there is none.
    """
    folders = sorted(root.glob("artifacts/grader_accuracy/*/done.json"))
    if not folders:
        msg = f"{root} holds no graders that were judged; python -m experiments train_grader root={root}"
        raise RecordsError(msg)
    return [read_json(path.with_name("accuracy.json")) for path in folders]


def grader_rows(found: Iterable[Accuracy]) -> list[Row]:
    """One row per grader: overall, by difficulty of the task, and on the latest policy."""
    found, rows = list(found), []
    classes = [d for d in DIFFICULTIES if any(_at_difficulty(d, one) is not None for one in found)]
    for name, group in _by_grader(found).items():
        late = max((origin for one in group for origin in one["by_origin"]), key=_steps)
        row = {"grader": name, "n": str(len({one["seed"] for one in group}))}
        row |= {measure: _cell(group, partial(_overall, measure)) for measure in MEASURES}
        for difficulty in classes:
            row[f"pair, {difficulty} tasks"] = _cell(group, partial(_at_difficulty, difficulty))
        row[f"pair, {late}"] = _cell(group, partial(_at_origin, late))
        row["parameters"] = f"{group[0]['parameters']:,}"
        row["fit CPU s"] = f"{sum(one['fit_cpu_s'] for one in group) / len(group):.1f}"
        row["ms per group"] = f"{1000 * sum(one['cpu_s_per_group'] for one in group) / len(group):.2f}"
        row["actions"] = f"{sum(one['actions_per_group'] for one in group) / len(group):.1f}"
        rows.append(row)
    return rows


def _by_grader(found: Iterable[Accuracy]) -> dict[str, list[Accuracy]]:
    groups: dict[str, list[Accuracy]] = {}
    for one in found:
        changed = [f"{key}={value}" for key, value in sorted(one["settings"].items())]
        words = [one["kind"], *changed, *(["(upper bound)"] if one["upper_bound"] else [])]
        where = [w for w in (one["tasks"], one["policy"]) if w not in ("list_functions", "gru")]
        groups.setdefault(" ".join([*words, *(f"on {w}" for w in where)]), []).append(one)
    return dict(sorted(groups.items(), key=lambda item: -_mean(item[1])))


def _overall(measure: str, one: Accuracy) -> float | None:
    value: float | None = one["all"][measure]
    return value


def _at_difficulty(difficulty: str, one: Accuracy) -> float | None:
    value: float | None = one["by_difficulty"][difficulty]["pair_accuracy"]
    return value


def _at_origin(origin: str, one: Accuracy) -> float | None:
    value: float | None = one["by_origin"].get(origin, {}).get("pair_accuracy")
    return value


def _mean(group: Sequence[Accuracy]) -> float:
    values = [one["all"]["pair_accuracy"] for one in group if one["all"]["pair_accuracy"] is not None]
    return sum(values) / len(values) if values else 0.0


def _cell(group: Sequence[Accuracy], value: Callable[[Accuracy], float | None]) -> str:
    values = [found for one in group if (found := value(one)) is not None]
    return _text(mean_estimate(values)) if values else "-"


def _text(estimate: Estimate) -> str:
    interval = estimate.interval
    shown = f"{estimate.value:.3f}"
    return shown if interval is None else f"{shown} [{interval.low:.3f}, {interval.high:.3f}]"


def _steps(origin: str) -> int:
    return int(origin.split()[-1]) if origin.startswith("step") else 0
