"""Measures of an update, over every token that was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass
class UpdateStats:
    """Measures of a step's updates.

    Ratios are trainer / sampler. ``clip_*`` are null with a single update: nothing can be clipped then.
    """

    loss: float
    grad_norm: float
    updates: int
    entropy_tok: float
    entropy_traj: float
    kl_k1: float
    kl_k3: float
    kl_ref: float | None
    ratio_p99: float
    ratio_p999: float
    ratio_max: float
    is_ess: float
    logprob_gap: float
    clip_low: float | None
    clip_high: float | None
    row_entropy: np.ndarray[Any, np.dtype[np.float64]]
    """(rows,) mean entropy of a trajectory's agent tokens, nats."""
    row_ratio_max: np.ndarray[Any, np.dtype[np.float64]]
    """(rows,) largest token ratio of a trajectory."""


class UpdateMeter:
    """Collects what the minibatches of a step show; call ``see`` once per update, ``result`` at the end."""

    def __init__(self, rows: int) -> None:
        self._losses: list[float] = []
        self._norms: list[float] = []
        self._log_ratios: list[torch.Tensor] = []
        self._ref: list[torch.Tensor] = []
        self._clipped = torch.zeros(2, dtype=torch.float64)
        self._row_entropy = np.full(rows, np.nan)
        self._row_ratio = np.zeros(rows)
        self._entropy: list[torch.Tensor] = []
        self.gap_seen = 0.0

    def gap(self, log_ratio: torch.Tensor) -> None:
        """Take |trainer - sampler| of fresh tokens, before the first update."""
        self.gap_seen = float(log_ratio.abs().max())

    @torch.no_grad()
    def see(
        self,
        rows: Any,
        log_ratio: torch.Tensor,
        entropies: torch.Tensor,
        mask: torch.Tensor,
        clipped: tuple[float, float],
        ref_gap: torch.Tensor | None,
    ) -> None:
        """Take one minibatch: ``log_ratio``, ``entropies``, ``mask`` are (B, T), ``rows`` its row numbers."""
        keep = mask.bool()
        self._log_ratios.append(log_ratio[keep].double())
        self._clipped += torch.tensor(clipped, dtype=torch.float64)
        lengths = keep.sum(1).clamp(min=1)
        first = np.isnan(self._row_entropy[rows])
        entropy = (torch.where(keep, entropies, 0.0).sum(1) / lengths).double().numpy()
        self._row_entropy[rows] = np.where(first, entropy, self._row_entropy[rows])
        if first.any():
            self._entropy.append(entropies[keep].double())
        largest = torch.where(keep, log_ratio, -torch.inf).max(1).values.double().exp().numpy()
        self._row_ratio[rows] = np.maximum(self._row_ratio[rows], largest)
        if ref_gap is not None:
            self._ref.append(ref_gap[keep].double())

    def done(self, loss: float, norm: float) -> None:
        """Take the loss and gradient norm of the minibatch just seen."""
        self._losses.append(loss)
        self._norms.append(norm)

    def result(self) -> UpdateStats:
        """The measures; ``loss`` and ``grad_norm`` are means over updates."""
        logs = torch.cat(self._log_ratios)
        ratio = logs.exp()
        updates = len(self._losses)
        clip = (self._clipped / len(ratio)).tolist() if updates > 1 else [None, None]
        ref = torch.cat(self._ref) if self._ref else None
        tail = np.quantile(ratio.numpy(), [0.99, 0.999]).tolist()
        return UpdateStats(
            loss=float(np.mean(self._losses)),
            grad_norm=float(np.mean(self._norms)),
            updates=updates,
            entropy_tok=float(torch.cat(self._entropy).mean()),
            entropy_traj=float(np.nanmean(self._row_entropy)),
            kl_k1=float(-logs.mean()),
            kl_k3=float((ratio - 1.0 - logs).mean()),
            kl_ref=None if ref is None else float((ref.exp() - 1.0 - ref).mean()),
            ratio_p99=tail[0],
            ratio_p999=tail[1],
            ratio_max=float(ratio.max()),
            is_ess=float(ratio.sum() ** 2 / (ratio**2).sum() / len(ratio)),
            logprob_gap=self.gap_seen,
            clip_low=clip[0],
            clip_high=clip[1],
            row_entropy=self._row_entropy,
            row_ratio_max=self._row_ratio,
        )
