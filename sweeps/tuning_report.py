"""What a tuning found: the ``trials`` table, and ``best.yaml`` with the words that use its best point."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import yaml
from optuna.trial import FrozenTrial, TrialState

from experiments.identity import run_id
from gagar_core.records import RunFolder, publish, write_table
from gagar_core.records.writer import polars_schema
from sweeps.ledger import Ledger
from sweeps.study import Study, point_of
from sweeps.tuning import OBJECTIVE, overrides_of, trial_config

_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.FAIL: "fail",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
    TrialState.PRUNED: "pruned",
}


def write_tuning(ledger: Ledger) -> str:
    """Write ``trials.parquet`` and, if a trial is complete, ``best.yaml``; returns one line about them."""
    study = Study(ledger, create=False)
    rows = [row for trial in study.trials for row in _rows(ledger, study, trial)]
    schema = polars_schema("trials")
    columns = {name: [row.get(name) for row in rows] for name in schema}
    write_table(pl.DataFrame(columns, schema=schema), ledger.path / "trials.parquet")
    complete = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    if not complete:
        return f"{ledger.name}: no trial is complete"
    # of equal values the earliest: ties must not depend on the order in which workers told
    best = max(complete, key=lambda trial: (trial.value or 0.0, -trial.number))
    content = best_point(ledger, study, best)
    publish(ledger.path / "best.yaml", yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode())
    words = " ".join(content["overrides"])
    return f"{ledger.name}: {len(complete)} trials complete; best {best.value:.4f}: {words}"


def best_point(ledger: Ledger, study: Study, best: FrozenTrial) -> dict[str, Any]:
    """Content of ``best.yaml``."""
    choice, settings = point_of(best)
    counts = study.counts()
    seeds = ledger.head["seeds"]
    words = overrides_of(ledger.head["axis"], choice, settings)
    fresh = ",".join(str(max(seeds) + 1 + number) for number in range(5))
    return {
        "schema_version": 1,
        "what": ledger.head["what"],
        "objective": f"mean {OBJECTIVE} over seeds",
        "trial": best.number,
        "value": best.value,
        "seeds": seeds,
        "values": [row["value"] for row in _rows(ledger, study, best)],
        "overrides": words,
        "base": ledger.head["base"],
        "trials": {"complete": counts.complete, "failed": counts.failed, "lost": counts.lost},
        "note": f"the best of {counts.complete} trials looks better than it is: measure it on other seeds",
        "measure": f"python -m sweeps submit {' '.join([*ledger.head['base'], *words])} seed={fresh}",
    }


def _rows(ledger: Ledger, study: Study, trial: FrozenTrial) -> Iterator[dict[str, Any]]:
    """One row per seed block of a trial."""
    choice, settings = point_of(trial)
    if not choice:
        return
    for seed in ledger.head["seeds"]:
        identity = run_id(trial_config(ledger, choice, settings, seed))
        result = RunFolder(ledger.run_folder(identity)).result
        # single seeds of a failed trial may have finished: they are no objective
        whole = trial.state == TrialState.COMPLETE and result.get("status") == "finished"
        value = result["last"][OBJECTIVE] if whole else None
        yield {
            "trial": trial.number,
            "run_id": identity,
            "seed": seed,
            "params": json.dumps({ledger.head["axis"]: choice, **settings}, sort_keys=True),
            "value": value,
            "state": _STATES[trial.state],
            "reason": study.reason(trial.number),
            "started_at": _time(trial.datetime_start),
            "ended_at": _time(trial.datetime_complete),
        }


def _time(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
