"""Speed and memory of a whole report against its targets, on synthetic runs shaped like real ones.

    python tests/bench/bench_report.py --folder /scratch/report-bench            # 1,000 runs x 200 steps
    python tests/bench/bench_report.py --folder /scratch/report-bench --runs 100

Targets: 12 figures in 15 s, HTML up to 5 MB; the whole report of 1,000 runs x 200 steps in 30 s and 1 GB, on two
cores. Judged by CPU seconds of a fresh process / 2, because the machine may be shared; a CPU second of a busy
machine still does less work than one of an idle machine, so the time of a plain loop is printed beside them.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

STEPS, PER_STEP, VARIANTS, CHUNK, TASKS, EVALS = 200, 64, 20, 50, 50, 5


def write_sweep(folder: Path, runs: int) -> None:
    """A sweep of ``runs`` finished runs: 20 variants, 200 steps of 64 trajectories, 5 evaluations of 50 tasks."""
    from gagar_core import records

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    labels = [f"variant {i}" for i in range(VARIANTS)]
    plan = []
    for number in range(runs):
        label, seed = labels[number % VARIANTS], number // VARIANTS
        run = folder / "runs" / f"r{number:05d}"
        plan.append({"run_id": run.name, "variant": label, "seed": seed, "kind": "run"})
        for table, frame in tables_of(run.name, number % VARIANTS, rng).items():
            write_table(run / table, table, frame)
        config = {"schema_version": 1, "run_id": run.name, "variant": label, "seed": seed, "config": {}}
        (run / "config.json").write_bytes(records.to_json(config))
        (run / "result.json").write_bytes(records.to_json({"status": "finished", "steps": STEPS}))
    head = {"schema_version": 1, "name": "bench", "question": "", "baseline": labels[0], "plan_digest": "x"}
    (folder / "plan.jsonl").write_text("\n".join(json.dumps(row) for row in plan))
    (folder / "sweep.json").write_bytes(records.to_json(head))


def tables_of(run_id: str, variant: int, rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Columns of each table of one run."""
    n = STEPS * PER_STEP
    step = np.repeat(np.arange(STEPS), PER_STEP)
    passed = rng.random(n) < 0.3 + 0.4 * step / STEPS
    tokens = rng.lognormal(4 + 0.3 * ~passed + 0.02 * variant * step / STEPS, 0.5).astype(int)
    ints = {
        name: rng.integers(0, 9, n) for name in ("turns", "tool_calls", "test_runs", "edits", "program_lines")
    }
    trajectories = {
        "step": step, "group_id": np.arange(n) // 8, "sample_idx": np.arange(n) % 8, "passed": passed,
        "task_id": [f"t{i % TASKS}" for i in range(n)],
        "valid": np.ones(n, bool), "gen_tokens": tokens, "obs_tokens": ints["turns"] * 3, "kept": passed,
        "truncated": tokens > 190, "adv_base": rng.normal(size=n), "adv_used": rng.normal(size=n),
        "difficulty": rng.integers(1, 4, n) / 3, "stop_reason": ["submit"] * n, "audit_passed": passed,
        **ints,
    }  # fmt: skip
    floats = {name: rng.random(STEPS) + 0.5 for name in _FLOATS}
    counts = {name: rng.integers(1, 9, STEPS) for name in _COUNTS}
    attempts = np.arange(TASKS * 4)
    m = EVALS * attempts.size
    evals = {
        "step": np.repeat(np.linspace(0, STEPS, EVALS).astype(int), attempts.size),
        "task_id": [f"t{i % TASKS}" for i in range(m)], "attempt_idx": np.tile(attempts // TASKS, EVALS),
        "split": ["held_out"] * m, "passed": rng.random(m) < 0.5, "audit_passed": rng.random(m) < 0.4,
        "valid": np.ones(m, bool), "gen_tokens": rng.integers(20, 200, m), "obs_tokens": rng.integers(0, 9, m),
        "test_runs": rng.integers(0, 4, m), "truncated": rng.random(m) < 0.1,
    }  # fmt: skip
    return {
        "trajectories": trajectories,
        "steps": {"step": np.arange(STEPS), **floats, **counts},
        "evals": evals,
    }


_FLOATS = (
    "entropy_tok", "entropy_traj", "kl_k3", "grad_norm", "pass_rate", "mean_total_tokens", "mean_test_runs",
    "truncated_rate", "loss", "adv_ess", "ratio_max", "rollout_cpu_s", "execute_cpu_s", "train_cpu_s",
)  # fmt: skip
_COUNTS = ("groups_sampled", "groups_kept", "traj_sampled", "traj_used", "gen_tokens", "wasted_tokens")


def write_table(folder: Path, table: str, columns: dict[str, Any]) -> None:
    """A table in chunks of 50 steps with its manifest, in the types of the schema."""
    import polars as pl

    from gagar_core import records
    from gagar_core.records.writer import polars_schema

    folder.mkdir(parents=True, exist_ok=True)
    wanted = polars_schema(table)
    frame = pl.DataFrame(columns).with_columns(
        pl.lit(folder.parent.name).alias("run_id"), pl.lit(1).alias("attempt")
    )
    frame = frame.select(pl.col(name).cast(wanted[name]) for name in frame.columns)
    entries = []
    for first in range(0, STEPS + 1, CHUNK):
        part = frame.filter(pl.col("step").is_between(first, first + CHUNK - 1))
        if part.height:
            name = f"{first:06d}-{first + CHUNK - 1:06d}.a1.parquet"
            part.write_parquet(folder / name)
            last = int(part["step"].to_numpy().max())
            entries.append({"file": name, "rows": part.height, "first": first, "last": last, "attempt": 1})
    (folder / "_manifest.json").write_bytes(records.to_json({"schema_version": 1, "chunks": entries}))


def whole(folder: Path, out: Path) -> dict[str, Any]:
    """Read, build, draw and write; CPU seconds of each part."""
    from analysis.data import read
    from analysis.plots.figures import draw_all
    from analysis.report import build
    from analysis.write import write_report

    clock = time.process_time
    start = clock()
    for number in range(10_000_000):
        number += 1
    loop_s = clock() - start
    start = clock()
    data = read(folder)
    read_s = clock() - start
    start = clock()
    section = build(data, "bench")["sweeps"][0]
    build_s = clock() - start
    start = clock()
    drawn = len(draw_all(section, data[0].curves))
    draw_s = clock() - start
    start = clock()
    write_report(data, out, "bench")
    return {
        "loop_s": loop_s, "read_s": read_s, "build_s": build_s, "draw_s": draw_s, "figures": drawn, "again_s": clock() - start,
        "html_mb": (out / "report.html").stat().st_size / 1e6, "json_mb": (out / "report.json").stat().st_size / 1e6,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


def main() -> int:
    """Measure and compare with the targets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, required=True, help="where synthetic runs are written and kept"
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--task", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sweep = options.folder / f"{options.runs}"
    if options.task:
        print(json.dumps(whole(sweep, options.folder / "out")))
        return 0
    if not (sweep / "sweep.json").exists():
        write_sweep(sweep, options.runs)
    command = [
        sys.executable,
        __file__,
        "--task",
        "--folder",
        str(options.folder),
        "--runs",
        str(options.runs),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps({key: round(value, 2) for key, value in found.items()}))
    cores = 2
    report = (found["read_s"] + found["again_s"]) / cores
    figures = 12 * found["draw_s"] / found["figures"]
    limit = 30 * max(1.0, options.runs / 1000)  # most of a small report is its figures
    checks = [
        (f"12 figures: {figures:.1f} CPU s <= 15", figures <= 15),
        (f"HTML: {found['html_mb']:.1f} MB <= 5", found["html_mb"] <= 5),
        (f"report of {options.runs} runs: {report:.1f} s on two cores <= {limit:.0f}", report <= limit),
        (f"peak memory: {found['peak_gb']:.2f} GB <= 1", found["peak_gb"] <= 1),
    ]
    for name, good in checks:
        print(f"{'ok    ' if good else 'MISSED'} {name}")
    return 0 if all(good for _, good in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
