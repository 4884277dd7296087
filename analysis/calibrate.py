"""How far this pipeline can be trusted on *these* runs: its own false-positive rate and power.

Two checks that answer different questions:

*Re-paired*: pairs of runs of one variant are compared as if they were two variants. Any difference found is
false. It uses the real distribution of the data, but only ``n // 2`` pairs of n runs, and few distinct
pairings when n is small.

*Resampled*: paired differences between variants, centred and pooled over all variants, are drawn at the
sweep's own number of seeds, with random signs; a shift is then added. It gives the false-positive rate
(shift 0) and the power at the planned n, if the pooled differences are exchangeable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from analysis.bootstrap import generator
from analysis.comparisons import Difference, compare
from analysis.data import SweepData, by_seed
from analysis.metrics import METRICS
from analysis.statistics import Floats, Interval, wilson_interval
from gagar_core.errors import InputError, check_choice, gather

TRIALS = 2_000
SHIFTS = (0.0, 0.5, 1.0, 2.0)
"""Planted effects in standard deviations of the pooled paired differences."""

ALPHA = 0.05
MIN_RUNS = 4
"""Runs of one variant below which nothing can be re-paired."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a difference was found. ``interval`` is the Monte-Carlo error of the rate alone."""

    shift: float
    shift_in_units: float
    n: int
    found: int
    trials: int
    interval: Interval

    @property
    def rate(self) -> float:
        """Share of trials in which p was at most .05."""
        return self.found / self.trials


@dataclass(frozen=True, slots=True)
class Calibration:
    """Both checks for one metric; a check that is impossible is null with the reason in ``why``."""

    metric: str
    unit: str
    repaired: Rate | None
    repaired_pairings: int
    resampled: tuple[Rate, ...]
    sd_of_differences: float | None
    why: tuple[str, ...]


def calibrate(data: SweepData, metric: str, *, trials: int = TRIALS) -> Calibration:
    """Both checks on the endpoint values of one metric."""
    faults = check_choice("metric", metric, METRICS)
    faults += [] if trials >= 100 else [f"trials must be at least 100; got {trials}"]
    gather(faults, headline="cannot calibrate", error=InputError)
    values = _values(data, metric)
    reasons: list[str] = []
    repaired, pairings = _repaired(data, metric, values, trials, reasons)
    pool, sd = _pooled_differences(data, values, reasons)
    return Calibration(
        metric=metric,
        unit=METRICS[metric].unit,
        repaired=repaired,
        repaired_pairings=pairings,
        resampled=_resampled(data, metric, pool, sd, trials),
        sd_of_differences=sd,
        why=tuple(reasons),
    )


def _values(data: SweepData, metric: str) -> dict[str, dict[int, float]]:
    """variant -> seed block -> value at the variant's endpoint."""
    spec = METRICS[metric]
    return {
        label: by_seed(data.sweep.runs_of(label), data.values(spec, data.ends[label, spec.source]))
        for label in data.sweep.comparable
    }


def _rate(shift: float, units: float, n: int, trials: int, test: Callable[[], Difference]) -> Rate:
    found = sum((p := test().p) is not None and p <= ALPHA for _ in range(trials))
    return Rate(shift, units, n, found, trials, wilson_interval(found, trials))


