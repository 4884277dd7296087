"""The expert that the agentic grader learns from: it uses the same tools, and knows the labels.

Given what is known of a group, it takes the action after which the judge's ranking fits the labels best, less
a price on effort, and stops where no action is worth its price: then nothing that is cheap enough can still
improve the ranking. Its traces are states, actions and, as weight, what stopping there would lose or save.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from gagar_core.grading.agentic_network import AgenticNetwork, Files
from gagar_core.grading.casefile import SLOTS, CaseFile

_RIGHT_WEIGHT = 0.5
"""Weight of the odds of being right beside the ranking."""
MOST_ACTIONS = 60
"""Longest trace."""
_CHUNK = 1024
"""Actions that are weighed in one pass."""
EFFORT = torch.tensor([slot.effort for slot in SLOTS])

Choose = Callable[[Files], torch.Tensor]
"""States -> action of each group, as numbered by ``AgenticNetwork.chosen``."""


@dataclass(frozen=True)
class Labels:
    """Labels of the rows of stacked case files, (G, R)."""

    quality: torch.Tensor
    right: torch.Tensor

    def part(self, groups: torch.Tensor) -> Labels:
        """These groups."""
        return Labels(self.quality[groups], self.right[groups])


def judge_loss(
    scores: torch.Tensor, odds: torch.Tensor, labels: Labels, copies: torch.Tensor
) -> torch.Tensor:
    """(G,) mean logistic loss over pairs of different quality, and half the cross-entropy of being right."""
    real, quality = copies > 0, labels.quality
    better = quality[:, :, None] - quality[:, None, :] > 1e-6
    better &= real[:, :, None] & real[:, None, :]
    margins = functional.softplus(scores[:, None, :] - scores[:, :, None]) * better
    pairs = margins.sum((1, 2)) / better.sum((1, 2)).clamp(min=1)
    wrong = functional.binary_cross_entropy_with_logits(odds, labels.right, reduction="none") * real
    return pairs + _RIGHT_WEIGHT * wrong.sum(1) / real.sum(1).clamp(min=1)


def reveals(files: Sequence[CaseFile]) -> torch.Tensor:
    """(G, R, S, R) bool: which rows an action on a row tells about; those of the same program share."""
    size = max(len(file.rows) for file in files)
    found = np.zeros((len(files), size, len(SLOTS), size), dtype=bool)
    for g, file in enumerate(files):
        for row in range(len(file.rows)):
            for slot, what in enumerate(SLOTS):
                found[g, row, slot, file.same[row] if what.of_program else [row]] = True
    return torch.from_numpy(found)


@dataclass(frozen=True)
class School:
    """Labelled groups of which everything is known, to practise on: G groups."""

    files: Files
    labels: Labels
    shown: torch.Tensor
    allowed: torch.Tensor
    price: float

    @torch.no_grad()
    def worths(self, network: AgenticNetwork, groups: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """(groups, R * S + 1) worth of every action in these states: minus loss after it, minus its price."""
        labels, files = self.labels.part(groups), self.files.part(groups, known)
        stop = -judge_loss(*network.judged(files), labels, files.copies)
        worths = torch.full(known.shape, -torch.inf)
        for some in torch.split(torch.nonzero(files.possible(self.allowed)), _CHUNK):
            state, row, slot = some.unbind(1)
            after = known[state]
            after[torch.arange(len(some)), :, slot] |= self.shown[groups[state], row, slot]
            seen = files.part(state, after)
            loss = judge_loss(*network.judged(seen), labels.part(state), seen.copies)
            worths[state, row, slot] = -loss - self.price * EFFORT[slot]
        return torch.cat([worths.flatten(1), stop.unsqueeze(1)], 1)

    def states(self, choose: Choose | None, network: AgenticNetwork) -> Traces:
        """Traces of a chooser, or of the expert itself, with the worths that the expert sees in them."""
        groups = torch.arange(self.files.values.shape[0])
        known = torch.zeros_like(self.files.known)
        found: list[Traces] = []
        for _ in range(MOST_ACTIONS):
            worths = self.worths(network, groups, known)
            found.append(Traces(groups, known, worths))
            state = self.files.part(groups, known)
            action = worths.argmax(1) if choose is None else choose(state)
            going = torch.nonzero(action < worths.shape[1] - 1).squeeze(1)
            if not len(going):
                break
            groups, action = groups[going], action[going]
            row, slot = action // len(SLOTS), action % len(SLOTS)
            known = known[going].clone()
            places = torch.arange(len(going))
            known[places, :, slot] |= self.shown[groups, row, slot]
        return joined(found)


@dataclass(frozen=True)
class Traces:
    """States that were met: (N,) group, (N, R, S) what was known, (N, R * S + 1) worth of every action."""

    groups: torch.Tensor
    known: torch.Tensor
    worths: torch.Tensor

    @property
    def actions(self) -> torch.Tensor:
        """(N,) what the expert does."""
        return self.worths.argmax(1)

    @property
    def stakes(self) -> torch.Tensor:
        """(N,) what is at stake between stopping and the best action, 1 on average."""
        gain = (self.worths[:, :-1].max(1).values - self.worths[:, -1]).abs()
        gain = torch.where(torch.isfinite(gain), gain, torch.zeros_like(gain))
        return gain / gain.mean().clamp(min=1e-9)


def joined(parts: Sequence[Traces]) -> Traces:
    """All states of several traces."""
    return Traces(
        torch.cat([part.groups for part in parts]),
        torch.cat([part.known for part in parts]),
        torch.cat([part.worths for part in parts]),
    )
