"""The network of the distilled graders: a convolution over tokens, pooled per candidate, compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from gagar_core.agent.codec import SPEC_WORDS
from gagar_core.grading.encoding import Candidates, codec

_SCALE = 64.0
"""Tokens that count as one."""
_DROPOUT = 0.2
"""Labelled groups are few, and luck cannot be read off tokens: without it, it is learned by heart."""
VIEWS = ("joint", "pairwise", "pointwise")


class CandidateNetwork(nn.Module):
    """Scores (C,) of candidates.

    Windows of three tokens feed ``2 * width`` features. Their sums over a candidate (counts, such as test
    runs after an OK), as they are and damped by log1p, its length and the words of the task make its vector.
    ``view`` says what a score may depend on: ``pointwise`` the candidate alone; ``joint`` also what sets it
    apart from the other passing ones of its group, and the failing ones where they are given; ``pairwise`` is
    its mean margin in comparisons with every other passing one.
    """

    def __init__(self, width: int, view: str) -> None:
        super().__init__()
        features = 2 * width
        self.view = view
        self.tokens = nn.Embedding(codec().size, width)
        self.words = nn.Embedding(len(SPEC_WORDS), width)
        self.window = nn.Conv1d(width, features, 3)
        self.candidate = nn.Linear(2 * features + width + 1, features)
        self.dropout = nn.Dropout(_DROPOUT)
        self.judge = nn.Linear({"pointwise": 1, "pairwise": 2, "joint": 3}[view] * features, features)
        self.score = nn.Linear(features, 1)

    def forward(self, batch: Candidates) -> torch.Tensor:
        """(C,) scores; those of rows that are not judged mean nothing."""
        vectors = self._vectors(batch)
        if self.view == "pointwise":
            return self._judged(vectors)
        if self.view == "pairwise":
            return self._won(vectors, batch)
        passing = _group_mean(vectors, batch, batch.judged)
        failing = _group_mean(vectors, batch, ~batch.judged)
        return self._judged(torch.cat([vectors, vectors - passing, failing], 1))

    def _vectors(self, batch: Candidates) -> torch.Tensor:
        rows = batch.num_rows
        embedded = self.tokens(batch.tokens).t().unsqueeze(0)
        windows = torch.relu(self.window(embedded)).squeeze(0).t()
        owner = batch.row_of[1:-1]
        size = windows.shape[1]
        total = windows.new_zeros(rows + 1, size).index_add(0, owner, windows)[:rows]
        lengths = torch.bincount(batch.row_of, minlength=rows + 1)[:rows].to(windows.dtype).unsqueeze(1)
        parts = [torch.log1p(total), total / _SCALE, self.words(batch.specs).mean(1), lengths / _SCALE]
        vectors: torch.Tensor = self.dropout(torch.relu(self.candidate(torch.cat(parts, 1))))
        return vectors

    def _judged(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.score(torch.relu(self.judge(inputs))).squeeze(1)  # type: ignore[no-any-return]

    def _won(self, vectors: torch.Tensor, batch: Candidates) -> torch.Tensor:
        """Mean log-odds of being preferred over the other passing candidates; antisymmetric."""
        rows = torch.nonzero(batch.judged).squeeze(1)
        sizes = torch.bincount(batch.group_of[rows], minlength=batch.num_groups)
        first = torch.repeat_interleave(torch.arange(len(rows)), sizes[batch.group_of[rows]])
        starts = torch.cumsum(sizes, 0) - sizes
        run = torch.arange(len(first)) - torch.searchsorted(first, first)
        second = starts[batch.group_of[rows[first]]] + run
        one, other = vectors[rows[first]], vectors[rows[second]]
        margin = self._judged(torch.cat([one, other], 1)) - self._judged(torch.cat([other, one], 1))
        won = vectors.new_zeros(len(rows)).index_add(0, first, margin)
        others = (sizes[batch.group_of[rows]] - 1).clamp(min=1)
        return vectors.new_zeros(batch.num_rows).index_copy(0, rows, won / others)


def _group_mean(vectors: torch.Tensor, batch: Candidates, chosen: torch.Tensor) -> torch.Tensor:
    """(C, F) mean over the chosen rows of each row's group; 0 where the group has none."""
    total = vectors.new_zeros(batch.num_groups, vectors.shape[1])
    total = total.index_add(0, batch.group_of[chosen], vectors[chosen])
    count = torch.bincount(batch.group_of[chosen], minlength=batch.num_groups).clamp(min=1)
    return (total / count.unsqueeze(1))[batch.group_of]


def listwise_loss(scores: torch.Tensor, batch: Candidates, order: torch.Tensor) -> torch.Tensor:
    """Plackett-Luce negative log-likelihood per candidate of the labelled orders (ListMLE, Xia et al. 2008).

    ``order`` (P,) are the judged rows, group by group, best first.
    """
    groups = batch.group_of[order]
    sizes = torch.bincount(groups, minlength=batch.num_groups)
    place = torch.arange(len(order)) - (torch.cumsum(sizes, 0) - sizes)[groups]
    table = scores.new_full((batch.num_groups, int(sizes.max())), -torch.inf)
    table = table.index_put((groups, place), scores[order])
    rest = torch.logcumsumexp(table.flip(1), 1).flip(1)[groups, place]
    return (rest - scores[order]).mean()


def arrays_of(network: nn.Module) -> dict[str, NDArray[Any]]:
    """Parameters as plain arrays."""
    return {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}


def load_arrays(network: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Put parameters back; raises ``ValueError`` for those of another network."""
    try:
        network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    except (RuntimeError, TypeError, KeyError) as err:
        msg = f"the snapshot is of another network: {' '.join(str(err).split())[:160]}"
        raise ValueError(msg) from err
