"""Does the grader still order programs as the label tests do? From judgements of a fixed gold set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Drift:
    """Agreement at one step, averaged over gold groups; null where every group ties or nothing was read.

    ``consistency``: share of pairs that the grader orders alike when it is shown them in another order.
    """

    step: int
    groups: int
    tau: float | None
    top1: float | None
    rank_shift: float | None
    parse_fail: float
    consistency: float | None


Member = tuple[int, int]
"""A trajectory of the gold set: group and sample."""


def drift(gold: pl.DataFrame) -> list[Drift]:
    """One entry per step at which the gold set was graded, in order.

    ``gold`` has columns step, group_id, sample_idx, rank, gold_rank, parse_ok and order_seed. A group may
    have been graded in several orders: agreement is that of the first (lowest ``order_seed``), the others
    tell how consistent the grader is. ``rank_shift`` is the mean absolute change of a member's rank against
    the first such step.
    """
    import polars as pl

    if gold.height == 0:
        return []
    seeded = gold.with_columns(pl.col("order_seed").fill_null(0)).sort(
        "step", "group_id", "order_seed", "sample_idx"
    )
    first: dict[Member, float] = {}
    found = []
    for (step,), part in seeded.group_by("step", maintain_order=True):
        groups = [_orders(group) for _, group in part.group_by("group_id", maintain_order=True)]
        ranks = {member: rank for orders in groups for member, rank in _ranks(orders[0]).items()}
        first = first or ranks
        shifts = [abs(rank - first[member]) for member, rank in ranks.items() if member in first]
        found.append(_at_step(int(step), part, groups, shifts))
    return found


def _orders(group: pl.DataFrame) -> list[pl.DataFrame]:
    return [part for _, part in group.group_by("order_seed", maintain_order=True)]


def _ranks(order: pl.DataFrame) -> dict[Member, float]:
    """Member -> rank, for those that got one."""
    rows = order.select("group_id", "sample_idx", "rank").drop_nulls().iter_rows()
    return {(group, sample): float(rank) for group, sample, rank in rows if math.isfinite(rank)}


def _at_step(step: int, part: pl.DataFrame, groups: list[list[pl.DataFrame]], shifts: list[float]) -> Drift:
    taus, tops = [], []
    for orders in groups:
        rank, gold = (orders[0][name].cast(float).to_numpy() for name in ("rank", "gold_rank"))
        keep = np.isfinite(rank) & np.isfinite(gold)
        if keep.sum() < 2:
            continue
        tau = kendall_tau_b(rank[keep], gold[keep])
        if tau is not None:
            taus.append(tau)
        tops.append(bool(gold[keep][int(rank[keep].argmin())] == gold[keep].min()))
    alike = [share for orders in groups for share in _alike(orders)]
    return Drift(
        step=step,
        groups=len(groups),
        tau=_mean(taus),
        top1=_mean(tops),
        rank_shift=_mean(shifts),
        parse_fail=1.0 - float(part["parse_ok"].fill_null(True).to_numpy().mean()),
        consistency=_mean(alike),
    )


def _alike(orders: list[pl.DataFrame]) -> list[float]:
    """Share of pairs ordered alike (ties alike too) in the first and in each other order of one group."""
    usual = _ranks(orders[0])
    found = []
    for other in map(_ranks, orders[1:]):
        both = sorted(usual.keys() & other.keys())
        pairs = [
            np.sign(usual[a] - usual[b]) == np.sign(other[a] - other[b]) for a, b in combinations(both, 2)
        ]
        if pairs:
            found.append(float(np.mean(pairs)))
    return found


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def kendall_tau_b(x: ArrayLike, y: ArrayLike) -> float | None:
    """(concordant - discordant) / sqrt(pairs untied in x * pairs untied in y); null if all of one tie."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    upper = np.triu_indices(a.size, 1)
    dx = np.sign(a[:, None] - a[None, :])[upper]
    dy = np.sign(b[:, None] - b[None, :])[upper]
    scale = math.sqrt(float(np.abs(dx).sum()) * float(np.abs(dy).sum()))
    return float((dx * dy).sum()) / scale if scale > 0 else None
