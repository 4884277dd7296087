"""The one place where tensors come in: any float type, any device; the maths stays NumPy float64."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from gagar_core.advantages.compute import AdvantageResult, compute_advantages
from gagar_core.advantages.tokens import broadcast
from gagar_core.errors import InputError

if TYPE_CHECKING:
    import torch

_GRADES = ("passed", "valid", "ranks", "tiers", "scores", "weights", "lengths")


def compute_advantages_from_tensors(
    rewards: torch.Tensor,
    group_ids: torch.Tensor | Iterable[Hashable],
    *,
    mask: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, AdvantageResult]:
    """:func:`compute_advantages` on tensors, computed in float64 on the host and cast back once.

    Parameters
    ----------
    rewards
        (N,), or (N, T) token rewards, which are summed over T in float64.
    group_ids
        (N,) labels, or an integer tensor.
    mask
        (N, T): 1 where a token is trained. Lengths are its row sums unless given.
    **options
        As in :func:`compute_advantages`; arrays may be tensors.

    Returns
    -------
    advantages
        (N, T) with a mask, else (N,); a new tensor of the rewards' floating type and device.
    result
        The result in float64, per row and per group.
    """
    import torch

    if not rewards.is_floating_point():
        rewards = rewards.to(torch.get_default_dtype())
    array = _to_numpy(rewards)
    trained = None if mask is None else _to_numpy(mask) != 0
    if trained is not None and (trained.ndim != 2 or trained.shape[: array.ndim] != array.shape):
        msg = f"mask must be (N, T) and fit rewards {array.shape}; got {trained.shape}"
        raise InputError(msg)
    if trained is not None and options.get("lengths") is None:
        options["lengths"] = trained.sum(axis=1)
    arrays = {name: _to_numpy(value) for name, value in options.items() if name in _GRADES}
    labels = _to_numpy(group_ids) if isinstance(group_ids, torch.Tensor) else group_ids
    result = compute_advantages(
        array.sum(axis=1) if array.ndim == 2 else array, labels, **{**options, **arrays}
    )
    values = result.advantages if trained is None else broadcast(result.advantages, trained)
    cast = torch.from_numpy(values).to(rewards.dtype)
    if not torch.isfinite(cast).all():
        msg = f"an advantage does not fit into {rewards.dtype}; largest is {np.abs(values).max():g}"
        raise InputError(msg)
    return cast.to(rewards.device), result


def _to_numpy(value: Any) -> Any:
    """A tensor as an array, floats widened to float64 (NumPy has no bfloat16); anything else as it is."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    held = value.detach().cpu()
    return (held.double() if held.is_floating_point() else held).numpy()
