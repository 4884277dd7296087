"""How fast and how large: ``python tests/bench/bench_analysis.py [--rows N] [--rliable PYTHON]``.

Writes synthetic trajectories (25 variants x seeds x 400 steps, 8 chunks a run; 50 M rows in 2,000 files by
default) below ``--folder``, then measures each task in its own process: CPU seconds, wall seconds, peak
memory. Targets are stated for two free cores; on a shared machine compare CPU seconds and ratios.
``--rliable`` names a Python that has rliable with pandas below 3. Exit status 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

VARIANTS, STEPS, CHUNKS = 25, 400, 8
IQM_SHAPE, IQM_DRAWS = (10, 26), 50_000

Task = Callable[[Path, int], dict[str, Any]]


def write_runs(folder: Path, rows: int) -> None:
    """Run folders with a trajectories table of ``rows`` rows in all, the same values for every seed block."""
    from gagar_core import records

    per_step = 500
    runs = max(VARIANTS, rows // (STEPS * per_step))
    for number in range(runs):
        run = folder / "runs" / f"r{number:05d}"
        if (run / "result.json").exists():
            continue
        config = {"schema_version": 1, "run_id": run.name, "variant": f"v{number % VARIANTS:02d}"}
        config |= {"seed": number // VARIANTS, "config": {}}
        (run / "trajectories").mkdir(parents=True, exist_ok=True)
        entries = [_write_chunk(run, number, chunk, per_step) for chunk in range(CHUNKS)]
        manifest = {"schema_version": 1, "chunks": entries}
        (run / "trajectories" / "_manifest.json").write_bytes(records.to_json(manifest))
        (run / "config.json").write_bytes(records.to_json(config))
        (run / "result.json").write_bytes(records.to_json({"status": "finished", "steps": STEPS}))


def _write_chunk(run: Path, number: int, chunk: int, per_step: int) -> dict[str, Any]:
    import polars as pl

    rng = np.random.default_rng([number, chunk])
    steps = STEPS // CHUNKS
    n = steps * per_step
    first = chunk * steps
    passed = rng.random(n) < 0.6
    frame = pl.DataFrame(
        {
            "step": np.repeat(np.arange(first, first + steps, dtype=np.int32), per_step),
            "group_id": np.arange(n, dtype=np.int64) // 8 + chunk * n,
            "sample_idx": (np.arange(n) % 8).astype(np.int16),
            "passed": passed,
            "valid": np.ones(n, dtype=bool),
            "gen_tokens": rng.lognormal(5.0 + 0.3 * ~passed, 0.5, n).astype(np.int32),
            "obs_tokens": rng.integers(0, 90, n, dtype=np.int32),
            "test_runs": rng.integers(0, 5, n).astype(np.int16),
            "truncated": rng.random(n) < 0.05,
            "adv_used": rng.normal(0, 1, n).round(4),
        }
    ).with_columns(pl.lit(run.name).alias("run_id"), pl.lit(1, dtype=pl.Int16).alias("attempt"))
    name = f"{first:06d}-{first + steps - 1:06d}.a1.parquet"
    frame.write_parquet(run / "trajectories" / name, compression="zstd")
    return {"file": name, "rows": n, "first": first, "last": first + steps - 1, "attempt": 1}


def load_some(folder: Path, rows: int) -> list[Any]:
    """The first runs of a folder that hold ``rows`` rows together."""
    from analysis.study import load_sweeps

    runs = list(load_sweeps(folder)[0].runs)
    return runs[: max(1, rows // (STEPS * 500))]


def polars_quantiles(folder: Path, rows: int) -> dict[str, Any]:
    """Length quantiles per run, step and outcome."""
    from analysis.length import length_quantiles

    frame = length_quantiles(load_some(folder, rows))
    return {"cells": frame.height, "rows": int(frame["n"].sum())}


def pandas_whole(folder: Path, rows: int) -> dict[str, Any]:
    """The same in pandas: all runs in one frame, only the columns needed, one grouped query."""
    found = _pandas_cells([run.path for run in load_some(folder, rows)], ["run_id", "step", "passed"])
    return {"cells": len(found), "rows": int(found["count"].sum())}


def pandas_by_run(folder: Path, rows: int) -> dict[str, Any]:
    """The same in pandas, run by run, as ``length_quantiles`` does."""
    import pandas as pd

    parts = [_pandas_cells([run.path], ["step", "passed"]) for run in load_some(folder, rows)]
    found = pd.concat(parts)
    return {"cells": len(found), "rows": int(found["count"].sum())}


def _pandas_cells(paths: list[Path], keys: list[str]) -> Any:
    import pandas as pd

    columns = [*keys, "gen_tokens", "valid"]
    frame = pd.concat([pd.read_parquet(path / "trajectories", columns=columns) for path in paths])
    cells = frame[frame["valid"]].groupby(keys)["gen_tokens"]
    return cells.agg(["count", "sum", "mean", "max"]).join(cells.quantile([0.5, 0.9, 0.95, 0.99]).unstack())


def training_sums(folder: Path, rows: int) -> dict[str, Any]:
    """Every training curve of the report and every run's lengths, in batches of runs."""
    from dataclasses import replace

    from analysis.curves import training_curves
    from analysis.frames import open_tables
    from analysis.study import load_sweeps
    from analysis.training import read_training

    (sweep,) = load_sweeps(folder)
    _, tables = open_tables(replace(sweep, runs=tuple(load_some(folder, rows))))
    ids = [run.run_id for run in tables.runs]
    curve = training_curves(ids, read_training(tables).sums)["train_tokens_pass"]
    return {"cells": int(np.isfinite(curve.values).sum())}


