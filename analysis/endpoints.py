"""At which step variants are read off, and what happens to runs that did not get there.

Averaging whoever is left at the last step is how a report lies by accident: a variant whose weak runs died
looks better for it. So a number always belongs to a step and a named policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from analysis.curves import Curve
from analysis.statistics import Floats
from analysis.study import DEAD, FINISHED, Run
from gagar_core.errors import InputError, check_choice, gather

COMPLETE = "all runs reached the step"
LAST_COMMON = "last common step: the last one that every run reached, dead ones included"
FINISHED_ONLY = "finished runs only: dead runs left out"
NOTHING = "no run has ended"

FILLS = ("available", "carried_forward", "dead_as_zero")
"""Ways to give a dead run a value at a later step. Each answers another question; none is a default."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Step, runs that count there, and the policy in words; ``step`` is null when nothing counts."""

    step: int | None
    policy: str
    run_ids: tuple[str, ...]


def choose_endpoint(curve: Curve, runs: Iterable[Run]) -> Endpoint:
    """Where to read off the runs of one variant (or of the two sides of a comparison).

    Only ended runs count; running and lost ones, and finished ones without any value, are named elsewhere and
    make n used < n planned. If some died, the step is the last one that all ended runs reached. If that is
    where training starts, nothing would be learned from it: then only finished runs count, at their last
    common step, and the policy says so.
    """
    ended = [run for run in runs if run.status == FINISHED or run.status in DEAD]
    finished = curve.select(run.run_id for run in ended if run.status == FINISHED).recorded()
    dead = [run.run_id for run in ended if run.status in DEAD]
    if dead:
        ids = tuple(sorted([*finished, *dead]))
        step = last_common_step(curve, ids)
        if step is not None and step > 0:
            return Endpoint(step, LAST_COMMON, ids)
    step = last_common_step(curve, finished)
    if step is None:
        return Endpoint(None, NOTHING if not finished else FINISHED_ONLY, ())
    return Endpoint(step, FINISHED_ONLY if dead else COMPLETE, tuple(finished))


def last_common_step(curve: Curve, run_ids: Iterable[str]) -> int | None:
    """The last step at which every one of these runs has a value."""
    rows = curve.select(run_ids)
    if not rows.run_ids:
        return None
    common = np.flatnonzero(np.isfinite(rows.values).all(axis=0))
    return int(rows.steps[common[-1]]) if common.size else None


def filled(curve: Curve, policy: str) -> Floats:
    """The curve's values with steps after a run's last one filled by a named policy.

    ``available`` fills nothing, ``carried_forward`` repeats the last value, ``dead_as_zero`` puts 0. Gaps
    before a run's last step stay NaN under every policy.
    """
    gather(check_choice("policy", policy, FILLS), headline="cannot fill a curve", error=InputError)
    values = curve.values.copy()
    if policy == "available":
        return values
    for row in values:
        present = np.flatnonzero(np.isfinite(row))
        if present.size:
            last = present[-1]
            row[last + 1 :] = row[last] if policy == "carried_forward" else 0.0
    return values
