"""Declared hypotheses: read from a sweep, checked, and turned into verdicts.

    {"metric": "held_out_pass", "variant": "gagar", "against": "grpo", "kind": "non_inferior", "margin": 0.02,
     "direction": "higher"}

or a joint claim ``{"name": ..., "all_of": [...]}`` of several such: it holds if every part holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.comparisons import Difference, holm
from analysis.contrasts import ALPHA, UNDECIDED, Claim, Evidence, decide, evidence
from analysis.distributions import t_quantile
from analysis.metrics import METRICS
from analysis.power import detectable_effect, seeds_needed
from analysis.statistics import Interval
from gagar_core.errors import InputError

_KEYS = {"metric", "variant", "against", "kind", "margin", "direction", "name"}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A claim about one metric of two variants."""

    metric: str
    variant: str
    against: str
    claim: Claim

    def sentence(self) -> str:
        """The hypothesis in words."""
        metric, margin = METRICS[self.metric], f"{self.claim.margin:g}"
        better = {"higher": "higher", "lower": "lower"}[self.claim.direction]
        worse = {"higher": "lower", "lower": "higher"}[self.claim.direction]
        relation = {
            "superior": f"{better} than" + (f" by more than {margin}" if self.claim.margin else ""),
            "non_inferior": f"not {worse} by {margin} or more than",
            "equivalent": f"within {margin} of",
        }[self.claim.kind]
        if self.claim.kind == "superior" and self.claim.margin:
            return f"{metric.label}: {self.variant} is {better} by more than {margin} than {self.against}"
        return f"{metric.label}: {self.variant} is {relation} {self.against}"


@dataclass(frozen=True, slots=True)
class Declared:
    """One entry of a sweep's list: its parts (one unless joint), or the faults that make it unusable."""

    name: str
    parts: tuple[Hypothesis, ...]
    joint: bool
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the data say of one hypothesis. ``*_holm`` are adjusted over the hypotheses of the same metric."""

    verdict: str
    why: str
    p_support: float | None
    p_refute: float | None
    p_support_holm: float | None
    p_refute_holm: float | None
    family: int


def parse(raw: Iterable[Mapping[str, Any]], variants: Sequence[str]) -> list[Declared]:
    """Every declared entry, faulty ones included: a hypothesis must not vanish because it was mistyped."""
    return [_parse_entry(entry, variants) for entry in raw]


def _parse_entry(entry: Mapping[str, Any], variants: Sequence[str]) -> Declared:
    joint = "all_of" in entry
    rows = entry["all_of"] if joint else [entry]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        return Declared(str(entry.get("name", "?")), (), joint, ("all_of must be a list of hypotheses",))
    parts, faults = [], []
    for row in rows:
        try:
            parts.append(_parse_part(row, variants))
        except InputError as err:
            faults.append(str(err))
    told = [str(entry[key]) for key in ("kind", "variant", "against", "metric") if key in entry]
    name = str(entry.get("name") or "; ".join(part.sentence() for part in parts) or " / ".join(told))
    return Declared(name, tuple(parts), joint, tuple(faults))


def _parse_part(row: Mapping[str, Any], variants: Sequence[str]) -> Hypothesis:
    unknown = ", ".join(repr(key) for key in sorted(row.keys() - _KEYS))
    faults = [f"unknown key {unknown}; known: {', '.join(sorted(_KEYS))}"] if unknown else []
    metric = row.get("metric")
    if metric not in METRICS:
        faults.append(f"metric must be one of {', '.join(METRICS)}; got {metric!r}")
    for key in ("variant", "against"):
        if row.get(key) not in variants:
            faults.append(
                f"{key} must be a variant of the sweep ({', '.join(variants)}); got {row.get(key)!r}"
            )
    if row.get("variant") == row.get("against"):
        faults.append(f"variant and against are both {row.get('variant')!r}")
    margin = row.get("margin", 0.0)
    if isinstance(margin, bool) or not isinstance(margin, int | float):
        faults.append(f"margin must be a number; got {margin!r}")
    if faults:
        raise InputError("; ".join(faults))
    default = METRICS[str(metric)].better or "higher"
    claim = Claim(str(row.get("kind", "superior")), float(margin), str(row.get("direction") or default))
    return Hypothesis(str(metric), str(row["variant"]), str(row["against"]), claim)


def judge(pairs: Sequence[tuple[Hypothesis, Difference]]) -> list[Verdict]:
    """Verdicts, Holm-adjusted within each metric; supporting and refuting are separate families."""
    found = [evidence(hypothesis.claim, difference) for hypothesis, difference in pairs]
    support = _adjust(pairs, [e.p_support for e in found])
    refute = _adjust(pairs, [e.p_refute for e in found])
    return [
        _verdict(difference, e, up, down, sum(h.metric == hypothesis.metric for h, _ in pairs))
        for (hypothesis, difference), e, up, down in zip(pairs, found, support, refute, strict=True)
    ]


def _verdict(d: Difference, e: Evidence, support: float | None, refute: float | None, family: int) -> Verdict:
    verdict = decide(support, refute)
    why = ""
    if verdict == UNDECIDED:
        why = d.why if e.p_support is None else "the interval crosses the margin"
        if e.p_support is not None and decide(e.p_support, e.p_refute) != UNDECIDED:
            why = f"decided alone, not after Holm's adjustment over {family} hypotheses of this metric"
    return Verdict(verdict, why, e.p_support, e.p_refute, support, refute, family)


def _adjust(
    pairs: Sequence[tuple[Hypothesis, Difference]], p_values: Sequence[float | None]
) -> list[float | None]:
    adjusted: list[float | None] = [None] * len(pairs)
    for metric in dict.fromkeys(hypothesis.metric for hypothesis, _ in pairs):
        members = [
            (i, p)
            for i, ((hypothesis, _), p) in enumerate(zip(pairs, p_values, strict=True))
            if hypothesis.metric == metric and p is not None
        ]
        for (i, _), value in zip(members, holm([p for _, p in members]), strict=True):
            adjusted[i] = float(value)
    return adjusted


def outer_interval(difference: Difference, family: int, level: float = 0.95) -> Interval | None:
    """The interval at level 1 - (1 - level) / family: simultaneous over the family (Bonferroni)."""
    if difference.interval is None or difference.se is None or not difference.df or difference.value is None:
        return None
    wide = 1.0 - (1.0 - level) / max(1, family)
    half = t_quantile(0.5 + wide / 2, difference.df) * difference.se
    return Interval(difference.value - half, difference.value + half, wide, "simultaneous (Bonferroni)")


def seeds_to_decide(claim: Claim, difference: Difference, family: int = 1) -> tuple[int | None, str]:
    """Seed blocks at which this claim would be decided with power .8, if the effect is what was observed.

    The reason is given where there is no such number.
    """
    if difference.value is None or difference.sd is None:
        return None, "no spread is known: at least two paired seed blocks are needed first"
    low, high = claim.bounds
    gain = claim.gain(difference.value)
    distance = min(abs(gain - low), abs(high - gain)) if np.isfinite(high) else abs(gain - low)
    if difference.sd == 0:
        return None, "zero variance between seed blocks: check that the runs are independent"
    needed = seeds_needed(distance, difference.sd, alpha=2 * ALPHA / max(1, family))
    if needed is None:
        return None, "the observed effect lies on the margin: no realistic number of seeds decides it"
    return needed, ""


def detectable(difference: Difference) -> float | None:
    """The effect, in the metric's unit, that this many pairs would find with power .8."""
    if difference.method != "paired" or not difference.sd:
        return None
    return detectable_effect(difference.n) * difference.sd
