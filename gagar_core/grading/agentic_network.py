"""Networks of the agentic grader: one scores candidates on what is known, one chooses what to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from gagar_core.grading.casefile import (
    FUZZ,
    FUZZ_FEW,
    NUM_CONTEXT,
    NUM_FEATURES,
    SLOT_OF,
    SLOTS,
    CaseFile,
)


@dataclass(frozen=True)
class Files:
    """Case files as arrays: G groups, padded to R rows, F features, S slots, C context features."""

    values: torch.Tensor
    """(G, R, F) what is known, 0 elsewhere."""
    known: torch.Tensor
    """(G, R, S) bool."""
    context: torch.Tensor
    """(G, R, C)."""
    copies: torch.Tensor
    """(G, R) candidates of a row; 0 for padding."""

    def part(self, groups: torch.Tensor, known: torch.Tensor | None = None) -> Files:
        """These groups; ``known`` (groups, R, S) instead of what they know."""
        seen = self.known[groups] if known is None else known
        return Files(self.values[groups], seen, self.context[groups], self.copies[groups])

    def possible(self, allowed: torch.Tensor) -> torch.Tensor:
        """(G, R, S) actions that would still tell something; ``allowed`` (S,) slots."""
        possible = ~self.known & allowed & (self.copies > 0).unsqueeze(-1)
        possible[..., FUZZ_FEW] &= ~self.known[..., FUZZ]
        return possible


def stacked(files: Sequence[CaseFile]) -> Files:
    """The present state of several groups."""
    size = max((len(file.rows) for file in files), default=1)
    shapes = {"values": NUM_FEATURES, "known": len(SLOTS), "context": NUM_CONTEXT}
    arrays = {name: np.zeros((len(files), size, width), np.float32) for name, width in shapes.items()}
    copies = np.zeros((len(files), size), np.float32)
    for g, file in enumerate(files):
        for name, array in arrays.items():
            array[g, : len(file.rows)] = getattr(file, name)
        copies[g, : len(file.rows)] = [len(row) for row in file.rows]
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Files(tensors["values"], tensors["known"] > 0, tensors["context"], torch.from_numpy(copies))


class _Trunk(nn.Module):
    """(G, R, H) from what is known of each row and, in a joint view, what sets it apart from its group."""

    def __init__(self, hidden: int, view: str, extra: int = 0) -> None:
        super().__init__()
        self.view = view
        size = NUM_FEATURES * (2 if view == "joint" else 1) + len(SLOTS) + NUM_CONTEXT + extra
        self.layers = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())

    def forward(self, files: Files, extra: Sequence[torch.Tensor] = ()) -> torch.Tensor:
        seen = files.known[..., torch.from_numpy(SLOT_OF)].to(files.values.dtype)
        own = files.values * seen
        parts = [own, files.known.to(own.dtype), files.context, *extra]
        if self.view == "joint":
            copies = files.copies.unsqueeze(-1)
            total, count = (own * copies).sum(1, keepdim=True), (seen * copies).sum(1, keepdim=True)
            parts.append((own - total / count.clamp(min=1)) * seen)
        return self.layers(torch.cat(parts, -1))  # type: ignore[no-any-return]


class AgenticNetwork(nn.Module):
    """A judge of candidates and a chooser of actions, each with layers of its own."""

    def __init__(self, hidden: int, view: str) -> None:
        super().__init__()
        self.judge = _Trunk(hidden, view)
        self.verdict = nn.Linear(hidden, 2)
        self.look = _Trunk(hidden, view, extra=3)
        self.slots = nn.Linear(hidden, len(SLOTS))
        self.stop = nn.Linear(2 * hidden, 1)

    def judged(self, files: Files) -> tuple[torch.Tensor, torch.Tensor]:
        """(G, R) scores, and (G, R) log-odds that a candidate is right, not lucky."""
        out = self.verdict(self.judge(files))
        return out[..., 0], out[..., 1]

    def chosen(self, files: Files, allowed: torch.Tensor) -> torch.Tensor:
        """(G, R * S + 1) log-probabilities of the actions, row by row; the last one is to stop."""
        real = (files.copies > 0).unsqueeze(-1)
        hidden = self.look(files, self._standing(files)) * real
        count = real.sum(1).clamp(min=1)
        pooled = torch.cat([hidden.sum(1) / count, hidden.max(1).values], -1)
        logits = self.slots(hidden).masked_fill(~files.possible(allowed), -torch.inf).flatten(1)
        return torch.cat([logits, self.stop(pooled)], 1).log_softmax(1)

    @torch.no_grad()
    def _standing(self, files: Files) -> list[torch.Tensor]:
        """What the judge would say now: score against the group's mean and best, odds of being right."""
        scores, right = self.judged(files)
        real = files.copies > 0
        mean = (scores * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
        best = scores.masked_fill(~real, -torch.inf).max(1, keepdim=True).values
        return [((part * real).nan_to_num()).unsqueeze(-1) for part in (scores - mean, scores - best, right)]
