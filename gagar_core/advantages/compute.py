"""The public front: rewards and grades in, advantages out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gagar_core.advantages.groups import group_size
from gagar_core.advantages.inputs import (
    Inputs,
    check_grades,
    check_lengths,
    merge_sessions,
    read_inputs,
    read_sessions,
    require_passed,
)
from gagar_core.advantages.ranks import PassingRows, weights_from_ranks
from gagar_core.advantages.redistribution import REASONS, NoRedistribution, Redistributed, untouched
from gagar_core.errors import InputError, gather
from gagar_core.protocols import Bools, Estimator, Floats, Ints

EstimatorCall = Callable[[Floats, Ints, int, Floats | None], Floats]


@dataclass(frozen=True, slots=True)
class AdvantageResult:
    """Advantages of N rows in G groups, float64; groups in order of first appearance."""

    advantages: Floats
    """(N,) to train on; 0 on rows that are not ``used``."""
    base: Floats
    """(N,) what the estimator alone gives: the counterfactual."""
    weights: Floats
    """(N,) quality weights in force; 1 where none applies."""
    used: Bools
    """(N,) rows in the statistics: valid, with a finite reward (or one read as a failure)."""
    codes: Ints
    """(N,) number of a row's group in ``groups``."""
    groups: list[Any]
    """G labels."""
    lambda_: Floats
    """(G,) rescale factor; NaN where nothing was redistributed."""
    capped: Bools
    """(G,) whether a cap was reached."""
    fallback: NDArray[np.object_]
    """(G,) why the group kept its base advantages, or ""; one of ``redistribution.REASONS``."""
    positive_mass_kept: Floats
    """(G,) conserved mass (Σ A⁺, or Σ A⁺ length) over passing rows, after / before the redistribution and
    before any ``group_size`` correction; 1 where nothing was redistributed."""


def compute_advantages(
    rewards: ArrayLike,
    group_ids: Iterable[Hashable],
    *,
    estimator: Estimator | EstimatorCall,
    redistribution: Any = None,
    weighting: Any = None,
    passed: ArrayLike | None = None,
    valid: ArrayLike | None = None,
    ranks: ArrayLike | None = None,
    tiers: ArrayLike | None = None,
    scores: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    sessions: Sequence[Hashable] | None = None,
) -> AdvantageResult:
    """Advantages of rollouts: a base estimator per group, then redistribution among the passing ones.

    Parameters
    ----------
    rewards
        (N,) after any shaping. Values that are not finite follow ``estimator.nonfinite``.
    group_ids
        (N,) hashable labels of tasks; rows may come in any order.
    estimator
        A choice of the ``estimator`` axis, or any callable
        ``f(rewards, codes, num_groups, lengths) -> advantages``.
    redistribution, weighting
        Choices of their axes; None, or the choice ``none``, leaves the base bit for bit.
    passed
        (N,) verdicts; None means ``rewards > 0`` and is refused unless rewards are 0 or 1.
    valid
        (N,) False for infrastructure failures, which are in no statistic and get 0.
    ranks, tiers, scores, weights
        (N,) grades, read on passing rows: rank and tier 1 = best, score higher = better. ``weights`` in
        (0, 1] override what the weighting would give. A passing row with neither keeps its group at the base.
    lengths
        (N,) trained tokens.
    sessions
        (N,) labels of rows that belong to one trajectory of a group; it is counted once.

    Raises
    ------
    InputError
        Shapes, grades or lengths that cannot be meant; the message names rows and groups.
    """
    grades = {"ranks": ranks, "tiers": tiers, "scores": scores, "weights": weights}
    _check_parts(estimator, redistribution)
    inputs = read_inputs(rewards, group_ids, passed=passed, valid=valid, lengths=lengths, grades=grades)
    redistribution = NoRedistribution() if redistribution is None else redistribution
    verdicts = _verdicts(inputs, redistribution)
    by_token = getattr(redistribution, "conserve", "") == "token"
    if by_token:
        check_lengths(inputs, "conserve=token", positive=sessions is None)
    _check_lengths(inputs, estimator, redistribution, weighting)
    codes, member = inputs.codes, None
    if sessions is not None:
        inputs, verdicts, member = _merge(inputs, verdicts, sessions)
        if by_token:  # a row without a token is fine in a trajectory that has some
            check_lengths(inputs, "conserve=token", positive=True)
    used, verdicts = _apply_nonfinite(inputs, estimator, verdicts)
    rows = _Rows(used, member)
    if rows.kept is not None:
        inputs, verdicts = inputs.take(rows.kept), None if verdicts is None else verdicts[rows.kept]
    base = _base(inputs, estimator)
    done = _redistribute(inputs, base, redistribution, weighting, verdicts)
    return AdvantageResult(
        advantages=rows.spread(done.advantages, 0.0),
        base=rows.spread(base, 0.0),
        weights=rows.spread(done.weights, 1.0),
        used=used.copy() if member is None else used[member],
        codes=codes,
        groups=inputs.labels,
        lambda_=done.lambda_,
        capped=done.capped,
        fallback=np.array(REASONS, dtype=object)[done.reason],
        positive_mass_kept=done.positive_mass_kept,
    )


