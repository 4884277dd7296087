"""Graders that act: they choose what to look at in a group's shared workspace, then judge what they saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gagar_core.errors import check_choice, check_range
from gagar_core.grading.casefile import FUZZ_FEW, SLOTS, CaseFile
from gagar_core.grading.fuzzing import MAX_INPUTS
from gagar_core.grading.ranking import ranking_from_scores
from gagar_core.grading.settings import LearnedSettings, Weights
from gagar_core.grading.tools import TOOLS, ToolBox, answer_together
from gagar_core.seeds import stream
from gagar_core.types import Group, Ranking

if TYPE_CHECKING:
    from gagar_core.grading.agentic_network import AgenticNetwork
    from gagar_core.grading.labelled import LabelledGroup
    from gagar_core.protocols import Grader, Policy, Sandbox, Workspace

TIERS = (0.75, 0.25)
"""Tier 1: right with this probability or more; tier 2: with the second or more; tier 3: less."""
_DECIMALS = 4
_LONGEST_EVIDENCE = 600
_NO_LIMIT = 1_000_000


@dataclass(kw_only=True)
class AgenticS(LearnedSettings):
    """Chooses tools on the passing candidates of a group, 16 hidden units, then ranks what it saw.

    Actions run in the sandbox. ``chooser=learned`` was trained on traces of an expert; ``chooser=all`` asks
    every tool about every candidate. At this size the former learns to look at nearly everything: at 13.9 of
    14.5 actions a group on ``weak_tests`` (``sweeps/results/grader_accuracy``).
    """

    view: str = "joint"
    """joint or pointwise: whether a candidate is compared with the others of its group."""
    context: str = "passing_only"
    """passing_only or all: whether number and length of the failing trajectories are known as well."""
    tools: list[str] = field(default_factory=lambda: ["trace", "measure", "fuzz"])
    """Tools that it may use: trace, read, measure, diff, run_public, fuzz."""
    fuzz_inputs: int = 12
    """Generated inputs of a fuzz action, 1 to 24; a first look takes a quarter of them."""
    max_actions: int = 60
    """Tool actions per group, after which it has to judge, >= 0; 0 = no limit."""
    chooser: str = "learned"
    """learned or all: chosen step by step, or everything, which was as right and cheaper when tried."""
    effort_price: float = 0.01
    """Loss (nats per pair) that the expert pays for an effort of about 0.1 ms CPU, >= 0."""
    dagger_rounds: int = 1
    """Further rounds in which the chooser is corrected in states that it came into itself, >= 0."""
    hidden: int = 16
    """Hidden units, >= 2."""
    fit_epochs: int = 60
    """Passes over the labelled groups for the judge, and a quarter of it over the traces, >= 1."""
    fit_lr: float = 5e-3
    """Learning rate of the fit, > 0."""

    gives: ClassVar[tuple[str, ...]] = ("ranks", "scores", "tiers")
    fitting: ClassVar[tuple[str, ...]] = (
        *LearnedSettings.fitting, "view", "context", "tools", "fuzz_inputs", "chooser", "effort_price",
        "dagger_rounds", "hidden",
    )  # fmt: skip

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        known = [name for name in TOOLS if name != "stop"]
        faults = [
            *super().faults(),
            *check_choice("view", self.view, ("joint", "pointwise")),
            *check_choice("context", self.context, ("passing_only", "all")),
            *(fault for name in self.tools for fault in check_choice("tools", name, known)),
            *check_range("fuzz_inputs", self.fuzz_inputs, 1, MAX_INPUTS),
            *check_choice("chooser", self.chooser, ("learned", "all")),
            *check_range("effort_price", self.effort_price, 0),
            *check_range("dagger_rounds", self.dagger_rounds, 0),
            *check_range("hidden", self.hidden, 2),
        ]
        return faults if self.tools else [*faults, f"tools must name some of {', '.join(known)}; got none"]

    def build(self, weights: Weights | None = None, policy: Policy | None = None) -> Grader:
        """The grader with these parameters; raises ``ValueError`` for those of another network."""
        from gagar_core.grading.network import load_arrays

        if weights is None:
            msg = "it has to be trained first: python -m experiments train_grader"
            raise ValueError(msg)
        network = self._network(np.random.default_rng(0))
        load_arrays(network, weights)
        return AgenticGrader(network, self)

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
        """Learn to judge from the labels, and what to look at from an expert that knows them."""
        import torch

        from gagar_core.grading.agentic_fit import fit_agentic
        from gagar_core.grading.network import arrays_of, load_arrays

        network = self._network(rng)
        if start is not None:
            load_arrays(network, start)
        data = [data[int(i)] for i in rng.permutation(len(data))[: self.train_groups or None]]
        files = [self.case_file(one.group, sandbox, _NO_LIMIT) for one in data]
        self.look_at_everything(files, sandbox, few=True)
        sandbox.end_step()
        fit_agentic(
            network, files, data, torch.tensor(self.slots()), epochs=self.fit_epochs, lr=self.fit_lr,
            noise=self.label_noise, price=self.effort_price,
            rounds=self.dagger_rounds if self.chooser == "learned" else None, rng=rng,
        )  # fmt: skip
        return arrays_of(network)

    def case_file(self, group: Group, sandbox: Sandbox, max_actions: int) -> CaseFile:
        """Nothing known yet. Generated inputs follow from the task alone: what ran once is remembered."""
        rng = stream(0, "fuzz", group.task.id)
        box = ToolBox(group, sandbox, rng, max_actions=max_actions, allowed=self.tools)
        return CaseFile(box, self.fuzz_inputs, self.context)

    def slots(self) -> list[bool]:
        """Which slots may be filled; with few inputs a first look at a quarter of them would be pointless."""
        few = self.fuzz_inputs >= 4
        return [slot.tool in self.tools and (few or k != FUZZ_FEW) for k, slot in enumerate(SLOTS)]

    def look_at_everything(self, files: Sequence[CaseFile], sandbox: Sandbox, few: bool) -> None:
        """Every allowed slot of every row, as far as the budget goes; ``few``: first looks too."""
        if "fuzz" in self.tools:
            answer_together([file.box for file in files], sandbox, self.fuzz_inputs)
        for slot, allowed in enumerate(self.slots()):
            for file in files if allowed and (few or slot != FUZZ_FEW) else ():
                for row in range(len(file.rows)):
                    if not file.known[row, slot] and file.box.actions_left:
                        file.act(row, slot)

    def _network(self, rng: np.random.Generator) -> AgenticNetwork:
        import torch

        from gagar_core.grading.agentic_network import AgenticNetwork

        state = torch.get_rng_state()
        try:
            torch.manual_seed(int(rng.integers(2**31)))
            return AgenticNetwork(self.hidden, self.view)
        finally:
            torch.set_rng_state(state)


@dataclass(kw_only=True)
class AgenticL(AgenticS):
    """The same with 64 hidden units."""

    hidden: int = 64
    """Hidden units, >= 2."""


class AgenticGrader:
    """A trained grader at work; the groups of a step go on in lockstep, one action of each at a time."""

    gives: ClassVar[tuple[str, ...]] = AgenticS.gives

    def __init__(self, network: AgenticNetwork, settings: AgenticS) -> None:
        self._network = network
        self._settings = settings

    def grade(self, group: Group, workspace: Workspace) -> Ranking:
        """Rank one group."""
        return self.grade_many([group], [workspace])[0]

    def grade_many(self, groups: Sequence[Group], workspaces: Sequence[Any]) -> list[Ranking]:
        """Rank the groups of a step."""
        settings = self._settings
        sandbox = workspaces[0].sandbox
        budget = settings.max_actions or _NO_LIMIT
        files = [settings.case_file(group, sandbox, budget) for group in groups]
        if settings.chooser == "all":
            settings.look_at_everything(files, sandbox, few=False)
        else:
            self._look(files, sandbox)
        for file, workspace in zip(files, workspaces, strict=True):
            workspace.act(len(file.box.observations))
            workspace.read(file.box.tokens)
        return self._rankings(groups, files)

    def _look(self, files: Sequence[CaseFile], sandbox: Sandbox) -> None:
        """Act in rounds until every group has stopped; what is fuzzed in a round runs in one batch."""
        allowed = self._settings.slots()
        busy = [file for file in files if len(file.rows) > 1]
        while busy := [file for file in busy if file.box.actions_left]:
            chosen = [
                (file, act)
                for file, acts in zip(busy, self._chosen(busy, allowed), strict=True)
                for act in acts
            ]
            for inputs in sorted({file.inputs(slot) for file, (_, slot) in chosen} - {0}):
                fuzzed = {id(f): f.box for f, (_, slot) in chosen if f.inputs(slot) == inputs}
                answer_together(list(fuzzed.values()), sandbox, inputs)
            for file, (row, slot) in chosen:
                if file.box.actions_left and not file.known[row, slot]:
                    file.act(row, slot)
            busy = list({id(file): file for file, _ in chosen}.values())

    def _chosen(self, files: Sequence[CaseFile], allowed: Sequence[bool]) -> list[list[tuple[int, int]]]:
        """Per group (row, slot) of the best action on each row that is better than stopping, best first.

        Nothing at all where stopping is best. One action per round would follow the traces more closely; it
        was no more accurate and took twice the time.
        """
        import torch

        from gagar_core.grading.agentic_network import stacked

        with torch.no_grad():
            preferred = self._network.chosen(stacked(files), torch.tensor(allowed))
        found = []
        for row in preferred.double().numpy():
            table, stop = row[:-1].reshape(-1, len(SLOTS)), row[-1]
            slots, best = table.argmax(1), table.max(1)
            order = sorted(np.flatnonzero(best > stop), key=lambda k: (-best[k], k))
            found.append([(int(k), int(slots[k])) for k in order])
        return found

    def _rankings(self, groups: Sequence[Group], files: Sequence[CaseFile]) -> list[Ranking]:
        import torch

        from gagar_core.grading.agentic_network import stacked

        with torch.no_grad():
            scores, odds = self._network.judged(stacked(files))
        rounded = np.round(scores.double().numpy(), _DECIMALS)
        chances = np.round(torch.sigmoid(odds.double()).numpy(), _DECIMALS)
        return [
            _ranking(group, file, rounded[g].tolist(), chances[g].tolist())
            for g, (group, file) in enumerate(zip(groups, files, strict=True))
        ]


def _ranking(group: Group, file: CaseFile, scores: Sequence[float], chances: Sequence[float]) -> Ranking:
    """The rows' judgement, given to each of their candidates."""
    size = len(group.trajectories)
    score, tier, evidence = [float("nan")] * size, [float("nan")] * size, [""] * size
    for j, row in enumerate(file.rows):
        words = "; ".join([f"right with probability {chances[j]:.2f}", *file.evidence[j]])
        for candidate in row:
            score[candidate] = scores[j]
            tier[candidate] = float(1 + sum(chances[j] < bound for bound in TIERS))
            evidence[candidate] = words[:_LONGEST_EVIDENCE]
    return replace(ranking_from_scores(group, score), tiers=tuple(tier), evidence=tuple(evidence))
