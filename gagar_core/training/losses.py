"""The policy-gradient loss: per-token terms of a clipped surrogate, and ways to add them up.

``loss.terms(...)`` gives a (B, T) tensor to minimise, ``loss.aggregate(...)`` one number. Every aggregation
is a sum of masked terms with one coefficient per row, which depends on mask and codes alone:
``coefficients(...)`` of the whole batch lets a trainer add up micro-batches exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gagar_core.errors import InputError, check_choice, check_range, gather

if TYPE_CHECKING:
    import torch

RATIOS = ("token", "sequence")
KL_ESTIMATORS = ("k1", "k3")

_LOG_RATIO_BOUND = 20.0  # exp overflows float32 at 88; such ratios are far outside every clip range


def importance_ratio(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, mask: torch.Tensor, *, ratio: str = "token"
) -> torch.Tensor:
    """Ratio of new to old probability (B, T), 1 where ``mask`` is 0, within exp(±20).

    ``token``: of each token. ``sequence``: the geometric mean over the row's trained tokens, with the
    gradient of each token (GSPO-token, arXiv 2507.18071): value exp(mean of log ratios), gradient that value
    times the gradient of the token's log-probability.
    """
    import torch

    trained = mask.bool()
    log_ratio = torch.where(trained, logprobs - old_logprobs, 0.0)
    if ratio == "sequence":
        mean = log_ratio.sum(dim=1, keepdim=True) / trained.sum(dim=1, keepdim=True).clamp(min=1)
        log_ratio = torch.where(trained, mean.detach() + log_ratio - log_ratio.detach(), 0.0)
    return log_ratio.clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND).exp()


def clipped_surrogate(
    ratio: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float = 0.0,
) -> torch.Tensor:
    """Terms (B, T) to minimise: ``max(-A ρ, -A clip(ρ, 1 - low, 1 + high))`` (PPO, arXiv 1707.06347).

    ``advantages`` is (B,) or (B, T). Different bounds are DAPO's clip-higher (arXiv 2503.14476). With
    ``dual_clip`` c > 1, terms of negative advantages are at most ``-A c`` (arXiv 1912.09729).
    """
    import torch

    a = advantages.unsqueeze(1) if advantages.dim() == 1 else advantages
    terms = torch.maximum(-a * ratio, -a * ratio.clamp(1.0 - clip_low, 1.0 + clip_high))
    if dual_clip:
        terms = torch.where(a < 0, torch.minimum(terms, -a * dual_clip), terms)
    return terms


def kl_terms(
    logprobs: torch.Tensor, ref_logprobs: torch.Tensor, mask: torch.Tensor, *, estimator: str = "k3"
) -> torch.Tensor:
    """Per-token estimate (B, T) of KL(policy ‖ reference), nats, 0 where ``mask`` is 0.

    With d = log p_ref - log p: ``k1`` = -d (unbiased, may be negative), ``k3`` = exp(d) - 1 - d (>= 0).
    """
    import torch

    d = torch.where(mask.bool(), ref_logprobs - logprobs, 0.0)
    return -d if estimator == "k1" else d.exp() - 1.0 - d


@dataclass(kw_only=True)
class SurrogateLoss:
    """Settings of the per-token terms, shared by every aggregation."""

    clip_low: float = 0.2
    """The ratio is clipped below at 1 - this, in [0, 1]."""
    clip_high: float = 0.2
    """The ratio is clipped above at 1 + this, >= 0; larger than clip_low = clip-higher."""
    dual_clip: float = 0.0
    """Bound on the ratio for negative advantages, > 1; 0 = off."""
    ratio: str = "token"
    """Importance ratio of a token | of the whole sequence (GSPO)."""
    kl_coef: float = 0.0
    """Weight of the KL term against the reference policy, >= 0; 0 = off."""
    kl_estimator: str = "k3"
    """k1 (unbiased, noisy) | k3 (never negative)."""

    def __post_init__(self) -> None:
        gather(self._faults(), headline=f"invalid {type(self).__name__} settings")

    def _faults(self) -> list[str]:
        dual = (
            []
            if self.dual_clip == 0
            else check_range("dual_clip (if not 0)", self.dual_clip, 1, open_low=True)
        )
        return [
            *check_range("clip_low", self.clip_low, 0, 1),
            *check_range("clip_high", self.clip_high, 0),
            *dual,
            *check_choice("ratio", self.ratio, RATIOS),
            *check_range("kl_coef", self.kl_coef, 0),
            *check_choice("kl_estimator", self.kl_estimator, KL_ESTIMATORS),
        ]

    def terms(
        self,
        logprobs: torch.Tensor,
        old_logprobs: torch.Tensor,
        advantages: torch.Tensor,
        mask: torch.Tensor,
        ref_logprobs: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Per-token terms (B, T) to minimise; ``advantages`` is (B,) or (B, T)."""
        ratio = importance_ratio(logprobs, old_logprobs, mask, ratio=self.ratio)
        terms = clipped_surrogate(
            ratio,
            advantages,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            dual_clip=self.dual_clip,
        )
        if not self.kl_coef:
            return terms
        if ref_logprobs is None:
            msg = f"kl_coef={self.kl_coef} needs the log-probabilities of a reference policy"
            raise InputError(msg)
        return terms + self.kl_coef * kl_terms(logprobs, ref_logprobs, mask, estimator=self.kl_estimator)

    def aggregate(
        self,
        terms: torch.Tensor,
        mask: torch.Tensor,
        group_codes: torch.Tensor,
        sequence_codes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """One number from ``terms`` (B, T) where ``mask`` (B, T) is 1; 0 if nothing is trained.

        ``group_codes`` (B,) numbers the task of a row. ``sequence_codes`` (B,) numbers the trajectory of a
        row where one trajectory has several rows; without it every row is one.
        """
        sums = masked_sum(terms, mask)
        return (sums * self.coefficients(mask, group_codes, sequence_codes).to(sums.dtype)).sum()

    def coefficients(
        self, mask: torch.Tensor, group_codes: torch.Tensor, sequence_codes: torch.Tensor | None = None
    ) -> torch.Tensor:
        """What each row's sum of terms is multiplied with (B,), in the widest float the device has."""
        raise NotImplementedError


def masked_sum(terms: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Sum of ``terms`` (B, T) over trained tokens, (B,), at least float32; a masked NaN does not count."""
    import torch

    wide = torch.promote_types(terms.dtype, torch.float32)
    return torch.where(mask.bool(), terms, 0.0).sum(dim=1, dtype=wide)


def _tokens(mask: torch.Tensor) -> torch.Tensor:
    import torch

    wide = torch.float32 if mask.device.type == "mps" else torch.float64
    return mask.bool().sum(dim=1).to(wide)


def _by_code(values: torch.Tensor, codes: torch.Tensor | None) -> torch.Tensor:
    """Sum of ``values`` (B,) over rows with the same code, given back to each of them (B,)."""
    import torch

    if codes is None:
        return values
    home = torch.unique(codes, return_inverse=True)[1]
    total = torch.zeros(int(home.max()) + 1 if len(home) else 0, dtype=values.dtype, device=values.device)
    return total.index_add_(0, home, values)[home]


def _share(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """``part / whole`` where ``whole`` > 0, else 0."""
    return part / whole.clamp(min=1e-30) * (whole > 0)


@dataclass(kw_only=True)
class TokenMean(SurrogateLoss):
    """Mean over all trained tokens of the batch (DAPO; default of verl and TRL). Long rows weigh more."""

    def coefficients(
        self, mask: torch.Tensor, group_codes: torch.Tensor, sequence_codes: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``1 / ΣL``."""
        tokens = _tokens(mask)
        return tokens.new_ones(len(tokens)) / tokens.sum().clamp(min=1.0)


@dataclass(kw_only=True)
class SequenceLoss(SurrogateLoss):
    """Settings of aggregations that average over sequences."""

    count_empty: bool = False
    """Whether sequences without a trained token count in the mean (TRL: yes, verl: no)."""

    def _number(self, mask: torch.Tensor, sequence_codes: torch.Tensor | None) -> torch.Tensor:
        """Sequences that count, at least 1; each row of a sequence adds its share of one."""
        tokens = _tokens(mask)
        counted = _by_code(tokens, sequence_codes) > 0
        if self.count_empty:
            counted = counted | True
        shares = 1.0 / _by_code(tokens.new_ones(len(tokens)), sequence_codes)
        return (shares * counted).sum().round().clamp(min=1.0)


@dataclass(kw_only=True)
class SeqMeanTokenMean(SequenceLoss):
    """Mean over sequences of the mean over their tokens (GRPO as published): each weighs the same."""

    def coefficients(
        self, mask: torch.Tensor, group_codes: torch.Tensor, sequence_codes: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``1 / (B L_i)``."""
        length = _by_code(_tokens(mask), sequence_codes)
        return _share(length.new_ones(len(length)) / self._number(mask, sequence_codes), length)


@dataclass(kw_only=True)
class SeqMeanTokenSum(SequenceLoss):
    """Mean over sequences of the sum over their tokens."""

    def coefficients(
        self, mask: torch.Tensor, group_codes: torch.Tensor, sequence_codes: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``1 / B``."""
        tokens = _tokens(mask)
        return tokens.new_ones(len(tokens)) / self._number(mask, sequence_codes)


@dataclass(kw_only=True)
class ConstantNorm(SequenceLoss):
    """Mean over sequences of the sum over their tokens, divided by a constant (Dr. GRPO, arXiv 2503.20783).

    The constant is a setting, never the padded length of the batch at hand.
    """

    horizon: int = 192
    """Tokens that a sum is divided by, > 0: usually the token budget of a trajectory."""

    def _faults(self) -> list[str]:
        return [*super()._faults(), *check_range("horizon", self.horizon, 1)]

    def coefficients(
        self, mask: torch.Tensor, group_codes: torch.Tensor, sequence_codes: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``1 / (B horizon)``."""
        tokens = _tokens(mask)
        return tokens.new_ones(len(tokens)) / (self._number(mask, sequence_codes) * self.horizon)


@dataclass(kw_only=True)
class PromptMean(SurrogateLoss):
    """Mean over groups of the mean over the group's tokens: each task weighs the same."""

    def coefficients(
        self, mask: torch.Tensor, group_codes: torch.Tensor, sequence_codes: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``1 / (Q ΣL_q)``, Q the groups with a trained token."""
        tokens = _tokens(mask)
        in_group = _by_code(tokens, group_codes)
        number = _share(tokens, in_group).sum().round().clamp(min=1.0)
        return _share(tokens.new_ones(len(tokens)) / number, in_group)
