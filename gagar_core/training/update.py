"""One optimiser update from trajectories and their advantages, with the measures that reports need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from gagar_core.errors import DivergedError
from gagar_core.policies.embedded import EmbeddedPolicy, TokenBatch
from gagar_core.training.policy_gradient import PolicyGradient
from gagar_core.training.step import UpdateStats
from gagar_core.types import Task, Trajectory


class Updater:
    """Owns the optimiser of a policy."""

    def __init__(self, policy: EmbeddedPolicy, settings: PolicyGradient, loss: Any) -> None:
        self._policy = policy
        self._settings = settings
        self._loss = loss
        self._optimiser = torch.optim.Adam(
            policy.network.parameters(), lr=settings.lr, betas=(settings.beta1, settings.beta2)
        )

    @property
    def lr(self) -> float:
        """Learning rate of the next update."""
        return float(self._optimiser.param_groups[0]["lr"])

    def update(
        self,
        trajectories: Sequence[Trajectory],
        tasks: Sequence[Task],
        advantages: np.ndarray[Any, np.dtype[np.float64]],
        group_codes: np.ndarray[Any, np.dtype[np.int64]],
    ) -> UpdateStats:
        """Change the policy once; raise ``DivergedError`` if loss or gradient is not finite."""
        batch = self._policy.logprobs(trajectories, tasks)
        column = torch.from_numpy(advantages).float()
        # the trainer's own log-probabilities are the reference of the ratio: the sampler's agree with them up
        # to rounding (measured as logprob_gap), so the first update is exactly the plain policy gradient
        terms = self._loss.terms(batch.logprobs, batch.logprobs.detach(), column, batch.mask)
        loss = self._loss.aggregate(terms, batch.mask, torch.from_numpy(group_codes))
        self._optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._policy.network.parameters(), self._settings.grad_clip)
        if not (torch.isfinite(loss) and torch.isfinite(norm)):
            msg = f"loss {float(loss.detach())}, gradient norm {float(norm)}"
            raise DivergedError(msg)
        self._optimiser.step()
        return _stats(batch, float(loss.detach()), float(norm))


def _stats(batch: TokenBatch, loss: float, norm: float) -> UpdateStats:
    with torch.no_grad():
        mask = batch.mask.bool()
        log_ratio = torch.where(mask, batch.logprobs - batch.sampled_logprobs, 0.0).double()
        ratio = log_ratio.exp()
        tokens, lengths = mask.sum(), mask.sum(1).clamp(min=1)
        row_entropy = torch.where(mask, batch.entropies, 0.0).sum(1) / lengths
        of_tokens = ratio[mask]
        return UpdateStats(
            loss=loss,
            grad_norm=norm,
            entropy_tok=float(torch.where(mask, batch.entropies, 0.0).sum() / tokens),
            entropy_traj=float(row_entropy.mean()),
            kl_k1=float(-log_ratio[mask].mean()),
            kl_k3=float((of_tokens - 1.0 - log_ratio[mask]).mean()),
            ratio_p99=float(torch.quantile(of_tokens, 0.99)),
            ratio_max=float(of_tokens.max()),
            is_ess=float(of_tokens.sum() ** 2 / (of_tokens**2).sum() / len(of_tokens)),
            logprob_gap=float(log_ratio.abs().max()),
            row_entropy=row_entropy.double().numpy(),
            row_ratio_max=torch.where(mask, ratio, 0.0).max(1).values.numpy(),
        )
