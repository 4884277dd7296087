"""Training trajectories of one run as NumPy columns, read once and summarised many times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.statistics import Floats
from analysis.study import Run
from gagar_core import records

if TYPE_CHECKING:
    import polars as pl

Bools = NDArray[np.bool_]

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


@dataclass(frozen=True)
class Rows:
    """Valid trajectories with a verdict, sorted by step, group and sample.

    ``numbers`` holds every numeric column as float64 with NaN for null; ``flags`` booleans (null is false);
    ``stop`` a code of why each one ended, whose word is in ``reasons``; ``task`` a code of what it was asked.
    """

    numbers: dict[str, Floats]
    flags: dict[str, Bools]
    known: dict[str, Bools]
    stop: NDArray[np.uint32]
    reasons: dict[int, str]
    task: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.stop)

    def __getitem__(self, column: str) -> Floats:
        return self.numbers[column]

    @cached_property
    def done(self) -> NDArray[np.int64]:
        """Updates done after the step of each row."""
        return self.numbers["step"].astype(np.int64) + 1

    @cached_property
    def passed(self) -> Bools:
        """Whether the reward tests pass."""
        return self.flags["passed"]

    @cached_property
    def splits(self) -> dict[str, Bools]:
        """Rows of each outcome: ``all``, ``pass``, ``fail``, and ``truncated`` (whatever its verdict)."""
        return {
            "all": np.ones(len(self), dtype=bool),
            "pass": self.passed,
            "fail": ~self.passed,
            "truncated": self.flags["truncated"],
        }

    @cached_property
    def sets(self) -> dict[str, Bools]:
        """``sampled``: everything rolled out. ``trained``: what entered the loss."""
        return {"sampled": np.ones(len(self), dtype=bool), "trained": self.flags["kept"]}

    def take(self, chosen: Bools) -> Rows:
        """The rows where ``chosen`` is true."""
        if chosen.all():
            return self
        return Rows(
            {name: column[chosen] for name, column in self.numbers.items()},
            {name: column[chosen] for name, column in self.flags.items()},
            {name: column[chosen] for name, column in self.known.items()},
            self.stop[chosen],
            self.reasons,
            self.task[chosen],
        )


def read_rows(run: Run) -> Rows:
    """Read the trajectories of a run: one query, 19,200 rows in about 10 ms."""
    import polars as pl

    frame = (
        records.scan(run.path, "trajectories")
        .filter(pl.col("valid").fill_null(True) & pl.col("passed").is_not_null())
        .select("sample_idx", "stop_reason", "task_id", *_COLUMNS, *_FLAGS)
        .collect()
    )
    return rows_of_frame(frame if _in_order(frame) else frame.sort(_ORDER))


_ORDER = ("step", "group_id", "sample_idx")


def _in_order(frame: pl.DataFrame) -> bool:
    """Whether rows lie as wanted, as a run writes them: looking is ten times cheaper than sorting."""
    rising = np.zeros(max(0, frame.height - 1), dtype=bool)
    equal = ~rising
    for name in _ORDER:
        change = np.diff(_floats(frame[name]))
        rising |= equal & (change > 0)
        equal &= change == 0
    return bool((rising | equal).all())


def rows_of_frame(frame: pl.DataFrame) -> Rows:
    """``Rows`` from a frame with the columns of ``trajectories``; absent columns are null."""
    import polars as pl

    def column(name: str) -> pl.Series:
        return frame[name] if name in frame.columns else pl.Series(name, [None] * frame.height)

    numbers = {name: _floats(column(name)) for name in _COLUMNS}
    flags = {name: column(name).cast(pl.Boolean).fill_null(False).to_numpy() for name in _FLAGS}
    known = {name: column(name).is_not_null().to_numpy() for name in _FLAGS}
    # only which rows share a word matters: codes are a hundred times cheaper than text
    stop, task = (
        column(name).cast(pl.String).fill_null("").cast(pl.Categorical) for name in ("stop_reason", "task_id")
    )
    words = stop.unique()
    reasons = dict(zip(words.to_physical().to_list(), words.to_list(), strict=True))
    return Rows(numbers, flags, known, stop.to_physical().to_numpy(), reasons, task.to_physical().to_numpy())


def _floats(column: pl.Series) -> Floats:
    import polars as pl

    return np.asarray(column.cast(pl.Float64).to_numpy(), dtype=np.float64)
