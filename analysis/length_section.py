"""The trajectory-length report: one object per variant, means over seeds of per-run values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from analysis.curves import Curve
from analysis.data import SweepData
from analysis.details import RunDetails
from analysis.members import Members
from analysis.metrics import EVALS, METRICS, TRAINING
from analysis.numbers import Number
from analysis.pareto import front, hypervolume, reference_point
from analysis.rows import SIZES
from analysis.run_lengths import OCTAVE_PARTS
from analysis.series import summarise
from analysis.trend import percent_per_100

SPLITS = ("all", "pass", "fail", "truncated")
SHAPE = ("geometric_mean", "q50", "q90", "q95", "q99", "max")
BINS = 5
"""Bins of task difficulty."""

INFLATING_PERCENT = 20.0
"""Growth per 100 steps beyond which a length that buys no passes is called inflating."""


def length_section(data: SweepData) -> dict[str, Any]:
    """``variants``: level, growth, mix, difficulty, causes, tail, reinforcement; and ``pareto`` over them."""
    edges, weights = _difficulty_bins(data)
    members = [Members(data, label, TRAINING) for label in data.sweep.variants]
    return {
        "bucket_steps": 10,
        "variants": [_variant(one, edges, weights) for one in members],
        "pareto": pareto_section(data),
    }


def _variant(members: Members, edges: Sequence[float], weights: Sequence[float]) -> dict[str, Any]:
    growth = {split: _growth(members, split) for split in (*SPLITS, "q95")}
    return members.head() | {
        "levels": {which: _levels(members, which) for which in ("sampled", "trained")},
        "fail_over_pass": _named(members, "sampled/fail_over_pass", "ratio"),
        "growth": growth,
        "curves": {split: _curve(members, split) for split in SPLITS},
        "change": {
            part: _named(members, f"change/{part}", "tokens")
            for part in ("total", "mix", "within", "within_pass", "within_fail")
        },
        "difficulty": _difficulty(members, edges, weights),
        "causes": _causes(members),
        "tail_share": _named(members, "tail_share", "share"),
        "push": _push(members),
        "tenths": _shares(members, lambda d: d.lengths.tenths),
        "quarters": _shares(members, lambda d: d.lengths.quarters),
        "ridges": _ridges(members),
        "inflating": inflating(growth["all"], _pass_slope(members)),
    }


def _named(members: Members, name: str, unit: str) -> Number:
    return members.number(members.values(_length_value(name)), unit)


def _length_value(name: str) -> Callable[[RunDetails], float | None]:
    return lambda details: details.lengths.values.get(name)


def _cause(name: str) -> Callable[[RunDetails], float | None]:
    return lambda details: details.lengths.causes.get(name, 0.0) if details.lengths.causes else None


def _levels(members: Members, which: str) -> dict[str, Any]:
    """Per outcome: mean of every size, shape of generated tokens, and how many trajectories a run has."""
    found: dict[str, Any] = {}
    for split in SPLITS:
        path = f"{which}/{split}"
        counts = members.values(_length_value(f"{path}/n"))
        row: dict[str, Any] = {"trajectories": sum(counts.values())}
        for size in SIZES:
            row[size] = _named(members, f"{path}/{size}/mean", _unit(size))
        row["gen_tokens_shape"] = {
            part: _named(members, f"{path}/gen_tokens/{part}", "tokens") for part in SHAPE
        }
        found[split] = row
    return found


def _unit(size: str) -> str:
    return "tokens" if size.endswith("tokens") else "per trajectory"


def _growth(members: Members, split: str) -> dict[str, Any]:
    """Percent per 100 steps from the mean log slope over seeds, its t interval, and the doubling time."""
    slopes = members.number(members.values(_length_value(f"log_slope/{split}")), "log/step")
    percent = dict(slopes) | {"unit": "% per 100 steps", "sd": None}
    if slopes["value"] is not None:
        percent["value"] = percent_per_100(slopes["value"])
    if slopes["interval"]:
        bounds = {side: percent_per_100(slopes["interval"][side]) for side in ("low", "high")}
        percent["interval"] = slopes["interval"] | bounds
    rising = slopes["value"] is not None and slopes["value"] > 0
    return {
        "log_slope": slopes,
        "percent": percent,
        "doubling_steps": math.log(2) / slopes["value"] if rising else None,
    }


def _curve(members: Members, split: str) -> dict[str, Any]:
    parts = {run_id: d.lengths.growth.get(split, ([], [])) for run_id, d in members.details().items()}
    grid = np.unique([end for ends, _ in parts.values() for end in ends]).astype(np.int64)
    values = np.full((len(parts), grid.size), np.nan)
    for row, (ends, means) in zip(values, parts.values(), strict=True):
        row[np.searchsorted(grid, ends)] = means
    return summarise(Curve(tuple(parts), grid, values))


def _difficulty_bins(data: SweepData) -> tuple[list[float], list[float]]:
    """Upper edges of up to five bins with about equally many of the reference's trajectories, and weights.

    The reference is the baseline, else the first variant.
    """
    label = data.sweep.baseline if data.sweep.baseline in data.sweep.variants else None
    label = label or next(iter(data.sweep.variants), None)
    total: dict[float, int] = {}
    if label is not None:
        for details in Members(data, label, TRAINING).details().values():
            for level, (n, _) in details.lengths.difficulty.items():
                total[level] = total.get(level, 0) + n
    if not total:
        return [], []
    return difficulty_bins(total)


def difficulty_bins(counts: Mapping[float, int], bins: int = BINS) -> tuple[list[float], list[float]]:
    """Split levels into up to ``bins`` groups of about equal counts: upper edges and shares.

    A level is never split, so few distinct levels give fewer bins.
    """
    levels = sorted(counts)
    reached = np.cumsum([counts[level] for level in levels]) / sum(counts.values())
    which = np.minimum(np.ceil(reached * bins - 1e-9).astype(int), bins)
    edges = [max(lv for lv, w in zip(levels, which, strict=True) if w == b) for b in sorted(set(which))]
    shares = [
        sum(counts[lv] for lv, w in zip(levels, which, strict=True) if w == b) / sum(counts.values())
        for b in sorted(set(which))
    ]
    return edges, shares


def standardised(
    cells: Mapping[float, tuple[int, float]], edges: Sequence[float], weights: Sequence[float]
) -> tuple[list[float | None], float | None]:
    """Mean length per difficulty bin, and their mean under the reference's weights.

    Levels above the last edge fall into the last bin. The second is null if a bin is empty: then there is
    nothing to put in its place.
    """
    n, total = np.zeros(len(edges)), np.zeros(len(edges))
    for level, (count, length) in cells.items():
        at = min(int(np.searchsorted(edges, level)), len(edges) - 1)
        n[at] += count
        total[at] += length
    means = [float(t / c) if c else None for t, c in zip(total, n, strict=True)]
    if not means or any(mean is None for mean in means):
        return means, None
    return means, float(np.dot(weights, [mean for mean in means if mean is not None]))


def _difficulty(members: Members, edges: Sequence[float], weights: Sequence[float]) -> dict[str, Any]:
    per_run = {i: standardised(d.lengths.difficulty, edges, weights) for i, d in members.details().items()}
    bins = [{run_id: means[b] for run_id, (means, _) in per_run.items()} for b in range(len(edges))]
    return {
        "upper_edges": list(edges),
        "reference_weights": list(weights),
        "means": [
            members.number({i: v for i, v in column.items() if v is not None}, "tokens") for column in bins
        ],
        "standardised": members.number({i: v for i, (_, v) in per_run.items() if v is not None}, "tokens"),
    }


def _causes(members: Members) -> dict[str, Number]:
    """A cause that some run never met is 0 there, not missing."""
    names = {name for d in members.details().values() for name in d.lengths.causes}
    return {
        name: members.number(members.values(_cause(name)), "share")
        for name in ("overlong", *sorted(names - {"overlong"}))
    }


def _push(members: Members) -> dict[str, Any]:
    units = {"pearson": "correlation", "spearman": "correlation", "shift": "tokens"}
    return {
        split: {
            kind: {name: _named(members, f"push/{split}/{kind}/{name}", unit) for name, unit in units.items()}
            for kind in ("used", "base")
        }
        for split in ("all", "passing")
    }


def _shares(members: Members, of: Any) -> list[dict[str, Number]]:
    """Mean over seeds of each entry of per-run lists over equal shares of trajectories."""
    lists = {run_id: of(details) for run_id, details in members.details().items() if of(details)}
    if not lists:
        return []
    first = next(iter(lists.values()))
    return [
        {
            name: members.number(
                {i: rows[k][name] for i, rows in lists.items() if rows[k][name] is not None},
                {"length": "tokens", "audit_pass": "share"}.get(name, ""),
            )
            for name in first[k]
            if name != "n"
        }
        for k in range(len(first))
    ]


def _ridges(members: Members) -> list[dict[str, Any]]:
    """Share of trajectories per length bin (4 bins per doubling) in parts of training, mean over runs.

    ``mode``: the middle of the fullest bin, in tokens.
    """
    parts: dict[int, list[dict[int, int]]] = {}
    for details in members.details().values():
        for step, counts in details.lengths.histogram.items():
            parts.setdefault(step, []).append(counts)
    found = []
    for step, all_counts in sorted(parts.items()):
        bins = sorted({b for counts in all_counts for b in counts})
        grid = list(range(bins[0], bins[-1] + 1))
        shares = [[counts.get(b, 0) / sum(counts.values()) for b in grid] for counts in all_counts]
        mean = np.mean(shares, axis=0)
        mode = 2 ** ((grid[int(mean.argmax())] + 0.5) / OCTAVE_PARTS)
        found.append({"step": step, "first_bin": grid[0], "share": mean.tolist(), "mode": mode})
    return found


def _pass_slope(members: Members) -> Number:
    return members.number(
        members.values(lambda d: d.stability.values.get("pass_slope")), "share per 100 steps"
    )


def inflating(growth: Mapping[str, Any], pass_slope: Number) -> dict[str, Any]:
    """Longer without gain: growth above 20 % per 100 steps for sure, while held-out pass may be flat.

    For sure: the interval of the growth lies above 0. May be flat: the interval of the pass-rate slope
    contains 0. Without either interval nothing is claimed.
    """
    percent = growth["percent"]
    row = {"flag": None, "growth": percent, "pass_slope": pass_slope, "why": ""}
    if not percent["interval"] or not pass_slope["interval"]:
        return row | {"why": "needs two runs with a growth and a pass-rate slope"}
    longer = percent["value"] > INFLATING_PERCENT and percent["interval"]["low"] > 0
    flat = pass_slope["interval"]["low"] <= 0 <= pass_slope["interval"]["high"]
    return row | {"flag": bool(longer and flat)}


def pareto_section(data: SweepData) -> dict[str, Any]:
    """Length against held-out pass per variant, seeds included, with the front and its hypervolume."""
    points = []
    for label in data.sweep.variants:
        members = Members(data, label, EVALS)
        passed = data.values(METRICS["held_out_pass"], data.ends[label, EVALS])
        lengths = {i: v for i, v in members.values(_median).items() if i in passed}
        if lengths:
            points.append(_pareto_point(members, lengths, passed))
    plane = [(p["length"]["value"], p["pass"]["value"]) for p in points]
    for point, undominated in zip(points, front(plane), strict=True):
        point["front"] = undominated
    reference = reference_point([p["length"] for p in _seeds(points)]) if points else None
    return {
        "length": "median generated tokens of held-out attempts",
        "points": points,
        "reference": reference,
        "hypervolume": hypervolume(plane, reference) if reference else None,
    }


def _median(details: RunDetails) -> float | None:
    return details.held_out_tokens


def _pareto_point(
    members: Members, lengths: Mapping[str, float], passed: Mapping[str, float]
) -> dict[str, Any]:
    per_1k = {i: 1000 * passed[i] / length for i, length in lengths.items() if length > 0}
    return members.head() | {
        "length": members.number(lengths, "tokens"),
        "pass": members.number({i: passed[i] for i in lengths}, "share"),
        "pass_per_1k": members.number(per_1k, "passes per 1,000 generated tokens"),
        "seeds": [{"run_id": i, "length": lengths[i], "pass": passed[i]} for i in sorted(lengths)],
    }


def _seeds(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [seed for point in points for seed in point["seeds"]]
