"""The ``steps`` table as arrays: one query for all runs, one dictionary of columns per run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.frames import Tables
from analysis.metrics import PHASES
from analysis.statistics import Floats

if TYPE_CHECKING:
    import polars as pl

COLUMNS = (
    "groups_sampled", "groups_kept", "groups_all_pass", "groups_all_fail", "traj_sampled", "traj_used",
    "traj_invalid", "gen_tokens", "obs_tokens", "wasted_tokens", "reward_mean", "pass_rate",
    "mean_total_tokens", "mean_test_runs", "truncated_rate", "loss", "entropy_tok", "entropy_traj",
    "kl_k1", "kl_k3", "kl_ref", "grad_norm", "clip_low", "clip_high", "ratio_p99", "ratio_p999",
    "ratio_max", "is_ess", "adv_ess", "logprob_gap", "lambda_mean", "groups_capped", "groups_fallback",
    "groups_abstained", "conservation", "updates", "n_nonfinite", "grader_actions", "grader_tokens",
    "sandbox_timeouts",
    *PHASES,
)  # fmt: skip
"""Columns of ``steps`` that the stability report and the cost axes read."""

Signals = Mapping[str, Floats]
"""Column -> one value per step; ``done`` is updates done after each step. Null and NaN are NaN."""


def read_signals(tables: Tables) -> tuple[dict[str, Signals], dict[str, dict[str, int]]]:
    """run_id -> its signals in the order of steps, and run_id -> column -> NaN or infinite entries.

    A run without steps is in neither. About 400 bytes a step: 80 MB for 1,000 runs of 200 steps.
    """
    import polars as pl
    import polars.selectors as cs

    names = dict.fromkeys(["run_id", "step", *COLUMNS])
    wanted = cs.by_name(*names) | cs.float()
    frame = tables.scan("steps", keep_nan=True).select(wanted).collect().sort("run_id", "step")
    if frame.height == 0:
        return {}, {}
    ids = frame["run_id"].to_numpy()
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    columns = {"done": frame["step"].to_numpy().astype(np.float64) + 1}
    columns |= {name: np.asarray(frame[name].cast(pl.Float64).to_numpy()) for name in COLUMNS}
    parts = {name: np.split(column, starts[1:]) for name, column in columns.items()}
    signals: dict[str, Signals] = {
        str(ids[start]): {name: part[i] for name, part in parts.items()} for i, start in enumerate(starts)
    }
    return signals, _nonfinite(frame)


def _nonfinite(frame: pl.DataFrame) -> dict[str, dict[str, int]]:
    import polars.selectors as cs

    bad = (~cs.float().is_finite()).sum()
    found: dict[str, dict[str, int]] = {}
    for row in frame.group_by("run_id", maintain_order=True).agg(bad).iter_rows(named=True):
        run_id = str(row.pop("run_id"))
        if nonzero := {name: int(n) for name, n in row.items() if n}:
            found[run_id] = nonzero
    return found


def up_to(signals: Signals, end: int | None) -> Signals:
    """The steps that were done by ``end`` updates; all of them if it is null."""
    if end is None:
        return signals
    keep = signals["done"] <= end
    return {name: column[keep] for name, column in signals.items()}


def cumulative(signals: Signals, column: str) -> Floats:
    """Running sum over steps; a step without the value adds nothing."""
    return np.cumsum(np.nan_to_num(signals[column]))


def total_cpu(signals: Signals) -> Floats:
    """CPU seconds of all phases of each step, grading included; NaN where no phase was recorded."""
    phases = np.stack([signals[name] for name in PHASES])
    known = np.isfinite(phases)
    return np.where(known.any(axis=0), np.where(known, phases, 0.0).sum(axis=0), np.nan)


def costs_at(signals: Signals | None, steps: Any, start: float = 0.0) -> dict[str, Floats]:
    """Generated tokens and CPU seconds spent until each of ``steps`` updates was done; NaN if unrecorded."""
    at = np.asarray(steps, dtype=np.float64)
    if signals is None or signals["done"].size == 0:
        return {"tokens": np.where(at == 0, 0.0, np.nan), "cpu_s": np.where(at == 0, start, np.nan)}
    done = np.append(0.0, signals["done"])
    position = np.searchsorted(done, at, side="right") - 1
    cpu = np.append(0.0, np.cumsum(np.nan_to_num(total_cpu(signals)))) + start
    tokens = np.append(0.0, cumulative(signals, "gen_tokens"))
    # a step without a record makes a sum a lower bound: better no number
    nothing = np.full(at.size, np.nan)
    return {
        "tokens": tokens[position] if np.isfinite(signals["gen_tokens"]).all() else nothing,
        "cpu_s": cpu[position] if np.isfinite(total_cpu(signals)).all() else nothing,
    }


def phase_seconds(signals: Mapping[str, Signals]) -> dict[str, dict[str, float]]:
    """run_id -> phase -> CPU seconds over all steps; a phase that was never recorded is absent."""
    return {
        run_id: {phase: float(np.nansum(one[phase])) for phase in PHASES if np.isfinite(one[phase]).any()}
        for run_id, one in signals.items()
    }
