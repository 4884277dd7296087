"""Does the grader still order programs as the label tests do? From judgements of a fixed gold set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Drift:
    """Agreement at one step, averaged over gold groups; null where every group ties or nothing was read."""

    step: int
    groups: int
    tau: float | None
    top1: float | None
    rank_shift: float | None
    parse_fail: float


def drift(gold: pl.DataFrame) -> list[Drift]:
    """One entry per step at which the gold set was graded, in order.

    ``gold`` has columns step, group_id, sample_idx, rank, gold_rank, parse_ok and order_seed. ``rank_shift``
    is the mean absolute change of a member's rank against the first such step.
    """
    if gold.height == 0:
        return []
    ordered = gold.sort("step", "group_id", "sample_idx", "order_seed")
    first: dict[tuple[int, int], float] = {}
    found = []
    for (step,), part in ordered.group_by("step", maintain_order=True):
        ranks = part["rank"].cast(float).to_numpy()
        keys = list(zip(part["group_id"].to_list(), part["sample_idx"].to_list(), strict=True))
        if not first:
            first = {key: float(r) for key, r in zip(keys, ranks, strict=True) if math.isfinite(r)}
        shifts = [abs(r - first[key]) for key, r in zip(keys, ranks, strict=True) if key in first and r == r]
        found.append(_at_step(int(step), part, shifts))
    return found


def _at_step(step: int, part: pl.DataFrame, shifts: list[float]) -> Drift:
    taus, tops = [], []
    groups = 0
    for _, group in part.group_by("group_id", maintain_order=True):
        rank, gold = (group[name].cast(float).to_numpy() for name in ("rank", "gold_rank"))
        keep = np.isfinite(rank) & np.isfinite(gold)
        groups += 1
        if keep.sum() < 2:
            continue
        tau = kendall_tau_b(rank[keep], gold[keep])
        if tau is not None:
            taus.append(tau)
        tops.append(bool(gold[keep][int(rank[keep].argmin())] == gold[keep].min()))
    return Drift(
        step=step,
        groups=groups,
        tau=float(np.mean(taus)) if taus else None,
        top1=float(np.mean(tops)) if tops else None,
        rank_shift=float(np.mean(shifts)) if shifts else None,
        parse_fail=1.0 - float(part["parse_ok"].fill_null(True).to_numpy().mean()),
    )


def kendall_tau_b(x: ArrayLike, y: ArrayLike) -> float | None:
    """(concordant - discordant) / sqrt(pairs untied in x * pairs untied in y); null if all of one tie."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    upper = np.triu_indices(a.size, 1)
    dx = np.sign(a[:, None] - a[None, :])[upper]
    dy = np.sign(b[:, None] - b[None, :])[upper]
    scale = math.sqrt(float(np.abs(dx).sum()) * float(np.abs(dy).sum()))
    return float((dx * dy).sum()) / scale if scale > 0 else None
