"""From one advantage per row to one per token."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gagar_core.errors import InputError
from gagar_core.protocols import Floats


def broadcast(advantages: ArrayLike, mask: ArrayLike) -> Floats:
    """Give every trained token its row's advantage, (N, T) from ``advantages`` (N,) and ``mask`` (N, T).

    Where ``mask`` is 0 (prompt, tool output, padding) the result is exactly 0, whatever the row holds: values
    are selected, not multiplied, so a NaN cannot leak. Raises ``InputError`` if shapes do not fit.
    """
    values, trained = np.asarray(advantages, dtype=np.float64), np.asarray(mask)
    if values.ndim != 1 or trained.ndim != 2 or len(values) != len(trained):
        msg = f"advantages (N,) and mask (N, T) do not fit: {values.shape} and {trained.shape}"
        raise InputError(msg)
    return np.where(trained.astype(np.bool_), values[:, None], 0.0)
