"""Where the spread of a score comes from: the training seed, the task, or the sampled attempt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.statistics import complete
from gagar_core.errors import InputError


@dataclass(frozen=True, slots=True)
class VarianceShares:
    """Variance components of y[seed, task, attempt], and what each adds to the variance of a run's mean.

    ``task`` is how much tasks differ (shared by all runs, so it does not blur comparisons). ``seed_task`` is
    null when there is one attempt per task: it then cannot be told from ``attempt``, which holds both.
    The three ``share_*`` are of the variance of a per-run mean and add to 1 (null if that variance is 0).
    """

    seed: float
    task: float
    seed_task: float | None
    attempt: float
    share_seed: float | None
    share_seed_task: float | None
    share_attempt: float | None


def variance_shares(scores: ArrayLike) -> VarianceShares:
    """Method-of-moments components of a balanced array ``(seeds, tasks, attempts)``, negative ones cut to 0.

    Two-way random effects with interaction: E MS_seed = attempt + R seed_task + K R seed, E MS_task = attempt
    + R seed_task + S R task, E MS_seed_task = attempt + R seed_task, E MS_attempt = attempt. A per-run mean
    has variance seed + seed_task / K + attempt / (K R).
    """
    y = complete(scores)
    if y.ndim != 3 or y.shape[0] < 2 or y.shape[1] < 2:
        raise InputError(f"need (seeds, tasks, attempts) with 2 or more seeds and tasks; got shape {y.shape}")
    s, k, r = y.shape
    cell, row, column, grand = y.mean(axis=2), y.mean(axis=(1, 2)), y.mean(axis=(0, 2)), y.mean()
    ms_seed = k * r * float(((row - grand) ** 2).sum()) / (s - 1)
    ms_task = s * r * float(((column - grand) ** 2).sum()) / (k - 1)
    rest = cell - row[:, None] - column[None, :] + grand
    ms_cell = r * float((rest**2).sum()) / ((s - 1) * (k - 1))
    seed, task = max(0.0, (ms_seed - ms_cell) / (k * r)), max(0.0, (ms_task - ms_cell) / (s * r))
    if r == 1:
        return _with_shares(seed, task, None, ms_cell, k, r)
    ms_attempt = float(((y - cell[:, :, None]) ** 2).sum()) / (s * k * (r - 1))
    return _with_shares(seed, task, max(0.0, (ms_cell - ms_attempt) / r), ms_attempt, k, r)


def _with_shares(
    seed: float, task: float, seed_task: float | None, attempt: float, k: int, r: int
) -> VarianceShares:
    parts = np.array([seed, (seed_task or 0.0) / k, attempt / (k * r)])
    total = float(parts.sum())
    if total == 0:
        return VarianceShares(seed, task, seed_task, attempt, None, None, None)
    share = (parts / total).tolist()
    middle = None if seed_task is None else share[1]
    return VarianceShares(seed, task, seed_task, attempt, share[0], middle, share[2])
