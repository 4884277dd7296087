"""Executes one claimed attempt in this process: read the configuration, train, write records and result."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.attempts import Attempt
from experiments.build import LiveRun, build_run
from experiments.environment import describe
from experiments.schema import RunConfig, from_record
from gagar_core.errors import DivergedError, StoppedError
from gagar_core.records import RunFolder, publish_once, to_json
from gagar_core.training import checkpoint
from gagar_core.training.evaluate import audit_counts

_SANDBOX_COLUMNS = ("calls", "cache_hits", "timeouts", "infra")

Progress = Callable[[dict[str, Any]], None]

SAMPLED = (
    "groups_sampled", "groups_kept", "traj_sampled", "traj_wasted", "gen_tokens", "wasted_tokens",
)  # fmt: skip
"""Columns of ``steps`` that a result adds up: how much of what was sampled was trained on."""


def execute(
    folder: Path, attempt: int, progress: Progress = lambda line: None, config: RunConfig | None = None
) -> dict[str, Any]:
    """Run the configuration in ``folder/config.json`` as attempt ``attempt``; return its result.

    Goes on from the newest complete checkpoint of an earlier attempt. Writes tables and, at the end,
    ``result.json``; the caller (the parent process) writes the exit file. A divergence is a result too:
    ``status`` is then ``diverged``, and the reason names the step. ``progress`` is told a few figures after
    every step. ``config`` = the same run with other bookkeeping (sandbox level) for this attempt.

    Raises ``StoppedError`` after SIGTERM or SIGUSR2, with a checkpoint on disk, and other ``GagarError`` for
    faults a user can act on.
    """
    run = RunFolder(folder)
    config = config or from_record(run.config["config"])
    # the folder may have been copied or moved: artifacts and records belong beside it, wherever it lies now
    config.root, config.name = str(folder.parents[2]), folder.parents[1].name
    live = build_run(config, folder, run.run_id, attempt)
    try:
        publish_once(folder / "meta.json", to_json(describe(config, live)))
        outcome = Loop(config, live, Attempt(folder, attempt), run.run_id).run(progress)
    finally:
        live.close()
    newer = [number for number in run.attempts() if number > attempt]
    if newer:
        msg = f"attempt {newer[-1]} of {run.run_id} was begun meanwhile; that of attempt {attempt} is dropped"
        raise StoppedError(msg)
    result = outcome | {"attempt": attempt, "run_id": run.run_id}
    publish_once(folder / "result.json", to_json(result))
    return result


class Loop:
    """The steps of one attempt, with evaluations, records and checkpoints between them."""

    def __init__(self, config: RunConfig, live: LiveRun, attempt: Attempt, run_id: str) -> None:
        self._config = config
        self._live = live
        self._attempt = attempt
        self._run_id = run_id
        self._scores: dict[str, dict[str, float]] = {}
        self._sampled = dict.fromkeys(SAMPLED, 0)
        self._stop = threading.Event()

    def run(self, progress: Progress) -> dict[str, Any]:
        """Train to the end, or until diverged or asked to stop."""
        self._listen()
        start = step = self._resume()
        if start == 0:
            self._evaluate(0)
        status, reason = "finished", ""
        try:
            for step in range(start, self._config.budget.steps):
                self._step(step, progress)
        except DivergedError as err:
            status, reason = "diverged", f"at step {step}: {err}"
        self._live.writer.flush()
        last = max(self._scores, key=int)
        return {
            "status": status,
            "reason": reason,
            "steps": int(last),
            "first": self._scores["0"],
            "last": self._scores[last],
            "sampling": self._sampled,
            "grader_flags": self._live.grader.flags,
        }

    def _listen(self) -> None:
        """Take SIGTERM and SIGUSR2 as a wish to stop between two steps; only the main thread may."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGUSR2):
                signal.signal(number, lambda *_: self._stop.set())

    def _resume(self) -> int:
        """Put back the newest checkpoint; returns the step to go on with."""
        found = checkpoint.newest(self._attempt.folder, self._run_id)
        if found is None:
            return 0
        checkpoint.restore(found, self._live.policy.network, self._live.updater.optimiser)
        self._scores, self._sampled = found.state["scores"], found.state["sampled"]
        self._live.trainer.restore(found.state["trainer"], checkpoint.grader_weights(found))
        return found.step

    def _checkpoint(self, step: int) -> None:
        """Everything up to ``step`` is on disk once this returns; records first, manifest last."""
        live = self._live
        live.writer.flush()
        checkpoint.save(
            self._attempt.folder,
            self._run_id,
            self._attempt.number,
            step,
            live.policy.network,
            live.updater.optimiser,
            {"scores": self._scores, "sampled": self._sampled, "trainer": live.trainer.state},
            live.grader.weights if live.grader.changes else None,
        )

    def _step(self, step: int, progress: Progress) -> None:
        budget, live, done = self._config.budget, self._live, step + 1
        row, figures = _train(live, step)
        self._sampled = {name: self._sampled[name] + row[name] for name in SAMPLED}
        line: dict[str, Any] = {"step": done, "steps": budget.steps, **figures}
        line["grader_flags"] = list(live.grader.flags)
        if done == budget.steps or (budget.eval_every and done % budget.eval_every == 0):
            line["held_out_pass"] = self._evaluate(done)["held_out_pass"]
        with live.clock.phase("record"):
            live.writer.end_step()
        every, last = self._config.checkpoint_every, done == budget.steps
        stop = self._stop.is_set() and not last  # looked at once: a later signal waits for the next step
        if stop or (every and done % every == 0 and not last):
            self._checkpoint(done)
        self._attempt.beat(line)
        progress(line)
        if stop:
            msg = f"stopped by a signal after step {done} of {budget.steps}; the next attempt goes on there"
            raise StoppedError(msg)

    def _evaluate(self, updates: int) -> dict[str, float]:
        with self._live.clock.paused():
            rows = self._live.evaluation.rows(self._live.policy)
        self._live.writer.add("evals", updates, rows)
        self._scores[str(updates)] = {
            "held_out_pass": float(np.mean([row["passed"] for row in rows])),
            "held_out_audit_pass": float(np.mean([row["audit_passed"] for row in rows])),
            "tokens": float(np.mean([row["gen_tokens"] + row["obs_tokens"] for row in rows])),
            "test_runs": float(np.mean([row["test_runs"] for row in rows])),
        }
        return self._scores[str(updates)]


