"""From pairwise comparisons to scores, for graders that compare two candidates at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gagar_core.errors import InputError
from gagar_core.protocols import Floats

_TOLERANCE = 1e-12
_STEPS = 100


def bradley_terry_scores(wins: ArrayLike, *, prior: float = 0.5) -> Floats:
    """Maximum-likelihood strengths θ (k,) with mean 0, in nats: P(i beats j) = 1 / (1 + exp(θ_j - θ_i)).

    Parameters
    ----------
    wins
        (k, k): how often row beat column; half a win each way for a tie. The diagonal is ignored.
    prior
        Pseudo-wins each way of every pair, > 0: without them an undefeated candidate has θ = ∞.

    Newton's method on the concave log-likelihood (Bradley & Terry 1952). Raises ``InputError`` for wins that
    are not a square of finite, non-negative numbers, or a prior that is not positive.
    """
    table = np.array(wins, dtype=np.float64)
    if (
        table.ndim != 2
        or table.shape[0] != table.shape[1]
        or not np.isfinite(table).all()
        or (table < 0).any()
    ):
        msg = f"wins must be a (k, k) table of finite numbers >= 0; got shape {table.shape}"
        raise InputError(msg)
    if not 0.0 < prior < np.inf:
        msg = f"prior must be positive; got {prior!r}"
        raise InputError(msg)
    table += prior
    np.fill_diagonal(table, 0.0)
    games, won = table + table.T, table.sum(axis=1)
    theta = np.zeros(len(table))
    for _ in range(_STEPS):
        chance = 1.0 / (1.0 + np.exp(theta[None, :] - theta[:, None]))
        slope = won - (games * chance).sum(axis=1)
        bend = games * chance * (1.0 - chance)
        # The likelihood is flat along a common shift of all θ; the ones pin their mean.
        curvature = np.diag(bend.sum(axis=1)) - bend + 1.0
        step = np.linalg.solve(curvature, slope)
        theta += np.clip(step, -1.0, 1.0)
        if np.abs(step).max(initial=0.0) < _TOLERANCE:
            break
    return theta - theta.mean() if len(theta) else theta
