"""What all graders share: controlled error, budgets and the gold-set check, as fields of every choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gagar_core.errors import check_range, gather

if TYPE_CHECKING:
    from gagar_core.grading.labelled import LabelledGroup
    from gagar_core.protocols import Grader, Policy, Sandbox

Weights = Mapping[str, NDArray[Any]]
"""Parameters of a learned grader as plain arrays: nothing that is loaded can run code."""


@dataclass(kw_only=True)
class GraderSettings:
    """Fields of every grader."""

    swap_prob: float = 0.0
    """Controlled error: chance in [0, 1] that neighbours in the ranking change places; 0 = off."""
    bias_to_long: float = 0.0
    """Controlled error: score per standard deviation of length, in standard deviations of score; 0 = off."""
    error_from: int = 0
    """Training step from which the controlled error is in force, >= 0."""
    max_actions: int = 0
    """Tool actions per group, >= 0; a group that needs more keeps its base advantages; 0 = no limit."""
    max_tokens: int = 0
    """Tokens read and written per group, >= 0; as for actions; 0 = no limit."""
    gold_every: int = 0
    """Steps between gradings of the gold set, >= 0; 0 = off."""
    gold_groups: int = 24
    """Groups of the gold set at most, >= 1."""
    gold_drop: float = 0.15
    """Loss of tau-b or of top-1 against step 0, in (0, 1], from which the run is flagged."""

    gives: ClassVar[tuple[str, ...]] = ("ranks", "scores")
    learned: ClassVar[bool] = False
    """Whether it has to be trained before it can grade."""
    unit_scores: ClassVar[bool] = False
    """Whether its scores lie in [0, 1]; controlled error takes them out of it."""
    upper_bound: ClassVar[bool] = False
    """Whether it reads what no real grader could: it bounds the others and competes with none."""

    def __post_init__(self) -> None:
        gather(self.faults(), headline=f"invalid {type(self).__name__}")

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        return [
            *check_range("swap_prob", self.swap_prob, 0, 1),
            *check_range("bias_to_long", self.bias_to_long),
            *check_range("error_from", self.error_from, 0),
            *check_range("max_actions", self.max_actions, 0),
            *check_range("max_tokens", self.max_tokens, 0),
            *check_range("gold_every", self.gold_every, 0),
            *check_range("gold_groups", self.gold_groups, 1),
            *check_range("gold_drop", self.gold_drop, 0, 1, open_low=True),
        ]

    def build(self, weights: Weights | None = None, policy: Policy | None = None) -> Grader:
        """The grader itself; rules are their own settings."""
        grader: Any = self
        return grader  # type: ignore[no-any-return]


@dataclass(kw_only=True)
class LearnedSettings(GraderSettings):
    """Fields of graders that are trained on labelled groups before the run."""

    gold_every: int = 20
    """Steps between gradings of the gold set, >= 0; 0 = off."""
    trained_on: str = ""
    """Suite whose groups it learns from; "" = the run's own. Another one makes a transfer study."""
    trained_with: str = ""
    """Policy whose groups it learns from; "" = the run's own."""
    snapshot: str = ""
    """Folder of a grader trained before, used as it is; "" = train one."""
    data_steps: int = 20
    """RL steps of the base algorithm whose groups it learns from, beside those of the SFT policy, >= 0."""
    train_groups: int = 0
    """Labelled groups to learn from, >= 1; 0 = all."""
    label_noise: float = 0.0
    """Standard deviation of noise on the quality labels, >= 0 (label tests count 2 in all)."""
    fit_epochs: int = 12
    """Passes over the labelled groups, >= 1."""
    fit_lr: float = 3e-3
    """Learning rate of the fit, > 0."""
    recalibrate_every: int = 0
    """Steps between refits on fresh groups of the current policy, >= 0; 0 = never: snapshots stay frozen."""
    recalibrate_groups: int = 24
    """Fresh groups per refit, >= 1; sampled for it alone, and counted as its cost."""

    learned: ClassVar[bool] = True
    fitting: ClassVar[tuple[str, ...]] = (
        "trained_on", "trained_with", "data_steps", "train_groups", "label_noise", "fit_epochs", "fit_lr",
    )  # fmt: skip
    """Fields that decide what is learned; runs that agree on them share one snapshot."""

    def faults(self) -> list[str]:
        """One sentence per setting that cannot be meant."""
        return [
            *super().faults(),
            *check_range("data_steps", self.data_steps, 0),
            *check_range("train_groups", self.train_groups, 0),
            *check_range("label_noise", self.label_noise, 0),
            *check_range("fit_epochs", self.fit_epochs, 1),
            *check_range("fit_lr", self.fit_lr, 0, open_low=True),
            *check_range("recalibrate_every", self.recalibrate_every, 0),
            *check_range("recalibrate_groups", self.recalibrate_groups, 1),
        ]

    def fit(
        self,
        data: Sequence[LabelledGroup],
        sandbox: Sandbox,
        rng: np.random.Generator,
        start: Weights | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Parameters learned from labelled groups, beginning at ``start`` if given."""
        raise NotImplementedError
