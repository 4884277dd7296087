"""Base advantages: rewards of a group of rollouts to one number per rollout.

Shared rules. A group whose rewards are all equal (compared exactly, not by a standard deviation) gets exact
zeros from every centred estimator. A group with one valid row follows ``singleton``; rewards that are not
finite follow ``nonfinite``, which :func:`gagar_core.advantages.compute_advantages` applies before the
estimator is called. Choices named after a library carry that library's defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gagar_core.advantages.groups import group_any, group_last, group_size, group_sum
from gagar_core.errors import InputError, check_choice, check_range, gather
from gagar_core.protocols import Bools, Floats, Ints

SINGLETON = ("zero", "raw", "error")
NONFINITE = ("exclude", "error", "as_fail")


@dataclass(kw_only=True)
class GroupEstimator:
    """Settings that every estimator shares."""

    singleton: str = "zero"
    """Group with one valid row: zero | raw (as if the baseline were 0 and the deviation 1) | error."""
    nonfinite: str = "exclude"
    """NaN or infinite reward: exclude (row gets 0, counts nowhere) | error | as_fail (reward 0, failing)."""

    def __post_init__(self) -> None:
        gather(self._faults(), headline=f"invalid {type(self).__name__} settings")

    def _faults(self) -> list[str]:
        return check_choice("singleton", self.singleton, SINGLETON) + check_choice(
            "nonfinite", self.nonfinite, NONFINITE
        )

    def _singletons(self, result: Floats, raw: Floats, codes: Ints, size: Ints) -> Floats:
        """Put ``raw`` where a group has one row if asked to; the centred value there is already 0."""
        if self.singleton == "zero":
            return result
        alone = size[codes] == 1
        if self.singleton == "error" and alone.any():
            msg = f"group {codes[alone][0]} has a single valid row, and singleton=error"
            raise InputError(msg)
        return np.where(alone, raw, result)


@dataclass(frozen=True, slots=True)
class Centred:
    """Centred rewards (N,), valid rows of each group (G,), and whether a group's rewards differ (G,)."""

    values: Floats
    size: Ints
    mixed: Bools


def centre(rewards: Floats, codes: Ints, num_groups: int) -> Centred:
    """Rewards minus their group mean, exactly 0 in groups of equal rewards.

    Groups that hold anything but 0 and 1 are shifted by one of their own rewards first: the mean of the
    differences is then as exact as the spread allows, however far from 0 the rewards lie.
    """
    last = group_last(rewards, codes, num_groups)
    mixed = group_any(rewards != last.take(codes), codes, num_groups)
    size = group_size(codes, num_groups)
    unusual = (rewards != 0.0) & (rewards != 1.0)
    shifted = rewards
    if unusual.any():
        last[~group_any(unusual, codes, num_groups)] = 0.0
        shifted = rewards - last.take(codes)
    mean = group_sum(shifted, codes, num_groups) / np.maximum(size, 1)
    values = shifted - mean.take(codes)
    if not mixed.all():
        values[np.flatnonzero(~mixed.take(codes))] = 0.0
    return Centred(values, size, mixed)


def deviation(centred: Centred, codes: Ints, ddof: int) -> Floats:
    """Standard deviation of each group (G,) with divisor n - ddof, from centred values."""
    squares = group_sum(centred.values * centred.values, codes, len(centred.size))
    return np.sqrt(squares / np.maximum(centred.size - ddof, 1))


