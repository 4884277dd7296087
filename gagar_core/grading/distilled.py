"""Graders distilled into networks that read tokens: four sizes, three views, failing context or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gagar_core.errors import check_choice, check_range
from gagar_core.grading.ranking import ranking_from_scores
from gagar_core.grading.settings import LearnedSettings, Weights
from gagar_core.grading.workspace import read_tokens
from gagar_core.types import Group, Ranking

if TYPE_CHECKING:
    from gagar_core.grading.labelled import LabelledGroup
    from gagar_core.grading.network import CandidateNetwork
    from gagar_core.protocols import Grader, Policy, Sandbox, Workspace

TEACHERS = ("agentic_s", "agentic_l")
"""Graders that a network may learn from; one that reads the label tests is no teacher."""
_DECIMALS = 4
"""Scores are rounded so that equal candidates tie wherever they stand in a batch."""


@dataclass(kw_only=True)
class DistilledS(LearnedSettings):
    """A network of about 10k parameters that reads the tokens of all passing candidates."""

    view: str = "joint"
    """joint, pairwise or pointwise: compares all candidates together, two at a time, or scores each alone."""
    context: str = "passing_only"
    """passing_only or all: whether failing trajectories are read as well, as context (view=joint only)."""
    width: int = 16
    """Size of token vectors, >= 2; everything else grows with it."""
    teacher: str = ""
    """Grader whose rankings are learned: agentic_s or agentic_l; "" = the labels themselves."""

    fitting: ClassVar[tuple[str, ...]] = (*LearnedSettings.fitting, "view", "context", "width", "teacher")

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        faults = [
            *super().faults(),
            *check_choice("view", self.view, ("joint", "pairwise", "pointwise")),
            *check_choice("context", self.context, ("passing_only", "all")),
            *check_range("width", self.width, 2),
        ]
        if self.teacher:
            faults += check_choice("teacher", self.teacher, TEACHERS)
        if self.teacher and self.recalibrate_every:
            faults.append(
                "recalibrate_every refits on labels, which a student of a teacher never sees; set 0"
            )
        if self.context == "all" and self.view != "joint":
            faults.append(f"context=all is read by view=joint only; got view={self.view}")
        return faults

    def build(self, weights: Weights | None = None, policy: Policy | None = None) -> Grader:
        """The grader with these parameters; raises ``ValueError`` for those of another network."""
        from gagar_core.grading.network import load_arrays

        if weights is None:
            msg = "it has to be trained first: python -m experiments train_grader"
            raise ValueError(msg)
        network = self._network(np.random.default_rng(0))
        load_arrays(network, weights)
        network.eval()
        return DistilledGrader(network, self.context)

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Settings alone cannot grade: parameters are needed."""
        return self.build().grade(group, workspace)

    def fit(
        self,
        data: Sequence[LabelledGroup],
        sandbox: Sandbox,
        rng: np.random.Generator,
        start: Weights | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Listwise SFT on the labelled orders; ties and noisy labels are ordered anew in every epoch."""
        from gagar_core.grading.fit import fit_listwise
        from gagar_core.grading.network import arrays_of, load_arrays

        network = self._network(rng)
        if start is not None:
            load_arrays(network, start)
        data = [data[int(i)] for i in rng.permutation(len(data))[: self.train_groups or None]]
        fit_listwise(
            network,
            data,
            self.context,
            epochs=self.fit_epochs,
            lr=self.fit_lr,
            noise=self.label_noise,
            rng=rng,
        )
        return arrays_of(network)

    def _network(self, rng: np.random.Generator) -> CandidateNetwork:
        import torch

        from gagar_core.grading.network import CandidateNetwork

        state = torch.get_rng_state()
        try:
            torch.manual_seed(int(rng.integers(2**31)))
            return CandidateNetwork(self.width, self.view)
        finally:
            torch.set_rng_state(state)


@dataclass(kw_only=True)
class DistilledXs(DistilledS):
    """The same with about 3k parameters."""

    width: int = 6
    """Size of token vectors, >= 2; everything else grows with it."""


@dataclass(kw_only=True)
class DistilledM(DistilledS):
    """The same with about 50k parameters."""

    width: int = 44
    """Size of token vectors, >= 2; everything else grows with it."""


@dataclass(kw_only=True)
class DistilledL(DistilledS):
    """The same with about 200k parameters."""

    width: int = 96
    """Size of token vectors, >= 2; everything else grows with it."""


class DistilledGrader:
    """A trained network at work."""

    gives: ClassVar[tuple[str, ...]] = ("ranks", "scores")

    def __init__(self, network: CandidateNetwork, context: str) -> None:
        self._network = network
        self._context = context

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Rank one group."""
        return self.grade_many([group], [workspace])[0]

    def grade_many(self, groups: Sequence[Group], workspaces: Sequence[Any]) -> list[Ranking]:
        """Rank the groups of a step in one forward pass."""
        import torch

        from gagar_core.grading.encoding import encode

        for group, workspace in zip(groups, workspaces, strict=True):
            seen = [
                i
                for i, t in enumerate(group.trajectories)
                if t.valid and (t.passed or self._context == "all")
            ]
            workspace.read(read_tokens(group, seen))
        batch = encode(groups, self._context)
        if not batch.num_rows:
            return [ranking_from_scores(group, [0.0] * len(group.trajectories)) for group in groups]
        with torch.no_grad():
            scores = np.round(self._network(batch).double().numpy()[batch.judged.numpy()], _DECIMALS)
        rankings, at = [], 0
        for group in groups:
            own = dict(zip(group.passing, scores[at : at + len(group.passing)].tolist(), strict=True))
            at += len(own)
            values = [own.get(i, float("nan")) for i in range(len(group.trajectories))]
            rankings.append(ranking_from_scores(group, values))
        return rankings
