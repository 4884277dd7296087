"""Sampling policies that keep other groups than the mixed ones: anchors, and a window of pass rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gagar_core.errors import check_range, gather
from gagar_core.sampling.outcome import BudgetSampling, outcome
from gagar_core.types import Group


@dataclass(kw_only=True)
class Anchors(BudgetSampling):
    """Mixed groups, and a share of those without contrast.

    The rows of the latter have advantage 0 under any group baseline, which a normalising optimiser hardly
    notices. They act where something else reads them: a KL term (``loss.kl_coef``), an entropy bonus
    (``trainer.entropy_coef``), a baseline over the batch (``estimator=reinforce estimator.baseline=batch``),
    or grades of all-pass groups (``redistribution.all_pass=leave_one_out`` with a grader). A step in which
    every advantage is 0 updates nothing all the same. Shares are rounded to whole groups, a half to the even
    number: 0.25 keeps none of two groups, one of four.
    """

    all_pass_share: float = 0.25
    """Share of a step's all-pass groups that is kept, in [0, 1]; 0 = none."""
    all_fail_share: float = 0.25
    """Share of a step's all-fail groups that is kept, in [0, 1]; 0 = none."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("all_pass_share", self.all_pass_share, 0, 1),
                *check_range("all_fail_share", self.all_fail_share, 0, 1),
            ],
            headline="invalid anchors",
        )

    def select(self, groups: Sequence[Group], wanted: int) -> list[str]:
        """Per group "" to keep it, or the reason why it is dropped; earlier groups are kept first."""
        outcomes = [outcome(group) for group in groups]
        counts = Counter(outcomes)
        left = {
            "all_pass": round(self.all_pass_share * counts["all_pass"]),
            "all_fail": round(self.all_fail_share * counts["all_fail"]),
        }
        reasons = []
        for result in outcomes:
            kept = result == "mixed" or left.get(result, 0) > 0
            reasons.append("" if kept else result)
            if result in left:
                left[result] -= 1
        return reasons


@dataclass(kw_only=True)
class Band(BudgetSampling):
    """Train on groups whose pass rate lies in a window: neither mastered nor out of reach."""

    low: float = 0.2
    """Smallest pass rate, in [0, 1]; 0 keeps all-fail groups as well."""
    high: float = 0.8
    """Largest pass rate, in [low, 1]; 1 keeps all-pass groups as well."""

    def __post_init__(self) -> None:
        faults = [*check_range("low", self.low, 0, 1), *check_range("high", self.high, 0, 1)]
        if not faults:
            faults = check_range("high", self.high, self.low, 1)
        gather(faults, headline="invalid band")

    def check(self, group_size: int) -> list[str]:
        """A fault if no pass rate of a group lies in the window."""
        rates = [passing / group_size for passing in range(group_size + 1)]
        if any(self.low <= rate <= self.high for rate in rates):
            return []
        shown = ", ".join(f"{rate:.3g}" for rate in rates)
        return [
            f"sampling=band can keep no group: groups of {group_size} have the pass rates {shown}, none of "
            f"them in [{self.low:g}, {self.high:g}]; widen sampling.low and sampling.high or set a "
            "larger budget.group_size"
        ]

    def select(self, groups: Sequence[Group], wanted: int) -> list[str]:
        """Per group "" to keep it, or the reason why it is dropped."""
        return [self._reason(group.num_valid, group.num_passing) for group in groups]

    def _reason(self, valid: int, passing: int) -> str:
        if valid < 2:
            return "too_few_valid"
        rate = passing / valid
        if self.low <= rate <= self.high:
            return ""
        if passing in (0, valid):
            return "all_pass" if passing else "all_fail"
        return "too_easy" if rate > self.high else "too_hard"
