"""A grader in a run: grades the groups of a step, is checked on the gold set, and may be fitted again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gagar_core.errors import GagarError
from gagar_core.grading.gold import GoldCheck, GoldSet
from gagar_core.grading.grade import grade_groups
from gagar_core.grading.labelled import LabelledGroup, label_groups
from gagar_core.grading.ranking import abstaining, words_of
from gagar_core.grading.settings import GraderSettings, LearnedSettings
from gagar_core.protocols import Grader, Policy, Sandbox
from gagar_core.seeds import stream
from gagar_core.types import Group, Ranking

FreshGroups = Callable[[int, int], Sequence[Group]]
"""(step, count) -> groups of the current policy, sampled for nothing but a refit."""


@dataclass(frozen=True)
class Unusable:
    """Stands in for a grader whose snapshot cannot be used: abstains on every group, and says why."""

    reason: str
    gives: tuple[str, ...] = ()

    def grade(self, group: Group, workspace: Any) -> Ranking:
        """Abstain with the reason."""
        return abstaining(group, self.reason)


@dataclass
class LiveGrader:
    """The grader of a run with its gold set. ``weights`` is None for rules."""

    settings: Any
    seed: int
    weights: dict[str, NDArray[Any]] | None = None
    policy: Policy | None = None
    gold: Sequence[LabelledGroup] = ()
    training: Sequence[LabelledGroup] = ()
    fresh: FreshGroups | None = None
    reason: str = ""
    """Why the snapshot cannot be used, if so."""
    flags: list[str] = field(default_factory=list)
    """What a reader of the run must know: agreement lost on the gold set, a grader that cannot be used or
    could not be fitted again."""

    def __post_init__(self) -> None:
        self._shared = self.settings if isinstance(self.settings, GraderSettings) else GraderSettings()
        kept = list(self.gold)[: self._shared.gold_groups]
        self.gold_set = GoldSet(kept, self._shared)
        self._grader = self._built()

    def grade(self, groups: Sequence[Group], sandbox: Sandbox, step: int) -> list[Ranking]:
        """One usable ranking per group, or one that abstains."""
        return grade_groups(
            groups, self._grader, sandbox, settings=self._shared, step=step, streams=self._streams(step)
        )

    def check(self, sandbox: Sandbox, step: int) -> GoldCheck | None:
        """Grade the gold set if that is due; what it finds lost is added to ``flags``."""
        if not self.gold_set.due(step):
            return None
        found = self.gold_set.check(self._grader, sandbox, step, self._streams("gold"))
        if found.flag:
            self._flag(f"step {step}: {found.flag}")
        return found

    def recalibrate(self, sandbox: Sandbox, step: int) -> bool:
        """Fit again on fresh groups of the current policy if that is due; returns whether it was.

        The fit begins at the present parameters and sees the old labelled groups as well, so that it does not
        forget them. Where it cannot be made (no group to learn from) the parameters stay, and a flag says so.
        """
        settings = self.settings
        every = getattr(settings, "recalibrate_every", 0)
        if not every or step == 0 or step % every or self.fresh is None or self.weights is None:
            return False
        if isinstance(self._grader, Unusable):
            return False
        assert isinstance(settings, LearnedSettings)
        groups = self.fresh(step, settings.recalibrate_groups)
        data = [*self.training, *label_groups(groups, sandbox, f"step {step}")]
        rng = stream(self.seed, "recalibrate", step)
        try:
            self.weights = settings.fit(data, sandbox, rng, start=self.weights)
        except (ValueError, GagarError) as err:
            self._flag(f"step {step}: not fitted again: {words_of(err)}")
            return False
        self._grader = self._built()
        return True

    @property
    def changes(self) -> bool:
        """Whether its parameters change in the run, and so belong into checkpoints."""
        return bool(getattr(self.settings, "recalibrate_every", 0))

    @property
    def state(self) -> dict[str, Any]:
        """What the next step depends on beside the parameters, as plain data."""
        return {"first": self.gold_set.first, "flags": list(self.flags)}

    def restore(self, state: dict[str, Any], weights: dict[str, NDArray[Any]] | None) -> None:
        """Take back what ``state`` and ``weights`` gave."""
        self.gold_set = replace(self.gold_set, first=state["first"])
        self.flags = list(state["flags"])
        if weights is not None:
            self.weights = weights
            self._grader = self._built()

    def _built(self) -> Grader:
        reason = self.reason
        if not reason:
            try:
                built: Grader = self.settings.build(self.weights, self.policy)
            except (ValueError, GagarError) as err:
                reason = words_of(err)
            else:
                return built
        self._flag(f"abstains on every group: {reason}")
        return Unusable(reason)  # type: ignore[return-value]

    def _flag(self, words: str) -> None:
        """Add a flag; a run that goes on from a checkpoint knows it already."""
        if words not in self.flags:
            self.flags.append(words)

    def _streams(self, step: int | str) -> Callable[[int], np.random.Generator]:
        return lambda group: stream(self.seed, "grader", step, group)
