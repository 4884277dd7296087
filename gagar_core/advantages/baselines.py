"""Base advantages beside the GRPO family: other baselines, other scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gagar_core.advantages.estimators import GroupEstimator, centre, deviation
from gagar_core.advantages.groups import group_size, group_sum
from gagar_core.errors import InputError, check_choice, check_range
from gagar_core.protocols import Floats, Ints


@dataclass(kw_only=True)
class Reinforce(GroupEstimator):
    """``A_i = r_i``, or minus the mean of the whole batch: no group baseline.

    Without a baseline equal rewards do not give zeros, and passing rows alone teach if failures get 0.
    """

    baseline: str = "none"
    """What is subtracted: none | batch (mean reward of all valid rows)."""

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_choice("baseline", self.baseline, ("none", "batch"))]

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,)."""
        if self.baseline == "none":
            return rewards.copy()
        return centre(rewards, np.zeros_like(codes), 1).values


@dataclass(kw_only=True)
class ReinforcePP(GroupEstimator):
    """REINFORCE++ with group baseline (arXiv 2501.03262): centred, then whitened over the batch's tokens.

    ``A_i = (c_i - m) / sqrt(v + eps)`` with c = r - mean(r), m and v the mean and variance of c over tokens,
    so a row counts ``lengths`` times; without lengths every row counts once.
    """

    reads_if_given: ClassVar[tuple[str, ...]] = ("lengths",)

    ddof: int = 1
    """Divisor of the variance is tokens - ddof: 1 (verl) or 0 (OpenRLHF)."""
    eps: float = 1e-8
    """Added to the variance, >= 0."""

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("ddof", self.ddof, 0, 1), *check_range("eps", self.eps, 0)]

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,)."""
        centred = centre(rewards, codes, num_groups)
        values = self._singletons(centred.values, rewards, codes, centred.size)
        tokens = np.ones(len(values)) if lengths is None else lengths
        total = float(tokens.sum())
        if total <= self.ddof:
            return values
        shifted = values - float(tokens @ values) / total
        variance = float(tokens @ (shifted * shifted)) / (total - self.ddof)
        return shifted / np.sqrt(variance + self.eps) if variance > 0.0 else np.zeros(len(values))


@dataclass(kw_only=True)
class Opo(GroupEstimator):
    """``A_i = r_i - Σ L r / Σ L``: length-weighted baseline (OPO, arXiv 2505.23585). Needs lengths.

    Not centred: a group's advantages sum to 0 only when weighted by length.
    """

    reads: ClassVar[tuple[str, ...]] = ("lengths",)

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,); a group without a token falls back to the plain mean."""
        if lengths is None:
            msg = "opo needs lengths (tokens of each row)"
            raise InputError(msg)
        centred = centre(rewards, codes, num_groups)
        total = group_sum(lengths, codes, num_groups)
        weighted = group_sum(lengths * centred.values, codes, num_groups)
        shift = np.divide(weighted, total, out=np.zeros(num_groups), where=total > 0.0)
        return self._singletons(centred.values - shift[codes], rewards, codes, centred.size)


@dataclass(kw_only=True)
class MaxRl(GroupEstimator):
    """``A_i = (r_i - mean(r)) / mean(r)``, 0 where the mean is not positive (MaxRL, arXiv 2602.02710)."""

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,)."""
        centred = centre(rewards, codes, num_groups)
        mean = group_sum(rewards, codes, num_groups) / np.maximum(centred.size, 1)
        scale = np.divide(1.0, mean, out=np.zeros(num_groups), where=mean > 0.0)
        return self._singletons(centred.values * scale[codes], rewards, codes, centred.size)


@dataclass(kw_only=True)
class Gpg(GroupEstimator):
    """``A_i = α (r_i - mean(r))``, α making up for rows that teach nothing (GPG, arXiv 2504.02546)."""

    count: str = "groups"
    """α: groups (all / those of unequal rewards) | rewards (rows / rows with a reward that is not 0)."""

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_choice("count", self.count, ("groups", "rewards"))]

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,)."""
        centred = centre(rewards, codes, num_groups)
        values = self._singletons(centred.values, rewards, codes, centred.size)
        if self.count == "rewards":
            return values * (len(rewards) / max(int(np.count_nonzero(rewards)), 1))
        return values * (int((centred.size > 0).sum()) / max(int(centred.mixed.sum()), 1))


@dataclass(kw_only=True)
class PassK(GroupEstimator):
    """The best row of a group gets ``r_max - r_second``, all others 0 (pass@k, arXiv 2503.19595).

    Rows that tie for the best all get 0, so with binary rewards only a lone pass teaches.
    """

    normalize: bool = False
    """Divide by the group's standard deviation."""
    ddof: int = 1
    """Divisor of the variance is n - ddof: 1 sample, 0 population."""
    eps: float = 1e-6
    """Added to the standard deviation, reward units, >= 0."""

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("ddof", self.ddof, 0, 1), *check_range("eps", self.eps, 0)]

    def advantages(self, rewards: Floats, codes: Ints, num_groups: int, lengths: Floats | None) -> Floats:
        """Base advantages (N,)."""
        size = group_size(codes, num_groups)
        order = np.lexsort((rewards, codes))
        last = (np.cumsum(size) - 1)[size > 1]
        best, second = order[last], order[last - 1]
        lead = rewards[best] - rewards[second]
        if self.normalize:
            spread = deviation(centre(rewards, codes, num_groups), codes, self.ddof)[size > 1] + self.eps
            lead = np.divide(lead, spread, out=np.zeros(len(lead)), where=lead > 0.0)
        result = np.zeros(len(rewards))
        result[best] = lead
        return self._singletons(result, rewards, codes, size)


@dataclass(kw_only=True)
class ReinforcePPVerl(ReinforcePP):
    """verl 0.9.1 ``reinforce_plus_plus_baseline``: a lone row keeps its raw reward before whitening."""

    singleton: str = "raw"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error (verl turns the whole batch into NaN) | as_fail."""


@dataclass(kw_only=True)
class ReinforcePPOpenrlhf(ReinforcePP):
    """OpenRLHF 0.11 ``reinforce_baseline``: population variance (there at least 1e-8, here plus 1e-8)."""

    singleton: str = "error"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error | as_fail."""
    ddof: int = 0
    """Divisor of the variance is tokens - ddof."""


@dataclass(kw_only=True)
class OpoVerl(Opo):
    """verl 0.9.1 ``opo``: a lone row keeps its raw reward."""

    singleton: str = "raw"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error (verl turns the whole group into NaN) | as_fail."""


@dataclass(kw_only=True)
class GpgVerl(Gpg):
    """verl 0.9.1 ``gpg``: α counts rewards that are not 0; a lone row keeps its raw reward."""

    singleton: str = "raw"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error (verl turns the whole group into NaN) | as_fail."""
    count: str = "rewards"
    """α: groups | rewards."""


@dataclass(kw_only=True)
class PassKVerl(PassK):
    """verl 0.9.1 ``grpo_passk``: divided by the sample deviation, groups of one refused."""

    singleton: str = "error"
    """Group with one valid row: zero | raw | error."""
    nonfinite: str = "error"
    """NaN or infinite reward: exclude | error | as_fail."""
    normalize: bool = True
    """Divide by the group's standard deviation."""