class _Rows:
    """Which trajectories take part, and which trajectory each given row belongs to (None = its own)."""

    def __init__(self, used: Bools, member: Ints | None) -> None:
        self._size = len(used)
        self._member = member
        self.kept = None if used.all() else np.flatnonzero(used)

    def spread(self, values: Floats, fill: float) -> Floats:
        """Values of the trajectories that take part, given to every row; ``fill`` elsewhere."""
        if self.kept is not None:
            full = np.full(self._size, fill)
            full[self.kept] = values
            values = full
        if self._member is not None:
            return values[self._member]
        return values if values.flags.writeable else values.copy()


def _merge(
    inputs: Inputs, verdicts: Bools | None, labels: Sequence[Hashable]
) -> tuple[Inputs, Bools | None, Ints]:
    """One row per trajectory, and the trajectory of each given row."""
    sessions = read_sessions(inputs, labels)
    merged = None if verdicts is None else verdicts[sessions.first]
    return merge_sessions(inputs, sessions), merged, sessions.member


def _check_parts(estimator: Any, redistribution: Any) -> None:
    faults = []
    if not callable(getattr(estimator, "advantages", estimator)):
        faults.append(f"estimator must be a choice such as DrGrpo(), or a callable; got {estimator!r}")
    if redistribution is not None and not hasattr(redistribution, "redistribute"):
        faults.append(
            f"redistribution must be a choice such as SumPreserving(), or None; got {redistribution!r}"
        )
    gather(faults, headline="unusable parts", error=InputError)


def _verdicts(inputs: Inputs, redistribution: Any) -> Bools | None:
    """Which rows pass; None if nobody asks."""
    if not redistribution.acts and inputs.passed is None and "ranks" not in inputs.grades:
        return None
    passed = require_passed(inputs)
    check_grades(inputs, passed)
    return passed


def _check_lengths(inputs: Inputs, estimator: Any, redistribution: Any, weighting: Any) -> None:
    for part in (estimator, weighting if redistribution.acts else None):
        optional = inputs.lengths is not None and "lengths" in getattr(part, "reads_if_given", ())
        if optional or "lengths" in getattr(part, "reads", ()):
            check_lengths(inputs, type(part).__name__, positive=False)


