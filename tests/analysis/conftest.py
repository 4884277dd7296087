"""Synthetic run folders, written with the real writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gagar_core import records

TASKS, GROUPS, GROUP_SIZE = 20, 3, 4


def write_run(
    folder: Path,
    run_id: str,
    variant: str,
    seed: int,
    *,
    steps: int = 20,
    planned_steps: int = 20,
    final_pass: float = 0.8,
    length: float = 120.0,
    result: Mapping[str, Any] | None = {"status": "finished"},
    exit_status: str | None = "ok",
    sandbox_level: str = "rlimits",
    eval_every: int = 10,
) -> Path:
    """One run folder whose pass rate rises linearly to ``final_pass``."""
    run = folder / "runs" / run_id
    (run / "attempts" / "1").mkdir(parents=True)
    config = {"schema_version": 1, "run_id": run_id, "variant": variant, "seed": seed, "config": {}}
    records.publish(run / "config.json", records.to_json(config))
    records.publish(
        run / "meta.json", records.to_json({"versions": {}, "sandbox_level": sandbox_level, "host": "h"})
    )
    rng = np.random.default_rng([seed, *run_id.encode()])
    writer = records.RunWriter(run, run_id, 1)
    for step in range(steps):
        if step % eval_every == 0:
            _write_evals(writer, step, 0.3 + (final_pass - 0.3) * step / planned_steps, length, rng)
        _write_step(writer, step, 0.3 + (final_pass - 0.3) * step / planned_steps, length, rng)
        writer.end_step()
    if steps == planned_steps:
        _write_evals(writer, steps, final_pass, length, rng)
    writer.flush()
    if exit_status:
        status = {"status": exit_status, "reason": "" if exit_status == "ok" else f"{exit_status} on purpose"}
        records.publish(run / "attempts" / "1" / "exit.json", records.to_json(status))
    if result is not None:
        full = {"steps": steps, "reason": ""} | dict(result)
        records.publish(run / "result.json", records.to_json(full))
    return run


def _write_evals(writer: records.RunWriter, step: int, share: float, length: float, rng: Any) -> None:
    rows = []
    for task in range(TASKS):
        passed = bool(rng.random() < share)
        rows.append(
            {
                "split": "held_out", "task_id": f"t{task}", "attempt_idx": 0, "passed": passed, "valid": True,
                "audit_passed": passed and bool(rng.random() < 0.9),
                "gen_tokens": int(length * rng.uniform(0.5, 1.5)), "obs_tokens": int(rng.integers(5, 40)),
                "test_runs": int(rng.integers(0, 4)), "truncated": bool(rng.random() < 0.1),
            }
        )  # fmt: skip
    writer.add("evals", step, rows)


def _write_step(writer: records.RunWriter, step: int, share: float, length: float, rng: Any) -> None:
    rows = []
    for group in range(GROUPS):
        for sample in range(GROUP_SIZE):
            passed = bool(rng.random() < share)
            rows.append(
                {
                    "group_id": step * GROUPS + group, "sample_idx": sample, "task_id": f"t{group}",
                    "passed": passed, "valid": True,
                    "gen_tokens": int(length * rng.uniform(0.5, 1.5) * (1 if passed else 1.5)),
                    "obs_tokens": int(rng.integers(5, 40)), "test_runs": int(rng.integers(0, 4)),
                    "truncated": bool(rng.random() < 0.1),
                }
            )  # fmt: skip
    writer.add("trajectories", step, rows)
    cpu = {
        "rollout_cpu_s": 0.1, "execute_cpu_s": 0.05, "grade_cpu_s": 0.01, "train_cpu_s": 0.08,
        "record_cpu_s": 0.002,
    }  # fmt: skip
    writer.add("steps", step, [{"pass_rate": share, "groups_sampled": GROUPS} | cpu])


def write_sweep(
    root: Path,
    *,
    name: str = "main",
    variants: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int] = (0, 1, 2),
    baseline: str | None = None,
    hypotheses: Sequence[Mapping[str, Any]] = (),
    skip: Sequence[tuple[str, int]] = (),
    special: Mapping[tuple[str, int], Mapping[str, Any]] | None = None,
) -> Path:
    """A sweep folder with plan and runs; ``skip`` leaves runs out, ``special`` changes single ones."""
    folder = root / name
    folder.mkdir(parents=True)
    lines, index = [], 0
    for number, (variant, common) in enumerate(variants.items()):
        for seed in seeds:
            run_id = f"v{number}s{seed}"
            lines.append({"index": index, "run_id": run_id, "variant": variant, "seed": seed, "kind": "run"})
            index += 1
            if (variant, seed) not in skip:
                write_run(
                    folder,
                    run_id,
                    variant,
                    seed,
                    **(dict(common) | dict((special or {}).get((variant, seed), {}))),
                )
    lines.insert(0, {"index": -1, "run_id": "sft", "kind": "artifact"})
    plan = b"".join(records.to_json(line).replace(b"\n", b" ").strip() + b"\n" for line in lines)
    records.publish(folder / "plan.jsonl", plan)
    head = {
        "schema_version": 1, "name": name, "question": "Which one is better?", "baseline": baseline,
        "hypotheses": list(hypotheses), "plan_digest": "d0", "seeds": list(seeds),
    }  # fmt: skip
    records.publish(folder / "sweep.json", records.to_json(head))
    return folder


@pytest.fixture
def make_run() -> Callable[..., Path]:
    """``write_run``."""
    return write_run


@pytest.fixture
def make_sweep() -> Callable[..., Path]:
    """``write_sweep``."""
    return write_sweep
