"""Listwise SFT of a grader's network on labelled groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gagar_core.errors import InputError
from gagar_core.grading.encoding import Candidates, encode
from gagar_core.grading.labelled import LabelledGroup
from gagar_core.grading.network import CandidateNetwork, listwise_loss

_BATCH_GROUPS = 16
"""Groups per update."""
_WEIGHT_DECAY = 1e-3


def fit_listwise(
    network: CandidateNetwork,
    data: Sequence[LabelledGroup],
    context: str,
    *,
    epochs: int,
    lr: float,
    noise: float,
    rng: np.random.Generator,
) -> None:
    """Train in place: AdamW, learning rate falling to 0, orders of equal labels redrawn every time."""
    if not data:
        msg = "no labelled group has two passing trajectories: raise budget.sft_demos or grader.data_steps"
        raise InputError(msg)
    labels = [_noisy(one, noise, rng) for one in data]
    optimiser = torch.optim.AdamW(network.parameters(), lr=lr, weight_decay=_WEIGHT_DECAY)
    parts = [
        range(first, min(first + _BATCH_GROUPS, len(data))) for first in range(0, len(data), _BATCH_GROUPS)
    ]
    batches = [encode([data[i].group for i in part], context) for part in parts]
    total = epochs * len(parts)
    with torch.random.fork_rng(devices=[]):  # dropout draws from torch's global generator
        torch.manual_seed(int(rng.integers(2**31)))
        for done in range(total):
            part = int(rng.integers(len(parts))) if len(parts) > 1 else 0
            optimiser.param_groups[0]["lr"] = lr * (1 - done / total)
            order = _order(batches[part], [labels[i] for i in parts[part]], rng)
            loss = listwise_loss(network(batches[part]), batches[part], order)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()


def _noisy(one: LabelledGroup, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Qualities of the passing trajectories in their order; noise is drawn once, as a labeller's is."""
    values = np.array([one.quality[i] for i in one.ranked])
    return values + noise * rng.standard_normal(len(values)) if noise else values


def _order(batch: Candidates, labels: Sequence[np.ndarray], rng: np.random.Generator) -> torch.Tensor:
    """Judged rows, group by group, best first; equal ones in random order."""
    rows = np.flatnonzero(batch.judged.numpy())
    values = np.concatenate(labels)
    groups = batch.group_of.numpy()[rows]
    return torch.from_numpy(rows[np.lexsort((rng.random(len(rows)), -values, groups))])