def iqm_bootstrap(folder: Path, rows: int) -> dict[str, Any]:
    """Row bootstrap of the IQM, 10 x 26 scores, 50,000 resamples."""
    from analysis.bootstrap import generator, iqm_of_rows, row_bootstrap

    x = np.random.default_rng(0).random(IQM_SHAPE)
    start = time.process_time()
    draws = row_bootstrap(x, iqm_of_rows, generator("bench"), IQM_DRAWS)
    return {"cpu_of_bootstrap": time.process_time() - start, "mean": float(draws.mean())}


def list_runs(folder: Path, rows: int) -> dict[str, Any]:
    """Read a sweep of 1,500 runs and build its report tree."""
    from analysis.data import read
    from analysis.report import build

    start = time.perf_counter()
    data = read(folder)
    seconds = time.perf_counter() - start
    tree = build(data, "bench")
    return {"runs": len(tree["sweeps"][0]["runs"]), "read_s": seconds}


TASKS: dict[str, Task] = {
    f.__name__: f
    for f in (polars_quantiles, pandas_whole, pandas_by_run, training_sums, iqm_bootstrap, list_runs)
}

_RLIABLE = f"""
import json, time
import numpy as np
from rliable import library, metrics
x = np.random.default_rng(0).random({IQM_SHAPE})
start = time.process_time()
library.get_interval_estimates({{"a": x}}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps={IQM_DRAWS})
print(json.dumps({{"cpu_of_bootstrap": time.process_time() - start}}))
"""