def _repaired(
    data: SweepData, metric: str, values: Mapping[str, Mapping[int, float]], trials: int, reasons: list[str]
) -> tuple[Rate | None, int]:
    usable = {label: v for label, v in values.items() if len(v) >= MIN_RUNS}
    if not usable:
        reasons.append(f"re-pairing needs a variant with {MIN_RUNS} or more runs")
        return None, 0
    rng = generator(data.sweep.name, "calibrate", metric, "repaired")
    labels = sorted(usable)
    pools = [np.array([usable[label][seed] for seed in sorted(usable[label])]) for label in labels]
    turn = itertools.cycle(pools)
    sizes = [pool.size // 2 for pool in pools]
    rate = _rate(0.0, 0.0, min(sizes), trials, lambda: _pair_up(next(turn), rng))
    return rate, sum(_pairings(pool.size) for pool in pools)


def _pair_up(pool: Floats, rng: np.random.Generator) -> Difference:
    order = rng.permutation(pool.size)
    half = pool.size // 2
    left, right = pool[order[:half]], pool[order[half : 2 * half]]
    return compare(dict(enumerate(left.tolist())), dict(enumerate(right.tolist())))


def _pairings(n: int) -> int:
    """Distinct sets of n // 2 disjoint pairs among n runs (the sign of a pair does not matter)."""
    half = n // 2
    orders: int = math.factorial(half) * 2**half * math.factorial(n - 2 * half)
    return math.factorial(n) // orders


def _pooled_differences(
    data: SweepData, values: Mapping[str, Mapping[int, float]], reasons: list[str]
) -> tuple[Floats, float | None]:
    """Centred paired differences of each variant to a reference, scaled by sqrt(n / (n - 1)), pooled."""
    baseline = data.sweep.baseline
    reference = baseline if baseline is not None and baseline in values else next(iter(values))
    parts = []
    for label in values:
        if label == reference:
            continue
        d = _differences(values[label], values[reference])
        if d.size >= 2:
            parts.append((d - d.mean()) * math.sqrt(d.size / (d.size - 1)))
    pool = np.concatenate(parts) if parts else np.zeros(0)
    if pool.size == 0 or not pool.any():
        reasons.append("resampling needs two variants with two or more shared seed blocks that differ")
        return np.zeros(0), None
    return pool, float(np.sqrt((pool**2).mean()))


def _differences(one: Mapping[int, float], other: Mapping[int, float]) -> Floats:
    return np.array([one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())])


def _resampled(data: SweepData, metric: str, pool: Floats, sd: float | None, trials: int) -> tuple[Rate, ...]:
    if sd is None:
        return ()
    n = max(2, max((len(seeds) for seeds in data.sweep.planned.values()), default=2))
    rates = []
    for shift in SHIFTS:
        rng = generator(data.sweep.name, "calibrate", metric, "resampled", str(shift))
        draw = partial(_draw, pool, n, shift * sd, rng)
        rates.append(_rate(shift, shift * sd, n, trials, draw))
    return tuple(rates)


def _draw(pool: Floats, n: int, shift: float, rng: np.random.Generator) -> Difference:
    d = pool[rng.integers(0, pool.size, n)] * (rng.integers(0, 2, n) * 2 - 1) + shift
    return compare(dict(enumerate(d.tolist())), dict.fromkeys(range(n), 0.0))


def describe(found: Calibration) -> list[str]:
    """The result in words."""
    label = METRICS[found.metric].label
    lines = [f"{label} ({found.unit})"]
    if found.repaired:
        r = found.repaired
        lines.append(
            f"  re-paired runs of one variant, {r.n} pairs: a difference in {_percent(r)} of {r.trials} "
            f"trials (nominal 5 %); {found.repaired_pairings} distinct pairings"
        )
    for r in found.resampled:
        what = "no shift" if r.shift == 0 else f"shift {r.shift_in_units:.3g} ({r.shift:g} sd)"
        kind = "false positives" if r.shift == 0 else "found"
        lines.append(f"  resampled at {r.n} seeds, {what}: {kind} {_percent(r)} of {r.trials}")
    return lines + [f"  {reason}" for reason in found.why]


def _percent(rate: Rate) -> str:
    low, high = 100 * rate.interval.low, 100 * rate.interval.high
    return f"{100 * rate.rate:.1f} % [{low:.1f}, {high:.1f}]"


def as_object(found: Iterable[Calibration]) -> list[dict[str, object]]:
    """JSON-ready form."""
    return [
        {
            "metric": c.metric,
            "unit": c.unit,
            "sd_of_differences": c.sd_of_differences,
            "repaired": _rate_object(c.repaired) if c.repaired else None,
            "repaired_pairings": c.repaired_pairings,
            "resampled": [_rate_object(r) for r in c.resampled],
            "why": list(c.why),
        }
        for c in found
    ]


def _rate_object(r: Rate) -> dict[str, object]:
    bounds: Sequence[float] = (r.interval.low, r.interval.high)
    return {
        "shift_sd": r.shift,
        "shift": r.shift_in_units,
        "n": r.n,
        "rate": r.rate,
        "trials": r.trials,
        "interval": list(bounds),
    }
