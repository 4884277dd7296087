"""A sweep with everything a report needs, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analysis.curves import Curve, evaluation_curves, training_curves
from analysis.details import RunDetails, read_details, stability_at
from analysis.efficiency import Grounds, efficiency
from analysis.endpoints import Endpoint, choose_endpoint
from analysis.evaluations import read_evaluations
from analysis.frames import Gap, Tables, open_tables
from analysis.metrics import BASE_CURVE, TRAIN_WINDOW, TRAINING, Metric
from analysis.statistics import exact_mean
from analysis.step_signals import Signals, phase_seconds, read_signals
from analysis.study import Run, Sweep, load_sweeps, require_readable
from analysis.training import expected_share, lengths_at, read_training
from gagar_core.errors import RecordsError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class SweepData:
    """A sweep, its curves, and what was odd about its files. ``ends`` is keyed by (variant, source)."""

    sweep: Sweep
    curves: dict[str, Curve]
    outcomes: pl.DataFrame
    seconds: dict[str, dict[str, float]]
    last_steps: dict[str, int]
    ends: dict[tuple[str, str], Endpoint]
    gaps: list[Gap]
    nonfinite: dict[str, dict[str, int]]
    unknown: Mapping[str, Sequence[str]]
    signals: Mapping[str, Signals]
    details: Mapping[str, RunDetails]
    grounds: Grounds

    def shared_endpoint(self, metric: Metric, one: str, other: str) -> Endpoint:
        """Where two variants are compared: the same step for both, chosen from the two alone."""
        runs = self.sweep.runs_of(one) + self.sweep.runs_of(other)
        return choose_endpoint(self.curves[BASE_CURVE[metric.source]], runs)

    def values(self, metric: Metric, endpoint: Endpoint) -> dict[str, float]:
        """run_id -> value at the endpoint, for the runs that have one."""
        if endpoint.step is None:
            return {}
        return value_at(self.curves[metric.key].select(endpoint.run_ids), metric, endpoint.step)


def value_at(curve: Curve, metric: Metric, step: int) -> dict[str, float]:
    """run_id -> value of a metric at a step: of the evaluation there, or of the training steps up to it."""
    return curve.window(step, TRAIN_WINDOW) if metric.source == TRAINING else curve.at(step)


def read(path: Path) -> list[SweepData]:
    """Load what lies at a root, a sweep or a run folder.

    Raises ``RecordsError``, naming what is wrong with every run, if nothing can be read.
    """
    opened = [open_tables(sweep) for sweep in load_sweeps(path)]
    require_readable(path, [sweep for sweep, _ in opened])
    data = [_read_sweep(path, sweep, tables) for sweep, tables in opened]
    if not any(curve.steps.size for part in data for curve in part.curves.values()):
        raise RecordsError(
            f"{path}: nothing is recorded yet: no run has rows in evals or trajectories; try again once a "
            "run has written its first chunk"
        )
    return data


def _read_sweep(path: Path, sweep: Sweep, tables: Tables) -> SweepData:
    """Read a sweep; if a query fails on a file that looked well, find it, leave its run out, read again.

    To find it every file is read from end to end: as long as a report takes, but only where one is damaged.
    """
    import polars as pl

    try:
        return read_tables(sweep, tables)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, RecordsError) as err:
        suspects, rest = open_tables(sweep, thorough=True)
        if [run.status for run in suspects.runs] == [run.status for run in sweep.runs]:
            raise RecordsError(f"{sweep.path}: a table cannot be read: {err}") from err
        require_readable(path, [suspects])
        return read_tables(suspects, rest)


def read_tables(sweep: Sweep, tables: Tables) -> SweepData:
    """Read the opened tables of a sweep."""
    evaluations, training = read_evaluations(tables), read_training(tables)
    ids = [run.run_id for run in tables.runs]
    curves = evaluation_curves(ids, evaluations.outcomes) | training_curves(ids, training.sums)
    ends = {
        (label, source): choose_endpoint(curves[base], sweep.runs_of(label))
        for label in sweep.variants
        for source, base in BASE_CURVE.items()
    }
    signals, nonfinite = read_signals(tables)
    grounds, costs = efficiency(sweep, curves["held_out_pass"], signals)
    lengths, medians = lengths_at(tables, training, ends), evaluations.medians_at(ends)
    details = {}
    for run in tables.runs:
        own = signals.get(run.run_id)
        stability = stability_at(run, curves["held_out_pass"], ends, own)
        if (kept := expected_share(training, run.run_id, own)) is not None:
            stability.values["expected_kept"] = kept
        details[run.run_id] = read_details(run, lengths[run.run_id], stability, medians.get(run.run_id))
    return SweepData(
        sweep=sweep,
        curves=curves | costs,
        outcomes=evaluations.outcomes,
        seconds=phase_seconds(signals),
        last_steps=_last_steps(curves[BASE_CURVE[TRAINING]]),
        ends=ends,
        gaps=tables.gaps(),
        nonfinite=nonfinite,
        unknown=tables.unknown,
        signals=signals,
        details=details,
        grounds=grounds,
    )


def _last_steps(curve: Curve) -> dict[str, int]:
    found = {}
    for run_id, row in zip(curve.run_ids, curve.values, strict=True):
        present = np.flatnonzero(np.isfinite(row))
        if present.size:
            found[run_id] = int(curve.steps[present[-1]])
    return found


def by_seed(runs: Sequence[Run], values: Mapping[str, float]) -> dict[int, float]:
    """Seed block -> value; two runs of one seed block are one replicate, their mean."""
    found: dict[int, list[float]] = {}
    for run in runs:
        if run.run_id in values:
            found.setdefault(run.seed, []).append(values[run.run_id])
    return {seed: exact_mean(np.array(members)) for seed, members in found.items()}
