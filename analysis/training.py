"""Training trajectories of all runs, read once: sums per step for curves, and what single runs are made of.

Runs are read in batches, because a query costs as much as reading ten small runs; a batch is bounded in rows,
so memory does not grow with the study. Whatever needs all rows of a run at once (quantiles, ranks,
correlations) is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from analysis.curves import sums_per_step
from analysis.endpoints import Endpoint
from analysis.frames import Tables
from analysis.metrics import TRAINING
from analysis.rows import TASK, Rows, read_rows, rows_by_run, training_frame
from analysis.run_lengths import RunLengths, run_lengths
from analysis.signals import expected_kept
from analysis.step_signals import Signals
from analysis.study import Run

if TYPE_CHECKING:
    import polars as pl

READERS = 2
"""Batches that are read at the same time: Polars and NumPy let go of the interpreter."""

BATCH_ROWS = 100_000
"""Trajectories of one batch, if single runs are not larger: about 30 MB."""

T = TypeVar("T")


@dataclass(frozen=True)
class Training:
    """``sums`` per run and step; per run its ``lengths`` up to its own last step, ``last``.

    ``solved``: per task of a run, trajectories that passed and trajectories.
    """

    sums: pl.DataFrame
    lengths: dict[str, RunLengths]
    last: dict[str, int]
    solved: dict[str, tuple[Any, Any]]


def read_training(tables: Tables) -> Training:
    """Read the trajectories of every run."""
    import polars as pl

    parts = list(in_batches(tables, "trajectories", _read)) or [_read(tables)]
    sums = pl.concat([part.sums for part in parts]).sort("run_id", "step")
    return Training(
        sums,
        {run_id: one for part in parts for run_id, one in part.lengths.items()},
        {run_id: one for part in parts for run_id, one in part.last.items()},
        {run_id: one for part in parts for run_id, one in part.solved.items()},
    )


def in_batches(tables: Tables, table: str, read: Callable[[Tables], T]) -> Iterator[T]:
    """What ``read`` makes of each batch of runs, in order."""
    with ThreadPoolExecutor(READERS) as pool:
        yield from pool.map(read, tables.batches(table, BATCH_ROWS))


def _read(tables: Tables) -> Training:
    frame = training_frame(tables)
    runs = {run.run_id: run for run in tables.runs}
    rows = rows_by_run(frame)
    return Training(
        sums_per_step(frame),
        {run_id: run_lengths(one, None, _loss(runs[run_id])) for run_id, one in rows.items()},
        {run_id: int(one.done[-1]) for run_id, one in rows.items()},
        {run_id: _solved(one) for run_id, one in rows.items()},
    )


def _loss(run: Run) -> str:
    return str((run.config.get("loss") or {}).get("kind", "token_mean"))


def _solved(rows: Rows) -> tuple[Any, Any]:
    _, codes = np.unique(rows[TASK], return_inverse=True)
    return np.bincount(codes, rows.passed), np.bincount(codes)


def lengths_at(
    tables: Tables, training: Training, ends: Mapping[tuple[str, str], Endpoint]
) -> dict[str, RunLengths]:
    """run_id -> its lengths, read off where its variant is if it counts there.

    That is a run's own last step unless runs of its variant died: only then is it read again.
    """
    found = {}
    for run in tables.runs:
        end = ends[run.variant, TRAINING]
        at = end.step if run.run_id in end.run_ids else None
        if at is None or at == training.last.get(run.run_id):
            found[run.run_id] = training.lengths.get(run.run_id) or RunLengths({}, {}, {}, {})
        else:
            found[run.run_id] = run_lengths(read_rows(tables.of(run)), at, _loss(run))
    return found


def expected_share(training: Training, run_id: str, signals: Signals | None) -> float | None:
    """Share of mixed groups that the tasks' pass rates over the run imply, at the recorded group size."""
    if signals is None or run_id not in training.solved:
        return None
    groups = float(np.nansum(signals["groups_sampled"]))
    sampled = float(np.nansum(signals["traj_sampled"]))
    if groups <= 0 or sampled <= 0:
        return None
    return expected_kept(*training.solved[run_id], sampled / groups)
