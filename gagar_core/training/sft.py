"""SFT warm start: next-token likelihood of the agent's tokens in executed demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from gagar_core.agent.demonstrations import Demonstration
from gagar_core.errors import DivergedError
from gagar_core.policies.embedded import EmbeddedPolicy

_BATCH = 16
_WARMUP_SHARE = 0.05


@dataclass(frozen=True)
class SftResult:
    """Mean negative log-likelihood per agent token (nats) in the first and the last tenth of training."""

    first_nll: float
    last_nll: float
    updates: int


def warm_start(
    policy: EmbeddedPolicy,
    demonstrations: Sequence[Demonstration],
    epochs: int,
    rng: np.random.Generator,
    lr: float,
    beat: Callable[[int, int], None] = lambda done, total: None,
) -> SftResult:
    """Train ``policy`` in place with Adam of peak rate ``lr``; ``beat`` is told (updates done, in all).

    Raises ``DivergedError`` at the first non-finite loss.
    """
    optimiser = torch.optim.Adam(policy.network.parameters(), lr=lr)
    batches = [batch for _ in range(epochs) for batch in _batches(demonstrations, rng)]
    losses = []
    for done, batch in enumerate(batches):
        for group in optimiser.param_groups:
            group["lr"] = lr * _schedule(done / len(batches))
        loss = _loss(policy, batch)
        if not torch.isfinite(loss):
            msg = f"the SFT warm start diverged at update {done} of {len(batches)}"
            raise DivergedError(msg)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(policy.network.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        beat(done + 1, len(batches))
    tenth = max(1, len(losses) // 10)
    return SftResult(float(np.mean(losses[:tenth])), float(np.mean(losses[-tenth:])), len(losses))


def _schedule(progress: float) -> float:
    """Linear warm-up over the first 5 %, then linear decay to a twentieth."""
    return min(1.0, (progress + 1e-3) / _WARMUP_SHARE) * (1.0 - 0.95 * progress)


def _batches(demonstrations: Sequence[Demonstration], rng: np.random.Generator) -> list[list[Demonstration]]:
    """Batches of similar length (shuffled within and between): little padding, still every one once."""
    order = rng.permutation(len(demonstrations))
    pools = [order[i : i + 16 * _BATCH] for i in range(0, len(order), 16 * _BATCH)]
    batches = []
    for pool in pools:
        by_length = sorted(pool.tolist(), key=lambda i: len(demonstrations[i].tokens))
        batches += [by_length[i : i + _BATCH] for i in range(0, len(by_length), _BATCH)]
    return [[demonstrations[i] for i in batches[int(j)]] for j in rng.permutation(len(batches))]


def _loss(policy: EmbeddedPolicy, batch: Sequence[Demonstration]) -> torch.Tensor:
    width = max(len(demo.tokens) for demo in batch)
    tokens = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros(len(batch), width)
    for i, demo in enumerate(batch):
        tokens[i, : len(demo.tokens)] = torch.tensor(demo.tokens)
        mask[i, : len(demo.tokens)] = torch.tensor(demo.is_agent, dtype=torch.float32)
    specs = torch.tensor([policy.codec.encode_spec(demo.task.spec) for demo in batch])
    logprobs: torch.Tensor = policy.network(specs, tokens).gather(2, tokens.unsqueeze(2)).squeeze(2)
    return -(logprobs * mask).sum() / mask.sum()
