"""A tuning as data: trials, their settings and objective, and how each setting goes with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.data import SweepData
from analysis.reinforcement import length_push
from analysis.statistics import exact_mean
from gagar_core.errors import RecordsError

if TYPE_CHECKING:
    import polars as pl

FILE = "trials.parquet"


def tuning_section(data: SweepData) -> dict[str, Any] | None:
    """Null unless the sweep's folder holds the trials of a tuning.

    A trial's value is the mean of its seeds' objectives; one of which a seed failed has none. Importance is
    the rank correlation of a numeric setting with the value: no model, and no more than a hint at few trials.
    """
    import polars as pl

    path = data.sweep.path / FILE
    if not path.exists():
        return None
    try:
        frame = pl.read_parquet(path)
        trials = trials_of(frame)
    except (pl.exceptions.PolarsError, OSError, ValueError, KeyError) as err:
        raise RecordsError(
            f"{path} cannot be read: {err}; write it again with `python -m sweeps tune`"
        ) from err
    complete = [trial for trial in trials if trial["value"] is not None]
    names = sorted({name for trial in trials for name in trial["params"]})
    return {
        "n_trials": len(trials),
        "n_complete": len(complete),
        "trials": trials,
        "settings": [_setting(name, complete) for name in names],
        "best": max(complete, key=lambda t: (t["value"], -t["trial"]))["trial"] if complete else None,
        "note": "the best of many trials looks better than it is: measure it on other seeds",
    }


def trials_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """One entry per trial from one row per trial and seed."""
    found = []
    for (number,), rows in frame.sort("trial", "seed").group_by("trial", maintain_order=True):
        values = rows["value"].to_list()
        whole = all(value is not None for value in values) and rows["state"][0] == "complete"
        found.append(
            {
                "trial": number,
                "params": json.loads(rows["params"][0]),
                "value": exact_mean(np.array(values, dtype=np.float64)) if whole else None,
                "values": values,
                "seeds": rows["seed"].to_list(),
                "runs": rows["run_id"].to_list(),
                "state": rows["state"][0],
                "reason": rows["reason"][0] or "",
            }
        )
    return found


def _setting(name: str, complete: list[dict[str, Any]]) -> dict[str, Any]:
    pairs = [(trial["params"][name], trial["value"]) for trial in complete if name in trial["params"]]
    numeric = all(isinstance(x, int | float) and not isinstance(x, bool) for x, _ in pairs)
    row: dict[str, Any] = {"name": name, "n": len(pairs), "numeric": numeric, "rank_correlation": None}
    if numeric and len(pairs) > 2:
        x, y = np.array(pairs, dtype=np.float64).T
        row["rank_correlation"] = length_push(x, y, np.zeros(len(pairs))).spearman
    return row
