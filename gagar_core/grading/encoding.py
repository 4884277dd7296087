"""Groups as arrays for networks that read tokens: the candidates of many groups in one batch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gagar_core.agent.codec import SPEC_LENGTH, Codec
from gagar_core.types import Group

if TYPE_CHECKING:
    import torch


@cache
def codec() -> Codec:
    """The codec of the embedded policies, whose tokens are read."""
    return Codec()


@dataclass(frozen=True)
class Candidates:
    """Candidates of several groups, rows group by group: C rows, T tokens in all, G groups.

    Tokens of all rows lie one after the other, a padding between rows, so that nothing is spent on padding
    rows to one length and no window of three tokens reaches into another row.
    """

    tokens: torch.Tensor
    """(T,) token ids."""
    row_of: torch.Tensor
    """(T,) row that a token belongs to; C for paddings."""
    group_of: torch.Tensor
    """(C,) group of a row, from 0 to G - 1."""
    specs: torch.Tensor
    """(C, SPEC_LENGTH) words of the task."""
    judged: torch.Tensor
    """(C,) True for the passing rows, which get a score; the others are context."""
    num_groups: int

    @property
    def num_rows(self) -> int:
        """C."""
        return int(self.group_of.shape[0])


def encode(groups: Sequence[Group], context: str) -> Candidates:
    """Candidates of the groups; ``context`` = ``all`` adds the valid failing trajectories as context."""
    import torch

    rows: list[tuple[int, int]] = []
    for g, group in enumerate(groups):
        rows += [
            (g, i) for i, t in enumerate(group.trajectories) if t.valid and (t.passed or context == "all")
        ]
    pad = codec().pad
    pieces: list[Sequence[int]] = [(pad,)]
    lengths = [1]
    for g, i in rows:
        segments = groups[g].trajectories[i].segments
        pieces += [part.token_ids for part in segments]
        pieces.append((pad,))
        lengths.append(sum(len(part.token_ids) for part in segments) + 1)
    tokens = np.fromiter(itertools.chain.from_iterable(pieces), dtype=np.int64)
    owner = np.repeat(np.arange(-1, len(rows)), lengths)
    owner[tokens == pad] = len(rows)
    specs = [codec().encode_spec(group.task.spec) for group in groups]
    codes = np.array([g for g, _ in rows], dtype=np.int64)
    chosen = np.array(specs, dtype=np.int64).reshape(len(groups), SPEC_LENGTH)[codes]
    passed = np.array([groups[g].trajectories[i].passed for g, i in rows], dtype=bool)
    as_tensor: Any = torch.from_numpy
    return Candidates(
        as_tensor(tokens),
        as_tensor(owner),
        as_tensor(codes),
        as_tensor(chosen),
        as_tensor(passed),
        len(groups),
    )
