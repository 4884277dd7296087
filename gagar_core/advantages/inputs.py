"""What callers hand in, aligned, checked and reduced to one row per valid trajectory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gagar_core.advantages.groups import code_groups, group_sum
from gagar_core.errors import InputError, gather
from gagar_core.protocols import Bools, Floats, Ints

_SHOWN = 5


@dataclass(slots=True)
class Inputs:
    """Arrays as given, (N,) each, with groups numbered in order of first appearance."""

    rewards: Floats
    codes: Ints
    labels: list[Any]
    valid: Bools
    passed: Bools | None
    lengths: Floats | None
    grades: dict[str, Floats] = field(default_factory=dict)
    rows: Ints | None = None
    """Numbers under which the caller knows these rows; None = 0, 1, 2, ..."""

    def where(self, rows: Ints) -> str:
        """Name some rows and their groups."""
        names = rows if self.rows is None else self.rows[rows]
        shown = [
            f"row {name} (group {self.labels[self.codes[row]]!r})"
            for name, row in zip(names[:_SHOWN], rows, strict=False)
        ]
        more = [f"{len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
        return ", ".join(shown + more)

    def faulty(self, flags: Bools, what: str) -> list[str]:
        """One fault naming the flagged rows, or none."""
        return [f"{what}: {self.where(np.flatnonzero(flags))}"] if flags.any() else []

    def grade(self, name: str, rows: Ints) -> Floats | None:
        """A grade at ``rows``, None if not given."""
        return self.grades[name].take(rows) if name in self.grades else None

    def take(self, rows: Ints) -> Inputs:
        """The same inputs at ``rows``."""
        return Inputs(
            self.rewards[rows],
            self.codes[rows],
            self.labels,
            self.valid[rows],
            None if self.passed is None else self.passed[rows],
            None if self.lengths is None else self.lengths[rows],
            {name: values[rows] for name, values in self.grades.items()},
            rows if self.rows is None else self.rows[rows],
        )


def read_inputs(
    rewards: ArrayLike,
    group_ids: Iterable[Hashable],
    *,
    passed: ArrayLike | None,
    valid: ArrayLike | None,
    lengths: ArrayLike | None,
    grades: dict[str, ArrayLike | None],
) -> Inputs:
    """Turn what was handed in into arrays of one length, or raise ``InputError`` with every fault."""
    codes, labels = code_groups(group_ids)
    numbers = {"rewards": rewards, "lengths": lengths, **grades}
    faults: list[str] = []
    arrays: dict[str, Any] = {}
    for readers, values in ((_floats, numbers), (_bools, {"passed": passed, "valid": valid})):
        _read_all(values, readers, len(codes), arrays, faults)
    gather(faults, headline="inconsistent inputs", error=InputError)
    return Inputs(
        arrays["rewards"],
        codes,
        labels,
        arrays.get("valid", np.ones(len(codes), np.bool_)),
        arrays.get("passed"),
        arrays.get("lengths"),
        {name: arrays[name] for name in grades if name in arrays},
    )


def _read_all(
    values: dict[str, ArrayLike | None],
    read: Callable[[ArrayLike], np.ndarray[Any, Any]],
    length: int,
    arrays: dict[str, Any],
    faults: list[str],
) -> None:
    for name, value in values.items():
        if value is None:
            continue
        try:
            array = read(value)
        except (TypeError, ValueError) as error:
            faults.append(f"{name} cannot be read: {error}")
            continue
        if array.shape != (length,):
            faults.append(f"{name} must have shape ({length},) like group_ids; got {array.shape}")
        arrays[name] = array


def _floats(value: ArrayLike) -> Floats:
    return np.asarray(value, dtype=np.float64)


def _bools(value: ArrayLike) -> Bools:
    array = np.asarray(value)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        msg = "holds values other than true and false"
        raise ValueError(msg)
    return array.astype(np.bool_, copy=False)


def require_passed(inputs: Inputs) -> Bools:
    """The pass flags, or ``rewards > 0`` if the finite rewards of valid rows are all 0 or 1."""
    if inputs.passed is not None:
        return inputs.passed
    rewards = inputs.rewards
    known = (rewards == 0.0) | (rewards == 1.0) | ~inputs.valid | ~np.isfinite(rewards)
    faults = inputs.faulty(~known, "passed is needed where rewards are not 0 or 1")
    gather(faults, headline="cannot tell which rows pass", error=InputError)
    return rewards > 0.0


def check_grades(inputs: Inputs, passed: Bools) -> None:
    """Raise if a failing or invalid row is ranked, or a passing row's weight is outside (0, 1]."""
    scored = passed & inputs.valid
    faults: list[str] = []
    if "ranks" in inputs.grades:
        ranked = ~np.isnan(inputs.grades["ranks"])
        faults += inputs.faulty(ranked & ~inputs.valid, "a rank on an invalid row")
        faults += inputs.faulty(ranked & inputs.valid & ~passed, "a rank on a failing row")
    if "weights" in inputs.grades:
        weights = inputs.grades["weights"]
        outside = scored & ((weights <= 0.0) | (weights > 1.0))
        faults += inputs.faulty(outside, "a weight of a passing row outside (0, 1]")
    gather(faults, headline="inconsistent grades", error=InputError)


def check_lengths(inputs: Inputs, reader: str, *, positive: bool) -> None:
    """Raise if lengths are missing, negative or not finite on valid rows, or 0 where ``positive``."""
    if inputs.lengths is None:
        msg = f"{reader} needs lengths (tokens of each row)"
        raise InputError(msg)
    wrong = ~np.isfinite(inputs.lengths) | (inputs.lengths < 0.0)
    if positive:
        wrong |= inputs.lengths == 0.0
    want = "positive" if positive else "not negative"
    faults = inputs.faulty(wrong & inputs.valid, f"{reader} needs lengths that are finite and {want}")
    gather(faults, headline="unusable lengths", error=InputError)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Rows of one trajectory: ``first`` (M,) their first row, ``member`` (N,) the trajectory of a row."""

    first: Ints
    member: Ints


def read_sessions(inputs: Inputs, sessions: Sequence[Hashable]) -> Sessions:
    """Number the trajectories of the rows; raise if rows of one disagree in anything but length."""
    names, labels = code_groups(sessions)
    if len(names) != len(inputs.codes):
        msg = f"sessions must have shape ({len(inputs.codes)},) like group_ids; got ({len(names)},)"
        raise InputError(msg)
    member = code_groups(inputs.codes * np.int64(max(len(labels), 1)) + names)[0]
    count = int(member.max(initial=-1)) + 1
    first = np.empty(count, np.int64)
    first[member[::-1]] = np.arange(len(member))[::-1]
    columns = {"rewards": inputs.rewards, "valid": inputs.valid, "passed": inputs.passed, **inputs.grades}
    faults: list[str] = []
    for name, values in columns.items():
        if values is not None:
            same = (values == values[first][member]) | (
                (values != values) & (values != values)[first][member]
            )
            faults += inputs.faulty(~same, f"{name} differ within a session")
    gather(faults, headline="inconsistent sessions", error=InputError)
    return Sessions(first, member)


def merge_sessions(inputs: Inputs, sessions: Sessions) -> Inputs:
    """One row per trajectory; its length is the sum over its rows."""
    merged = inputs.take(sessions.first)
    if inputs.lengths is not None:
        merged.lengths = group_sum(inputs.lengths, sessions.member, len(sessions.first))
    return merged
