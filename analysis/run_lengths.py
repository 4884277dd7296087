"""How long one run's trajectories are: level, growth, tail, mix, and whether length is reinforced.

Everything here is one value per run; ``analysis.length_section`` turns runs into means over seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analysis.length import MIN_TAIL, QUANTILES
from analysis.reinforcement import by_length, length_pushes, mix_shift, token_weights
from analysis.rows import SIZES, Bools, Rows
from analysis.statistics import Floats, quantile
from analysis.trend import fit_line
from gagar_core.errors import InputError

BUCKET = 10
"""Steps of one bucket of a growth curve, and of the windows at the start and end of a run."""

TAIL_SHARE = 0.05
"""The longest share of trajectories whose tokens are the tail."""

QUARTERS, TENTHS, RIDGES = 4, 10, 5

OCTAVE_PARTS = 4
"""Histogram bins per doubling of length."""


@dataclass(frozen=True)
class RunLengths:
    """Per-run values by name; a value that does not exist is absent.

    ``values`` maps names such as ``sampled/pass/gen_tokens/mean`` to floats. ``growth`` maps a split to
    (bucket ends, bucket means). ``difficulty`` maps a task's difficulty to (n, summed tokens). ``histogram``
    maps a bucket's end to counts per length bin. ``quarters`` and ``tenths`` are lists over equal shares.
    """

    values: dict[str, float]
    growth: dict[str, tuple[list[int], list[float]]]
    difficulty: dict[float, tuple[int, float]]
    causes: dict[str, float]
    quarters: list[dict[str, float | int | None]] = field(default_factory=list)
    tenths: list[dict[str, float | int | None]] = field(default_factory=list)
    histogram: dict[int, dict[int, int]] = field(default_factory=dict)


def run_lengths(rows: Rows, end: int | None, loss: str) -> RunLengths:
    """Summarise a run whose values are read off at step ``end`` (updates done; null: its own last one).

    Levels, tail, causes and quarters are over the last 10 steps up to ``end``; growth, mix and reinforcement
    over everything up to ``end``.
    """
    if end is not None:
        rows = rows.steps(0, end)
    if len(rows) == 0:
        return RunLengths({}, {}, {}, {})
    last = int(rows.done.max()) if end is None else end
    window = rows.steps(last - BUCKET + 1, last)
    growth = growth_curves(rows)
    values = levels(window) | tail(window) | slopes(growth) | mix(rows, last) | reinforced(rows)
    return RunLengths(
        values=values,
        growth=growth,
        difficulty=_difficulty(window),
        causes=causes(window),
        quarters=quality_quarters(window),
        tenths=_tenths(rows, loss),
        histogram=histogram(rows, last),
    )


def levels(rows: Rows) -> dict[str, float]:
    """Means of every size for what was sampled and what was trained on, by outcome; quantiles of tokens."""
    found: dict[str, float] = {}
    table = np.stack([rows[size] for size in SIZES])
    known = np.isfinite(table)
    for which, members in rows.sets.items():
        for split, inside in rows.splits.items():
            chosen = members & inside
            found[f"{which}/{split}/n"] = float(chosen.sum())
            # sizes are whole numbers: sums are exact in any order
            counts, sums = known[:, chosen].sum(axis=1), np.where(known, table, 0.0)[:, chosen].sum(axis=1)
            for size, count, total in zip(SIZES, counts.tolist(), sums.tolist(), strict=True):
                if count:
                    found[f"{which}/{split}/{size}/mean"] = total / count
            found |= {
                f"{which}/{split}/gen_tokens/{name}": value
                for name, value in shape(rows["gen_tokens"][chosen]).items()
            }
        means = [found.get(f"{which}/{split}/gen_tokens/mean") for split in ("fail", "pass")]
        if means[0] is not None and means[1]:
            found[f"{which}/fail_over_pass"] = means[0] / means[1]
    return found


def shape(values: Floats, min_tail: int = MIN_TAIL) -> dict[str, float]:
    """Geometric mean of positive values, maximum, and those quantiles that the number of values allows."""
    values = values[np.isfinite(values)]
    if values.size == 0:
        return {}
    found = {"max": float(values.max())}
    if values.min() > 0:
        found["geometric_mean"] = float(np.exp(np.log(values).mean()))
    allowed = [q for q in QUANTILES if values.size >= min_tail / (1 - q) - 1e-9]
    if not allowed:
        return found
    ordered = np.sort(values)
    return found | {f"q{round(100 * q)}": quantile(ordered, q) for q in allowed}


def tail(rows: Rows) -> dict[str, float]:
    """Share of all generated tokens that the longest 5 % of trajectories hold (at least one trajectory)."""
    tokens = np.sort(rows["gen_tokens"][np.isfinite(rows["gen_tokens"])])
    total = float(tokens.sum())
    if total <= 0:
        return {}
    count = max(1, round(TAIL_SHARE * tokens.size))
    return {"tail_share": float(tokens[-count:].sum()) / total}


def causes(rows: Rows) -> dict[str, float]:
    """Share of trajectories that each limit cut off, by stop reason; ``overlong`` is their sum."""
    cut = rows.flag("truncated")
    words = rows.words("stop_reason")[cut] if cut.any() else ()
    counts = Counter(word or "unknown" for word in words)
    shares = {word: count / len(rows) for word, count in sorted(counts.items())}
    return {"overlong": float(cut.mean())} | shares


def growth_curves(rows: Rows) -> dict[str, tuple[list[int], list[float]]]:
    """Mean generated tokens per bucket of 10 steps, for each outcome; and the 95 % quantile of all."""
    bucket, tokens = -(-rows.done // BUCKET) * BUCKET, rows["gen_tokens"]
    known = np.isfinite(tokens)
    found = {}
    for split, inside in rows.splits.items():
        ends, starts, sizes = _buckets(bucket[inside & known])
        # whole numbers: sums are exact in any order
        sums = np.add.reduceat(tokens[inside & known], starts) if ends else np.zeros(0)
        found[split] = ends, (sums / sizes).tolist()
    ends, starts, sizes = _buckets(bucket[known])
    parts = zip(ends, np.split(tokens[known], starts[1:]), strict=True) if ends else ()
    enough = {end: quantile(part, 0.95) for end, part in parts if part.size >= MIN_TAIL / 0.05}
    return found | {"q95": (list(enough), list(enough.values()))}


def _buckets(bucket: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64]]:
    """Labels, starts and sizes of buckets; rows lie in the order of steps, so a bucket is contiguous."""
    starts = np.flatnonzero(np.diff(bucket, prepend=-1))
    return bucket[starts].tolist(), starts, np.diff(np.append(starts, bucket.size))


def slopes(growth: Mapping[str, tuple[list[int], list[float]]]) -> dict[str, float]:
    """Log slope per step of each growth curve that has two buckets with positive lengths."""
    found = {}
    for split, (ends, means) in growth.items():
        at, values = np.array(ends, dtype=np.float64), np.array(means, dtype=np.float64)
        positive = values > 0
        if positive.sum() >= 2:
            found[f"log_slope/{split}"] = fit_line(at[positive], np.log(values[positive])).slope
    return found


def mix(rows: Rows, last: int) -> dict[str, float]:
    """Decompose the change of mean generated tokens from the first to the last 10 steps.

    Absent for runs shorter than two windows: they would overlap.
    """
    first = int(rows.done.min())
    early, late = rows.done < first + BUCKET, rows.done > last - BUCKET
    if last - BUCKET < first + BUCKET - 1:
        return {}
    try:
        found = mix_shift(_mixture(rows, early), _mixture(rows, late))
    except InputError:
        return {}
    return {
        "change/total": found.total,
        "change/mix": found.mix,
        "change/within": found.within,
        "change/within_pass": found.within_pass,
        "change/within_fail": found.within_fail,
    }


def _mixture(rows: Rows, chosen: Bools) -> tuple[float, float, float]:
    tokens = rows["gen_tokens"]
    known = chosen & np.isfinite(tokens)
    if not known.any():
        raise InputError("no trajectory in the window")
    passed, failed = known & rows.passed, known & ~rows.passed
    return (
        float(rows.passed[known].mean()),
        float(tokens[passed].mean()) if passed.any() else float("nan"),
        float(tokens[failed].mean()) if failed.any() else float("nan"),
    )


def reinforced(rows: Rows) -> dict[str, float]:
    """Pushes of the used and of the base advantages, over all trained trajectories and the passing ones."""
    found: dict[str, float] = {}
    kept = rows.flag("kept")
    # group ids are unique within a run, so all steps can be pooled
    for split, inside in (("all", kept), ("passing", kept & rows.passed)):
        pushes = length_pushes(
            rows["gen_tokens"][inside],
            [rows["adv_used"][inside], rows["adv_base"][inside]],
            rows["group_id"][inside],
        )
        for kind, push in zip(("used", "base"), pushes, strict=True):
            for name in ("pearson", "spearman", "shift"):
                value = getattr(push, name)
                if value is not None:
                    found[f"push/{split}/{kind}/{name}"] = value
    return found


def quality_quarters(rows: Rows) -> list[dict[str, float | int | None]]:
    """Passing trajectories by quarter of length: audit pass, changed lines, program size."""
    passing = rows.take(rows.passed)
    audit = np.where(passing.known("audit_passed"), passing.flag("audit_passed").astype(float), np.nan)
    columns = {
        "audit_pass": audit,
        "diff": passing["diff_add"] + passing["diff_del"],
        "program_nodes": passing["program_nodes"],
    }
    parts = {name: by_length(passing["gen_tokens"], column, QUARTERS) for name, column in columns.items()}
    found = []
    for quarter, head in enumerate(by_length(passing["gen_tokens"], passing["gen_tokens"], QUARTERS)):
        row: dict[str, float | int | None] = {"n": head["n"], "length": head["length"]}
        for name, part in parts.items():
            row[name] = part[quarter]["value"] if part else None
        found.append(row)
    return found


def _tenths(rows: Rows, loss: str) -> list[dict[str, float | int | None]]:
    """Loss weight of one token by tenth of length, relative to the mean over trajectories."""
    kept = rows.flag("kept")
    length = rows["gen_tokens"][kept]
    try:
        weights = token_weights(length, rows["adv_used"][kept], rows["group_id"][kept], loss)
    except InputError:
        return []
    mean = float(np.nanmean(weights)) if np.isfinite(weights).any() else 0.0
    return by_length(length, weights / mean, TENTHS) if mean > 0 else []


def _difficulty(rows: Rows) -> dict[float, tuple[int, float]]:
    keep = np.isfinite(rows["difficulty"]) & np.isfinite(rows["gen_tokens"])
    levels_, codes = np.unique(np.round(rows["difficulty"][keep], 6), return_inverse=True)
    counts, sums = np.bincount(codes), np.bincount(codes, rows["gen_tokens"][keep])
    return {
        float(level): (int(n), float(total)) for level, n, total in zip(levels_, counts, sums, strict=True)
    }


def histogram(rows: Rows, last: int) -> dict[int, dict[int, int]]:
    """Counts of generated tokens by ``floor(4 log2)``, in up to five equal parts of the steps.

    Keys are the parts' last steps and bins; trajectories without a token are left out.
    """
    keep = rows["gen_tokens"] >= 1
    bins = np.floor(OCTAVE_PARTS * np.log2(rows["gen_tokens"][keep])).astype(np.int64)
    edges = np.unique(np.ceil(np.linspace(0, last, min(RIDGES, last) + 1)[1:]).astype(np.int64))
    part = np.searchsorted(edges, rows.done[keep])
    found: dict[int, dict[int, int]] = {}
    for index, edge in enumerate(edges):
        names, counts = np.unique(bins[part == index], return_counts=True)
        if names.size:
            found[int(edge)] = dict(zip(names.tolist(), counts.tolist(), strict=True))
    return found