def measure(name: str, folder: Path, rows: int) -> dict[str, Any]:
    """Run one task in a fresh process; its result, CPU and wall seconds and peak memory."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, __file__, "--task", name, "--folder", str(folder), "--rows", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found |= {"cpu_s": cpu, "wall_s": time.perf_counter() - start}
    print(f"{name:18} {rows:>11,} rows  {json.dumps({k: _short(v) for k, v in found.items()})}", flush=True)
    return found


def _short(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def many_runs(folder: Path, count: int) -> None:
    """``count`` small run folders with all tables a report reads: 100 variants, 4 steps, 2 evaluations."""
    import polars as pl

    from gagar_core import records

    rng = np.random.default_rng(0)
    steps = [{"step": s, "attempt": 1, "pass_rate": 0.5, "rollout_cpu_s": 0.1, "loss": 0.1} for s in range(4)]
    trajectory = {"attempt": 1, "valid": True, "obs_tokens": 9, "test_runs": 1, "truncated": False}
    held = {
        "attempt": 1,
        "split": "held_out",
        "valid": True,
        "obs_tokens": 9,
        "test_runs": 1,
        "truncated": False,
    }
    for number in range(count):
        run = folder / "runs" / f"r{number:05d}"
        config = {"schema_version": 1, "run_id": run.name, "variant": f"v{number % 100:03d}"}
        tables = {
            "steps": [dict(row) for row in steps],
            "trajectories": [
                {"step": s, "gen_tokens": int(rng.integers(50, 200)), "passed": bool(rng.random() < 0.5)}
                | trajectory
                for s in range(4)
                for _ in range(24)
            ],
            "evals": [
                {"step": s, "task_id": f"t{t}", "passed": bool(rng.random() < 0.5), "gen_tokens": 99} | held
                for s in (0, 4)
                for t in range(30)
            ],
        }
        for table, rows in tables.items():
            (run / table).mkdir(parents=True, exist_ok=True)
            frame = pl.DataFrame(rows).with_columns(pl.lit(run.name).alias("run_id"))
            wanted = records.TABLES[table]
            types = {"i16": pl.Int16, "i32": pl.Int32, "i64": pl.Int64, "f64": pl.Float64, "f32": pl.Float32}
            casts = {c.name: types[c.dtype] for c in wanted if c.name in frame.columns and c.dtype in types}
            frame.cast(casts).write_parquet(run / table / "000000-000004.a1.parquet")  # type: ignore[arg-type]
            entry = {
                "file": "000000-000004.a1.parquet",
                "rows": len(rows),
                "first": 0,
                "last": 4,
                "attempt": 1,
            }
            manifest = {"schema_version": 1, "chunks": [entry]}
            (run / table / "_manifest.json").write_bytes(records.to_json(manifest))
        (run / "config.json").write_bytes(records.to_json(config | {"seed": number // 100, "config": {}}))
        (run / "result.json").write_bytes(records.to_json({"status": "finished", "steps": 4}))


def main() -> int:
    """Measure everything and compare with the targets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, required=True, help="where synthetic runs are written and kept"
    )
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--rliable", metavar="PYTHON", help="a Python with rliable and pandas below 3")
    parser.add_argument("--task", choices=sorted(TASKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        result = _timed(TASKS[options.task], options.folder, options.rows)
        result["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps(result))
        return 0
    checks = _quantile_checks(options.folder / "trajectories", options.rows)
    checks += _bootstrap_checks(options.folder, options.rliable) + _listing_checks(options.folder / "many")
    for name, good in checks:
        print(f"{'ok    ' if good else 'MISSED'} {name}")
    return 0 if all(good for _, good in checks) else 1


def _timed(task: Task, folder: Path, rows: int) -> dict[str, Any]:
    """Result and CPU seconds of a task, libraries loaded before the clock starts."""
    import pandas  # noqa: F401
    import polars

    polars.LazyFrame({"a": [1]}).group_by("a").agg(polars.len()).collect()
    start = time.process_time()
    result = task(folder, rows)
    return {"task_cpu_s": time.process_time() - start} | result


def _quantile_checks(folder: Path, rows: int) -> list[tuple[str, bool]]:
    start = time.perf_counter()
    write_runs(folder, rows)
    print(f"wrote {rows:,} rows in {time.perf_counter() - start:.0f} s", flush=True)
    large = measure("polars_quantiles", folder, rows)
    small = measure("polars_quantiles", folder, rows // 5)
    pandas = measure("pandas_whole", folder, rows // 5)
    measure("pandas_by_run", folder, rows // 5)
    sums = measure("training_sums", folder, rows)
    growth = large["task_cpu_s"] / small["task_cpu_s"]
    speed = pandas["task_cpu_s"] / small["task_cpu_s"]
    return [
        (
            f"quantiles of {rows:,} rows: {large['cpu_s']:.1f} CPU s <= 30 (two cores, 15 s)",
            large["cpu_s"] <= 30,
        ),
        (f"quantiles: {large['peak_gb']:.2f} GB <= 1", large["peak_gb"] <= 1),
        (f"quantiles: 5 x the rows cost {growth:.1f} x the CPU <= 6", growth <= 6),
        (f"{rows // 5:,} rows: pandas costs {speed:.1f} x the CPU >= 4", speed >= 4),
        (f"training curves: {sums['peak_gb']:.2f} GB <= 1", sums["peak_gb"] <= 1),
    ]


def _bootstrap_checks(folder: Path, python: str | None) -> list[tuple[str, bool]]:
    ours = measure("iqm_bootstrap", folder, 0)
    if python is None:
        print("rliable: skipped, no --rliable PYTHON given")
        return []
    done = subprocess.run([python, "-c", _RLIABLE], capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])["cpu_of_bootstrap"]
    ratio = theirs / ours["cpu_of_bootstrap"]
    return [(f"IQM bootstrap: rliable costs {ratio:.0f} x the CPU ({theirs:.1f} s) >= 20", ratio >= 20)]


def _listing_checks(folder: Path) -> list[tuple[str, bool]]:
    if not (folder / "runs" / "r01499" / "result.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        many_runs(folder, 1500)
    found = measure("list_runs", folder, 0)
    return [
        (f"1,500 runs are listed: {found['runs']}", found["runs"] == 1500),
        (f"1,500 runs are read in {found['read_s']:.1f} s < 5", found["read_s"] < 5),
    ]


if __name__ == "__main__":
    sys.exit(main())