@dataclass(kw_only=True)
class DrGrpo(GroupEstimator):
    """``A_i = r_i - mean(r)``: centred, not divided by a deviation (Dr. GRPO, arXiv 2503.20783).

    The base of the paper's method. r = [1, 1, 1, 0] gives [.25, .25, .25, -.75].
    """

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,)."""
        centred = centre(rewards, codes, num_groups)
        return self._singletons(centred.values, rewards, codes, centred.size)


@dataclass(kw_only=True)
class Grpo(GroupEstimator):
    """``A_i = (r_i - mean(r)) / (std(r) + eps)`` (GRPO, arXiv 2402.03300).

    The deviation comes from the centred values in float64 (two passes). r = [1, 1, 0, 0] gives ±.866023904.
    """

    normalize: bool = True
    """Divide by the group's standard deviation; off = centred only."""
    ddof: int = 1
    """Divisor of the variance is n - ddof: 1 sample, 0 population."""
    eps: float = 1e-6
    """Added to the standard deviation, reward units, >= 0."""

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("ddof", self.ddof, 0, 1), *check_range("eps", self.eps, 0)]

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,)."""
        centred = centre(rewards, codes, num_groups)
        if not self.normalize:
            return self._singletons(centred.values, rewards, codes, centred.size)
        scale = deviation(centred, codes, self.ddof) + self.eps
        scale[~centred.mixed] = 1.0
        return self._singletons(
            centred.values / scale.take(codes), rewards / (1.0 + self.eps), codes, centred.size
        )


@dataclass(kw_only=True)
class Rloo(GroupEstimator):
    """``A_i = r_i - mean of the others = n / (n - 1) * (r_i - mean(r))`` (RLOO, arXiv 2402.14740)."""

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,)."""
        centred = centre(rewards, codes, num_groups)
        factor = centred.size / np.maximum(centred.size - 1, 1)
        return self._singletons(centred.values * factor.take(codes), rewards, codes, centred.size)


# What libraries do, as named choices. Their float32 dust is not reproduced: equal rewards give exact zeros.


@dataclass(kw_only=True)
class GrpoTrl(Grpo):
    """TRL 1.16 ``scale_rewards="group"``: sample deviation + 1e-4; a lone scorable row gets 0."""

    eps: float = 1e-4
    """Added to the standard deviation, reward units, >= 0."""


@dataclass(kw_only=True)
class DrGrpoTrl(DrGrpo):
    """TRL 1.16 ``scale_rewards="none"``: centred only; a lone scorable row gets 0."""


@dataclass(kw_only=True)
class RlooTrl(Rloo):
    """TRL 1.16 ``RLOOTrainer``: rewards that are None are left out; a lone scorable row gets 0."""


@dataclass(kw_only=True)
class GrpoVerl(Grpo):
    """verl 0.9.1 ``grpo``: sample deviation + 1e-6, a lone row keeps its raw reward."""

    singleton: str = "raw"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error (verl turns the whole group into NaN) | as_fail."""


@dataclass(kw_only=True)
class DrGrpoVerl(DrGrpo):
    """verl 0.9.1 ``grpo`` with ``norm_adv_by_std_in_grpo=False``: a lone row keeps its raw reward."""

    singleton: str = "raw"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error (verl turns the whole group into NaN) | as_fail."""


@dataclass(kw_only=True)
class RlooVerl(Rloo):
    """verl 0.9.1 ``rloo``: a lone row keeps its raw reward (``rloo_vectorized`` gives it 0)."""

    singleton: str = "raw"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error (verl turns the whole group into NaN) | as_fail."""


@dataclass(kw_only=True)
class GrpoOpenrlhf(Grpo):
    """OpenRLHF 0.11 ``group_norm``: sample deviation + 1e-9, groups of one refused."""

    singleton: str = "error"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error | as_fail."""
    eps: float = 1e-9
    """Added to the standard deviation, reward units, >= 0."""


@dataclass(kw_only=True)
class RlooOpenrlhf(Rloo):
    """OpenRLHF 0.11 ``rloo``: groups of one refused."""

    singleton: str = "error"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error | as_fail."""


@dataclass(kw_only=True)
class DrGrpoOpenrlhf(DrGrpo):
    """OpenRLHF 0.11 ``dr_grpo``: centred only, groups of one refused."""

    singleton: str = "error"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error | as_fail."""
