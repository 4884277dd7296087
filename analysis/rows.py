"""Training trajectories of a run as NumPy columns, read once and summarised many times."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from analysis.frames import Tables
from analysis.statistics import Floats

if TYPE_CHECKING:
    import polars as pl

Bools = NDArray[np.bool_]

TASK = "task"
"""Column with a code of what was asked: only which rows share a task matters, and text is slow."""

T = TypeVar("T", bound=np.generic)

_FLAGS = ("passed", "audit_passed", "truncated", "kept")

SIZES: dict[str, str] = {
    "gen_tokens": "generated tokens",
    "obs_tokens": "observation tokens",
    "turns": "turns",
    "tool_calls": "tool calls",
    "tool_errors": "tool errors",
    "test_runs": "test runs",
    "redundant_test_runs": "redundant test runs",
    "edits": "edits",
    "diff_add": "lines added",
    "diff_del": "lines deleted",
    "files_changed": "files changed",
    "functions_changed": "functions changed",
    "program_lines": "program lines",
    "program_nodes": "program size (syntax-tree nodes)",
}
"""Columns of ``trajectories`` that say how large a trajectory or its result is -> their names."""

_COLUMNS = ("step", "group_id", "difficulty", *SIZES, "adv_base", "adv_used", "entropy_mean")


class Rows:
    """Valid trajectories with a verdict, sorted by step, group and sample; columns of ``trajectories``.

    Columns become arrays when they are asked for: most are wanted of the last steps only. An absent column
    is null throughout.
    """

    def __init__(self, frame: pl.DataFrame, chosen: NDArray[np.int64] | None = None) -> None:
        self._frame, self._chosen = frame, chosen
        self._numbers: dict[str, Floats] = {}

    def __len__(self) -> int:
        return self._frame.height if self._chosen is None else self._chosen.size

    def __getitem__(self, column: str) -> Floats:
        """A numeric column as float64, NaN for null."""
        if column not in self._numbers:
            self._numbers[column] = self._of_chosen(_floats(self._column(column)))
        return self._numbers[column]

    def flag(self, column: str) -> Bools:
        """A boolean column; null is false."""
        import polars as pl

        found = self._column(column)
        if found.null_count():  # a call to Polars costs more than the work on one run
            found = found.cast(pl.Boolean).fill_null(False)
        return self._of_chosen(found.to_numpy())

    def known(self, column: str) -> Bools:
        """Where a column is not null."""
        found = self._column(column)
        whole = found.null_count() == 0
        return self._of_chosen(np.ones(len(found), dtype=bool) if whole else found.is_not_null().to_numpy())

    def words(self, column: str) -> NDArray[np.object_]:
        """A text column; null is empty."""
        return self._of_chosen(np.array([word or "" for word in self._column(column)], dtype=object))

    def _of_chosen(self, values: NDArray[T]) -> NDArray[T]:
        return values if self._chosen is None else values[self._chosen]

    def _column(self, name: str) -> pl.Series:
        import polars as pl

        if name in self._frame.columns:
            return self._frame[name]
        return pl.Series(name, [None] * self._frame.height)

    @cached_property
    def done(self) -> NDArray[np.int64]:
        """Updates done after the step of each row."""
        return self["step"].astype(np.int64) + 1

    @cached_property
    def passed(self) -> Bools:
        """Whether the reward tests pass."""
        return self.flag("passed")

    @cached_property
    def splits(self) -> dict[str, Bools]:
        """Rows of each outcome: ``all``, ``pass``, ``fail``, and ``truncated`` (whatever its verdict)."""
        return {
            "all": np.ones(len(self), dtype=bool),
            "pass": self.passed,
            "fail": ~self.passed,
            "truncated": self.flag("truncated"),
        }

    @cached_property
    def sets(self) -> dict[str, Bools]:
        """``sampled``: everything rolled out. ``trained``: what entered the loss."""
        return {"sampled": np.ones(len(self), dtype=bool), "trained": self.flag("kept")}

    def take(self, chosen: Bools) -> Rows:
        """The rows where ``chosen`` is true."""
        if chosen.all():
            return self
        return Rows(self._frame, self._of_chosen(np.arange(self._frame.height))[chosen])

    def steps(self, first: int, last: int) -> Rows:
        """The rows whose updates done lie in ``first`` to ``last``, both included; no copy is made."""
        low, high = np.searchsorted(self.done, [first, last + 1])
        if self._chosen is not None:
            return Rows(self._frame, self._chosen[low:high])
        return Rows(self._frame.slice(low, high - low))


def training_frame(tables: Tables) -> pl.DataFrame:
    """Valid trajectories with a verdict of some runs, in memory."""
    import polars as pl

    task = pl.col("task_id").fill_null("").cast(pl.Categorical).to_physical()
    return (
        tables.scan("trajectories", keep_nan=True)
        .filter(pl.col("valid").fill_null(True) & pl.col("passed").is_not_null())
        .select("run_id", "sample_idx", "stop_reason", task.alias(TASK), *_COLUMNS, *_FLAGS)
        .collect(engine="in-memory")
    )


def read_rows(tables: Tables) -> Rows:
    """The rows of one run."""
    frame = training_frame(tables)
    return Rows(frame if _in_order(frame) else frame.sort(_ORDER))


def rows_by_run(frame: pl.DataFrame) -> dict[str, Rows]:
    """run_id -> its rows, for the runs that have any."""
    if frame.height == 0:
        return {}
    if not _in_order(frame):
        frame = frame.sort(_ORDER)
    starts = _run_starts(frame)
    bounds = pairwise([*starts.tolist(), frame.height])
    return {frame["run_id"][low]: Rows(frame.slice(low, high - low)) for low, high in bounds}


_ORDER = ("run_id", "step", "group_id", "sample_idx")


def _run_starts(frame: pl.DataFrame) -> NDArray[np.int64]:
    """Where another run begins than in the row before."""
    return np.flatnonzero((frame["run_id"] != frame["run_id"].shift(1)).fill_null(True).to_numpy())


def _in_order(frame: pl.DataFrame) -> bool:
    """Whether rows lie as wanted, as runs write them: looking is ten times cheaper than sorting."""
    starts = _run_starts(frame)
    if starts.size != frame["run_id"].n_unique():
        return False
    rising, equal = np.zeros(frame.height, dtype=bool), np.ones(frame.height, dtype=bool)
    rising[starts] = True
    for name in _ORDER[1:]:
        change = np.diff(_floats(frame[name]), prepend=np.nan)
        rising |= equal & (change > 0)
        equal &= change == 0
    return bool((rising | equal).all())


def _floats(column: pl.Series) -> Floats:
    import polars as pl

    return np.asarray(column.cast(pl.Float64).to_numpy(), dtype=np.float64)
