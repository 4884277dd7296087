"""Executes one claimed attempt in this process: read the configuration, train, write records and result."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.attempts import Attempt
from experiments.build import LiveRun, build_run
from experiments.environment import describe
from experiments.schema import RunConfig, from_record
from gagar_core.errors import DivergedError
from gagar_core.records import RunFolder, publish_once, to_json
from gagar_core.training.evaluate import audit_counts

Progress = Callable[[dict[str, Any]], None]


def execute(folder: Path, attempt: int, progress: Progress = lambda line: None) -> dict[str, Any]:
    """Run the configuration in ``folder/config.json`` as attempt ``attempt``; return its result.

    Writes tables and, at the end, ``result.json``; the caller (the parent process) writes the exit file. One
    that diverges has a result too: ``status`` is then ``diverged``, naming the step. Raises ``GagarError``
    for faults a user can act on. ``progress`` is told a few figures after every step.
    """
    run = RunFolder(folder)
    config = from_record(run.config["config"])
    # the folder may have been copied or moved: artifacts and records belong beside it, wherever it lies now
    config.root, config.name = str(folder.parents[2]), folder.parents[1].name
    live = build_run(config, folder, run.run_id, attempt)
    try:
        publish_once(folder / "meta.json", to_json(describe(config, live)))
        outcome = _loop(config, live, Attempt(folder, attempt), progress)
    finally:
        live.close()
    result = outcome | {"attempt": attempt, "run_id": run.run_id}
    publish_once(folder / "result.json", to_json(result))
    return result


def _loop(config: RunConfig, live: LiveRun, attempt: Attempt, progress: Progress) -> dict[str, Any]:
    budget = config.budget
    scores = {0: _evaluate(live, 0)}
    status, reason, step = "finished", "", 0
    try:
        for step in range(budget.steps):
            line = _step(live, step)
            done = step + 1
            if done == budget.steps or (budget.eval_every and done % budget.eval_every == 0):
                scores[done] = _evaluate(live, done)
                line["held_out_pass"] = scores[done]["held_out_pass"]
            with live.clock.phase("record"):
                live.writer.end_step()
            shown: dict[str, Any] = {"step": done, "steps": budget.steps, **line}
            attempt.beat(shown)
            progress(shown)
    except DivergedError as err:
        status, reason = "diverged", f"at step {step}: {err}"
    live.writer.flush()
    return {
        "status": status,
        "reason": reason,
        "steps": max(scores),
        "first": scores[0],
        "last": scores[max(scores)],
    }


def _step(live: LiveRun, step: int) -> dict[str, Any]:
    """One training step with its records; returns the figures of the progress line."""
    started, lr = time.perf_counter(), live.updater.lr
    before = vars_of(live.sandbox.counters)
    data = live.trainer.run_step(step)
    # audits are measured after the update and go into the records only
    flat = [(t, group.task) for group in data.groups for t in group.trajectories]
    with live.clock.phase("record"):
        audits = audit_counts([t for t, _ in flat], [task for _, task in flat], live.sandbox)
        spent = vars_of(live.sandbox.counters)
        extra: dict[str, Any] = {f"sandbox_{name}": spent[name] - before[name] for name in before}
    seconds = live.clock.take()
    extra |= {"lr": lr, "step_s": time.perf_counter() - started, **seconds}
    # its own seconds are counted with the next step: a row cannot hold the time of writing itself
    with live.clock.phase("record"):
        live.recorder.record(data, audits, extra)
    trajectories = [t for t, _ in flat]
    return {
        "pass_rate": float(np.mean([t.passed for t in trajectories])),
        "tokens": float(np.mean([t.gen_tokens + t.obs_tokens for t in trajectories])),
        "test_runs": float(np.mean([t.test_runs for t in trajectories])),
        "seconds": time.perf_counter() - started,
    }


def vars_of(counters: Any) -> dict[str, int]:
    """The sandbox counters that the ``steps`` table has columns for."""
    return {name: int(getattr(counters, name)) for name in ("calls", "cache_hits", "timeouts", "infra")}


def _evaluate(live: LiveRun, updates: int) -> dict[str, float]:
    with live.clock.paused():
        rows = live.evaluation.rows(live.policy)
    live.writer.add("evals", updates, rows)
    return {
        "held_out_pass": float(np.mean([row["passed"] for row in rows])),
        "held_out_audit_pass": float(np.mean([row["audit_passed"] for row in rows])),
        "tokens": float(np.mean([row["gen_tokens"] + row["obs_tokens"] for row in rows])),
        "test_runs": float(np.mean([row["test_runs"] for row in rows])),
    }