def _apply_nonfinite(inputs: Inputs, estimator: Any, verdicts: Bools | None) -> tuple[Bools, Bools | None]:
    """Rows that take part, and which of them pass; ``inputs.rewards`` is replaced where a policy says so."""
    odd = inputs.valid & ~np.isfinite(inputs.rewards)
    if not odd.any():
        return inputs.valid, verdicts
    policy = getattr(estimator, "nonfinite", "exclude")
    if policy == "error":
        faults = inputs.faulty(odd, "a reward that is not finite, and nonfinite=error")
        gather(faults, headline="unusable rewards", error=InputError)
    if policy == "exclude":
        return inputs.valid & ~odd, verdicts
    inputs.rewards = np.where(odd, 0.0, inputs.rewards)
    return inputs.valid, None if verdicts is None else verdicts & ~odd


def _base(inputs: Inputs, estimator: Any) -> Floats:
    groups = len(inputs.labels)
    if getattr(estimator, "singleton", "zero") == "error":
        alone = group_size(inputs.codes, groups) == 1
        faults = inputs.faulty(alone[inputs.codes], "a group with a single valid row, and singleton=error")
        gather(faults, headline="groups too small", error=InputError)
    call = getattr(estimator, "advantages", estimator)
    base: Floats = np.asarray(call(inputs.rewards, inputs.codes, groups, inputs.lengths), dtype=np.float64)
    if np.may_share_memory(base, inputs.rewards):
        base = base.copy()  # an estimator may hand its argument back; the result must not alias the input
    if base.shape != inputs.rewards.shape:
        msg = f"the estimator returned shape {base.shape} for {inputs.rewards.shape}"
        raise InputError(msg)
    gather(
        inputs.faulty(~np.isfinite(base), "the estimator returned a value that is not finite"),
        headline="unusable base advantages",
        error=InputError,
    )
    return base


def _redistribute(
    inputs: Inputs, base: Floats, redistribution: Any, weighting: Any, verdicts: Bools | None
) -> Redistributed:
    size = group_size(inputs.codes, len(inputs.labels))
    if not redistribution.acts or verdicts is None:
        return untouched(base, size)
    index = np.flatnonzero(verdicts)
    codes = inputs.codes.take(index)
    rows = PassingRows(
        index=index,
        codes=codes,
        num_groups=len(inputs.labels),
        size=size,
        passes=group_size(codes, len(inputs.labels)),
        all_codes=inputs.codes,
        ranks=inputs.grade("ranks", index),
        tiers=inputs.grade("tiers", index),
        scores=inputs.grade("scores", index),
        lengths=None if inputs.lengths is None else inputs.lengths[index],
    )
    given = inputs.grade("weights", index)
    result: Redistributed = redistribution.redistribute(base, _weights(weighting, given, rows), rows)
    return result


def _weights(weighting: Any, given: Floats | None, rows: PassingRows) -> Floats:
    """Weights (P,) as given, else of the weighting, NaN where neither knows."""
    if given is not None and (weighting is None or not np.isnan(given).any()):
        return given
    if weighting is None:
        msg = "a redistribution needs a weighting, or weights"
        raise InputError(msg)
    found = _weigh(weighting, rows)
    if ((found <= 0.0) | (found > 1.0)).any():
        worst = found[(found <= 0.0) | (found > 1.0)][0]
        msg = f"weighting {type(weighting).__name__} gave {worst!r}; weights must be in (0, 1]"
        raise InputError(msg)
    return found if given is None else np.where(np.isnan(given), found, given)


def _weigh(weighting: Any, rows: PassingRows) -> Floats:
    reads: tuple[str, ...] = getattr(weighting, "reads", ("ranks",))
    missing = [name for name in reads if getattr(rows, name) is None]
    if missing:
        msg = f"weighting {type(weighting).__name__} needs {', '.join(missing)}"
        raise InputError(msg)
    if hasattr(weighting, "weigh"):
        weights: Floats = weighting.weigh(rows)
        return weights
    ranks = rows.ranks if "ranks" in reads else np.ones(len(rows.index))
    assert ranks is not None
    if np.isinf(ranks).any():
        ranks = np.where(np.isinf(ranks), np.nan, ranks)
    return weights_from_ranks(weighting, rows, ranks)
