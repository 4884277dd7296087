"""The optimiser updates of one step, from trajectories and their advantages."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from gagar_core.errors import DivergedError, GagarError
from gagar_core.policies.embedded import EmbeddedPolicy, TokenBatch
from gagar_core.seeds import stream
from gagar_core.training.policy_gradient import PolicyGradient
from gagar_core.training.update_stats import UpdateMeter, UpdateStats
from gagar_core.types import Task, Trajectory

Advantages = np.ndarray[Any, np.dtype[np.float64]]


class Updater:
    """Owns the optimiser of a policy, and the frozen reference policy if the loss has a KL term."""

    def __init__(
        self, policy: EmbeddedPolicy, settings: PolicyGradient, loss: Any, steps: int, seed: int
    ) -> None:
        self._policy = policy
        self._settings = settings
        self._loss = loss
        self._steps = steps
        self._seed = seed
        self._reference = copy.deepcopy(policy.network) if loss.kl_coef else None
        self.optimiser = torch.optim.Adam(
            policy.network.parameters(), lr=settings.lr, betas=(settings.beta1, settings.beta2)
        )

    def lr_at(self, step: int) -> float:
        """Learning rate of a step."""
        return self._settings.lr_at(step, self._steps)

    def update(
        self,
        trajectories: Sequence[Trajectory],
        tasks: Sequence[Task],
        advantages: Advantages,
        group_codes: np.ndarray[Any, np.dtype[np.int64]],
        step: int,
    ) -> UpdateStats:
        """Change the policy ``epochs x minibatches`` times.

        Raises ``DivergedError`` if a loss or gradient is not finite, ``GagarError`` if sampler and trainer
        disagree on fresh tokens by more than ``logprob_tolerance``: ratios would silently be wrong.
        """
        settings, rows = self._settings, len(trajectories)
        for group in self.optimiser.param_groups:
            group["lr"] = self.lr_at(step)
        columns = settings.token_advantages(advantages, trajectories, group_codes)
        meter = UpdateMeter(rows)
        several = settings.epochs * settings.minibatches > 1
        old = self._frozen_logprobs(self._policy.network, trajectories, tasks) if several else None
        ref = self._frozen_logprobs(self._reference, trajectories, tasks) if self._reference else None
        for epoch in range(settings.epochs):
            for number, chosen in enumerate(self._minibatches(rows, step, epoch)):
                batch = self._policy.logprobs([trajectories[i] for i in chosen], [tasks[i] for i in chosen])
                if epoch == 0 and number == 0:
                    self._check_agreement(batch, meter)
                target = _pad([columns[i] for i in chosen], batch.mask.shape[1])
                codes = torch.from_numpy(group_codes[chosen])
                self._one(
                    batch, target, codes, chosen, _rows(old, chosen, batch), _rows(ref, chosen, batch), meter
                )
        return meter.result()

    def _minibatches(self, rows: int, step: int, epoch: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        if self._settings.minibatches == 1:
            return [np.arange(rows)]
        order = stream(self._seed, "minibatches", step, epoch).permutation(rows)
        return [part for part in np.array_split(order, self._settings.minibatches) if len(part)]

    def _frozen_logprobs(
        self, network: nn.Module, trajectories: Sequence[Trajectory], tasks: Sequence[Task]
    ) -> torch.Tensor:
        with torch.no_grad():
            return self._policy.logprobs(trajectories, tasks, network).logprobs

    def _check_agreement(self, batch: TokenBatch, meter: UpdateMeter) -> None:
        with torch.no_grad():
            meter.gap(torch.where(batch.mask.bool(), batch.logprobs - batch.sampled_logprobs, 0.0))
        if meter.gap_seen > self._settings.logprob_tolerance:
            msg = (
                f"sampler and trainer disagree by {meter.gap_seen:.3g} nats on a fresh token (tolerance "
                f"{self._settings.logprob_tolerance:g}): the policy's two forward passes are not the same"
            )
            raise GagarError(msg)

    def _one(
        self,
        batch: TokenBatch,
        advantages: torch.Tensor,
        codes: torch.Tensor,
        chosen: Any,
        old: torch.Tensor | None,
        ref: torch.Tensor | None,
        meter: UpdateMeter,
    ) -> None:
        """One update. Without ``old`` the ratio is 1 and the gradient the plain policy gradient."""
        old = batch.logprobs.detach() if old is None else old
        terms = self._loss.terms(batch.logprobs, old, advantages, batch.mask, ref_logprobs=ref)
        if self._settings.entropy_coef:
            terms = terms - self._settings.entropy_coef * batch.entropies
        loss = self._loss.aggregate(terms, batch.mask, codes)
        self.optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._policy.network.parameters(), self._settings.grad_clip)
        if not (torch.isfinite(loss) and torch.isfinite(norm)):
            msg = f"loss {float(loss.detach())}, gradient norm {float(norm)}"
            raise DivergedError(msg)
        fresh = torch.where(batch.mask.bool(), batch.logprobs - batch.sampled_logprobs, 0.0).detach()
        ref_gap = None if ref is None else (ref - batch.logprobs).detach()
        clipped = self._clipped(batch, old, advantages)
        meter.see(chosen, fresh, batch.entropies.detach(), batch.mask, clipped, ref_gap)
        meter.done(float(loss.detach()), float(norm))
        self.optimiser.step()

    def _clipped(self, batch: TokenBatch, old: torch.Tensor, advantages: torch.Tensor) -> tuple[float, float]:
        """Tokens whose gradient the clip removed: below (A < 0) and above (A > 0)."""
        with torch.no_grad():
            ratio = torch.where(batch.mask.bool(), batch.logprobs - old, 0.0).exp()
            low = (ratio < 1.0 - self._loss.clip_low) & (advantages < 0) & batch.mask.bool()
            high = (ratio > 1.0 + self._loss.clip_high) & (advantages > 0) & batch.mask.bool()
            return float(low.sum()), float(high.sum())


def _pad(rows: Sequence[Advantages], width: int) -> torch.Tensor:
    out = np.zeros((len(rows), width), dtype=np.float32)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


def _rows(values: torch.Tensor | None, chosen: Any, batch: TokenBatch) -> torch.Tensor | None:
    """The rows of a full-batch tensor, cut to the width of the minibatch."""
    return None if values is None else values[torch.from_numpy(chosen), : batch.mask.shape[1]]