def _train(live: LiveRun, step: int) -> tuple[dict[str, Any], dict[str, float]]:
    """One training step with its records; its row of ``steps``, and figures for the progress line."""
    started = time.perf_counter()
    before = _counted(live.sandbox.counters)
    data = live.trainer.run_step(step)
    # audits are measured after the update and go into the records only
    flat = [(t, group.task) for group in data.groups for t in group.trajectories]
    with live.clock.phase("record"):
        audits = audit_counts([t for t, _ in flat], [task for _, task in flat], live.sandbox)
        spent = _counted(live.sandbox.counters)
        delta = {name: spent[name] - before[name] for name in before}
        extra: dict[str, Any] = {f"sandbox_{name}": delta[name] for name in _SANDBOX_COLUMNS}
        extra["tamper_hints"] = 1000 * delta["tampering"] / max(delta["programs"], 1)
    seconds = live.clock.take()
    extra |= {"lr": live.updater.lr_at(step), "step_s": time.perf_counter() - started, **seconds}
    # its own seconds are counted with the next step: a row cannot hold the time of writing itself
    with live.clock.phase("record"):
        row = live.recorder.record(data, audits, extra)
    trajectories = [t for t, _ in flat]
    return row, {
        "pass_rate": float(np.mean([t.passed for t in trajectories])),
        "tokens": float(np.mean([t.gen_tokens + t.obs_tokens for t in trajectories])),
        "test_runs": float(np.mean([t.test_runs for t in trajectories])),
        "groups_kept": len(data.kept),
        "seconds": time.perf_counter() - started,
    }


def _counted(counters: Any) -> dict[str, int]:
    names = (*_SANDBOX_COLUMNS, "programs", "tampering")
    return {name: int(getattr(counters, name)) for name in names}
