"""Advantages of recorded groups under other choices: the same rows, grades and lengths, computed again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from gagar_core.advantages import AdvantageResult, compute_advantages
from gagar_core.choices import CHOICES
from gagar_core.errors import RecordsError
from gagar_core.protocols import Bools, Floats, Ints
from gagar_core.records import RunFolder, scan
from gagar_core.types import GRADED_KINDS

if TYPE_CHECKING:
    import polars as pl

GRADES = ("ranks", "scores", "tiers")
_COLUMNS = (
    "step", "group_id", "sample_idx", "task_kind", "passed", "reward", "gen_tokens", "rank", "score", "tier",
    "adv_base", "adv_used",
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """The three choices that turn rewards and grades into advantages."""

    estimator: Any
    weighting: Any
    redistribution: Any


@dataclass(frozen=True)
class StepRows:
    """The rows of one step that entered the loss, (N,) each."""

    step: int
    groups: Ints
    passed: Bools
    rewards: Floats
    lengths: Floats
    graded: Bools
    grades: dict[str, Floats]
    recorded: Floats
    """Advantages that were trained on."""


@dataclass(frozen=True)
class Measures:
    """What one step's advantages are like; means are over its groups."""

    lambda_: float
    """Mean factor of the groups that were redistributed; NaN where none was."""
    capped: int
    """Groups in which a cap was reached."""
    fallback: int
    """Groups that kept their base advantages for a reason."""
    moved: float
    """Largest change of a group's sum over passing rows against its base."""
    ess: float
    """Effective sample size ``(Σ|a|)² / Σa²``, share of rows."""
    covariance: float
    """Mean covariance of tokens and advantage within groups."""


@dataclass(frozen=True)
class StepComparison:
    """Recorded choices and others on the same step."""

    step: int
    groups: int
    exact: bool
    """Whether the recorded choices give the recorded advantages again, to the last bit."""
    comparable: int
    """Groups with at least two passing rows."""
    reordered: int
    """Of these, groups in which some pair of passing rows compares differently."""
    change: float
    """Mean |difference| of advantages over rows."""
    before: Measures
    after: Measures


def step_rows(run: RunFolder) -> Iterator[StepRows]:
    """The steps of a run that trained on something, in order."""
    import polars as pl

    frame = scan(run.path, "trajectories").filter(pl.col("kept") & pl.col("valid")).select(_COLUMNS).collect()
    if not frame.height:
        msg = f"{run.path} has no recorded group that entered the loss, so there is nothing to compute again"
        raise RecordsError(msg)
    given = _given(run)
    for part in frame.sort("step", "group_id", "sample_idx").partition_by("step", maintain_order=True):
        yield _rows(part, given)


def _given(run: RunFolder) -> tuple[str, ...]:
    """What the run's grader gives, even in steps in which it abstains throughout."""
    kind = run.config["config"].get("grader", {}).get("kind")
    return CHOICES["grader"][kind].gives if kind in CHOICES["grader"] else ()


def _rows(frame: pl.DataFrame, given: Sequence[str]) -> StepRows:
    columns = {"ranks": "rank", "scores": "score", "tiers": "tier"}
    grades = {name: _floats(frame, column) for name, column in columns.items()}
    return StepRows(
        step=int(frame["step"][0]),
        groups=frame["group_id"].to_numpy().astype(np.int64),
        passed=frame["passed"].to_numpy().astype(np.bool_),
        rewards=_floats(frame, "reward"),
        lengths=_floats(frame, "gen_tokens"),
        graded=np.isin(frame["task_kind"].to_list(), GRADED_KINDS),
        grades={n: values for n, values in grades.items() if n in given or np.isfinite(values).any()},
        recorded=_floats(frame, "adv_used"),
    )


def _floats(frame: pl.DataFrame, column: str) -> Floats:
    import polars as pl

    values: Floats = frame[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return values


def advantages_of(rows: StepRows, recipe: Recipe) -> AdvantageResult:
    """The advantages that a recipe gives, in the way of a training step."""
    grades: dict[str, Any] = dict(rows.grades)
    if not rows.graded.all():
        grades["weights"] = np.where(rows.graded, np.nan, 1.0)
    return compute_advantages(
        rows.rewards,
        rows.groups.tolist(),
        estimator=recipe.estimator,
        redistribution=recipe.redistribution.at_step(rows.step),
        weighting=recipe.weighting,
        passed=rows.passed,
        lengths=rows.lengths,
        **grades,
    )


def compare(rows: StepRows, recorded: Recipe, other: Recipe) -> StepComparison:
    """What ``other`` would have changed in one step."""
    before, after = advantages_of(rows, recorded), advantages_of(rows, other)
    reordered, comparable = _orders(rows, before.advantages, after.advantages)
    return StepComparison(
        step=rows.step,
        groups=len(before.groups),
        exact=bool(np.array_equal(before.advantages, rows.recorded)),
        comparable=comparable,
        reordered=reordered,
        change=float(np.abs(after.advantages - before.advantages).mean()),
        before=measures(rows, before),
        after=measures(rows, after),
    )


def measures(rows: StepRows, result: AdvantageResult) -> Measures:
    """What a step's advantages are like."""
    acted, used = np.isfinite(result.lambda_), result.advantages
    moved = np.zeros(len(result.groups))
    np.add.at(moved, result.codes[rows.passed], (used - result.base)[rows.passed])
    square = float((used**2).sum())
    return Measures(
        lambda_=float(result.lambda_[acted].mean()) if acted.any() else float("nan"),
        capped=int(result.capped.sum()),
        fallback=int(sum(map(bool, result.fallback))),
        moved=float(np.abs(moved).max()),
        ess=float(np.abs(used).sum() ** 2 / square / len(used)) if square > 0 else float("nan"),
        covariance=_covariance(rows.lengths, used, result.codes, len(result.groups)),
    )


def _covariance(lengths: Floats, used: Floats, codes: Ints, groups: int) -> float:
    size = np.bincount(codes, minlength=groups)
    centred = lengths - (np.bincount(codes, lengths, groups) / size)[codes]
    return float((np.bincount(codes, centred * used, groups) / size).mean())


def _orders(rows: StepRows, before: Floats, after: Floats) -> tuple[int, int]:
    """Groups whose passing rows are ordered differently, and groups with at least two of them."""
    reordered = comparable = 0
    for group in np.unique(rows.groups[rows.passed]):
        own = np.flatnonzero(rows.passed & (rows.groups == group))
        if len(own) > 1:
            comparable += 1
            reordered += not np.array_equal(_pairs(before[own]), _pairs(after[own]))
    return reordered, comparable


def _pairs(values: Floats) -> Floats:
    """Sign of every pairwise difference; differences of rounding count as ties."""
    differences = values[:, None] - values[None, :]
    close = np.isclose(values[:, None], values[None, :], rtol=1e-12, atol=1e-15)
    return np.where(close, 0.0, np.sign(differences))


def words_of(record: dict[str, Any], axis: str, given: Sequence[str]) -> list[str]:
    """Override words of a recorded choice with the given words put in its place or on top of it."""
    own = [word for word in given if word.split("=", 1)[0].split(".")[0] == axis]
    if any(word.startswith(f"{axis}=") for word in own):
        return own
    settings = dict(record[axis])
    keys = {word.split("=", 1)[0] for word in own}
    fixed = [f"{axis}={settings.pop('kind')}"]
    fixed += [f"{axis}.{k}={_value(v)}" for k, v in settings.items() if f"{axis}.{k}" not in keys]
    return [*fixed, *own]


def _value(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


AXES = tuple(field.name for field in fields(Recipe))
"""What can be chosen anew."""
