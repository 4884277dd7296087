"""An embedded policy: a small network, its sampler, and the batches it is trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from gagar_core.agent.rollouts import Rules, Sampler, TokenModel

if TYPE_CHECKING:
    from gagar_core.agent.codec import Codec
    from gagar_core.protocols import Sandbox
    from gagar_core.tasks.list_functions import ListFunctions
    from gagar_core.types import Task, Trajectory

_BUCKET_ROWS = 24
"""Rows per padded chunk: sorted by length, so that little of a chunk is padding."""


@dataclass(frozen=True)
class TokenBatch:
    """Trainer-side view of trajectories, every tensor (B, T); padding has mask 0."""

    logprobs: torch.Tensor
    """Differentiable log-probability of each token under the policy being trained, nats."""
    entropies: torch.Tensor
    """Entropy of the distribution that each token was drawn from, nats."""
    sampled_logprobs: torch.Tensor
    """Log-probability under the sampling policy; 0 where the mask is 0."""
    mask: torch.Tensor
    """1 where the agent wrote the token."""


class EmbeddedPolicy:
    """Policy of the embedded workload; ``network`` holds its parameters."""

    def __init__(
        self,
        network: Any,
        sampler: Callable[[Any], TokenModel],
        tasks: ListFunctions,
        sandbox: Sandbox,
    ) -> None:
        self.network: nn.Module = network
        self.codec: Codec = network.codec
        self._make_sampler = sampler
        self._sandbox = sandbox
        self._rules = Rules(tasks.token_budget, tasks.truncation == "fail")

    def rollouts(self, tasks: Sequence[Task], generator: torch.Generator) -> list[Trajectory]:
        """One trajectory per entry of ``tasks``, sampled at temperature 1."""
        sampler = Sampler(self._make_sampler(self.network), self.codec, self._sandbox, self._rules)
        return sampler.rollouts(tasks, generator)

    def logprobs(
        self, trajectories: Sequence[Trajectory], tasks: Sequence[Task], network: nn.Module | None = None
    ) -> TokenBatch:
        """Log-probabilities and entropies of every agent token; rows in the order given.

        ``network`` = another one than the policy's own, for instance the frozen reference.
        """
        network = self.network if network is None else network
        rows = [_row(trajectory) for trajectory in trajectories]
        specs = torch.tensor([self.codec.encode_spec(task.spec) for task in tasks])
        longest = max(len(row.tokens) for row in rows)
        order = np.argsort([len(row.tokens) for row in rows], kind="stable")
        logprobs, entropies = [], []
        for first in range(0, len(rows), _BUCKET_ROWS):
            bucket = order[first : first + _BUCKET_ROWS]
            chunk = _chunk_logprobs(network, specs[bucket], [rows[i].tokens for i in bucket], longest)
            logprobs.append(chunk[0])
            entropies.append(chunk[1])
        back = torch.from_numpy(np.argsort(order))
        return TokenBatch(
            logprobs=torch.cat(logprobs)[back],
            entropies=torch.cat(entropies)[back],
            sampled_logprobs=torch.from_numpy(_pad([row.sampled for row in rows], longest, np.float32)),
            mask=torch.from_numpy(_pad([row.mask for row in rows], longest, np.float32)),
        )


@dataclass(frozen=True)
class _Row:
    tokens: list[int]
    sampled: list[float]
    mask: list[int]


def _row(trajectory: Trajectory) -> _Row:
    tokens: list[int] = []
    sampled: list[float] = []
    mask: list[int] = []
    for segment in trajectory.segments:
        tokens += segment.token_ids
        sampled += segment.logprobs if segment.role == "agent" else [0.0] * len(segment.token_ids)
        mask += segment.mask
    return _Row(tokens, sampled, mask)


def _chunk_logprobs(
    network: nn.Module, specs: torch.Tensor, rows: list[list[int]], longest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(len(row) for row in rows)
    tokens = torch.from_numpy(_pad(rows, width, np.int64))
    everything = network(specs, tokens)
    chosen = everything.gather(2, tokens.unsqueeze(2)).squeeze(2)
    entropy = -(everything.exp() * everything).sum(2)
    padding = (0, longest - width)
    return nn.functional.pad(chosen, padding), nn.functional.pad(entropy, padding)


def _pad(rows: Sequence[Sequence[float]], width: int, dtype: Any) -> Any:
    out = np.zeros((len(rows), width), dtype=dtype)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out
