"""Verdicts, exploratory comparisons, tasks and calibration in the report tree; the table command."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.__main__ import main
from analysis.calibrate import calibrate
from analysis.comparisons import compare
from analysis.contrasts import Claim
from analysis.data import read
from analysis.hypotheses import Hypothesis, judge
from analysis.metrics import METRICS
from analysis.page import render
from analysis.power import power
from analysis.report import build, load_report
from analysis.statistics import interquartile_mean
from gagar_core import records
from gagar_core.errors import InputError, RecordsError
from gagar_core.records.measures import REPORT_METRICS

VARIANTS = {"grpo": {"final_pass": 0.7, "length": 300.0}, "gagar": {"final_pass": 0.8, "length": 110.0}}
SHORTER = {
    "metric": "tokens", "variant": "gagar", "against": "grpo", "kind": "superior", "margin": 0.0,
    "direction": "lower",
}  # fmt: skip
NO_WORSE = {
    "metric": "held_out_pass", "variant": "gagar", "against": "grpo", "kind": "non_inferior", "margin": 0.5,
    "direction": "higher",
}  # fmt: skip


def section(path: Path) -> dict[str, Any]:
    tree: dict[str, Any] = build(read(path), path.name)["sweeps"][0]
    return tree


def by_hand(sweep: Path, run: str) -> pl.DataFrame:
    return pl.read_parquet(sweep / "runs" / run / "evals" / "*.parquet").filter(pl.col("step") == 20)


def mean_tokens(sweep: Path, run: str) -> float:
    rows = by_hand(sweep, run)
    return (rows["gen_tokens"].sum() + rows["obs_tokens"].sum()) / rows.height


def test_a_declared_hypothesis_gets_its_verdict(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    sweep = make_sweep(tmp_path, variants=VARIANTS, seeds=range(4), baseline="grpo", hypotheses=[SHORTER])
    (row,) = section(sweep)["verdicts"]
    sides = [{s: mean_tokens(sweep, f"v{v}s{s}") for s in range(4)} for v in (1, 0)]
    difference = compare(*sides)
    (wanted,) = judge([(Hypothesis("tokens", "gagar", "grpo", Claim("superior", 0.0, "lower")), difference)])
    assert row["verdict"] == wanted.verdict == "supported"
    assert row["effect"]["value"] == pytest.approx(difference.value, rel=1e-5)
    assert row["p_support"] == pytest.approx(wanted.p_support, rel=1e-5)
    assert (row["effect"]["n_used"], row["effect"]["n_planned"]) == (4, 4)
    assert row["effect"]["runs"] == sorted(f"v{v}s{s}" for v in (0, 1) for s in range(4))
    assert row["seeds_to_decide"]["value"] >= 2
    assert row["policies"] == []


def test_what_nobody_declared_is_exploratory(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    joint = {"name": "shorter and no worse", "all_of": [SHORTER, NO_WORSE]}
    sweep = make_sweep(tmp_path, variants=VARIANTS, baseline="grpo", hypotheses=[joint])
    found = section(sweep)
    declared = {c["metric"] for c in found["comparisons"] if c["declared"]}
    assert declared == {"tokens", "held_out_pass"}
    (row,) = found["verdicts"]
    assert row["name"] == "shorter and no worse"
    assert [part["metric"] for part in row["all_of"]] == ["tokens", "held_out_pass"]
    # intersection-union: the parts are not adjusted for each other
    assert [part["family"] for part in row["all_of"]] == [1, 1]
    assert found["plan_digest"] == "d0"


def test_a_faulty_hypothesis_stays_visible(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    sweep = make_sweep(tmp_path, variants=VARIANTS, hypotheses=[SHORTER | {"variant": "gager"}])
    found = section(sweep)
    assert found["verdicts"][0]["verdict"] == "undecided"
    assert "got 'gager'" in found["verdicts"][0]["why"]
    assert any(w["code"] == "hypothesis" for w in found["warnings"])
    assert "cannot be judged" in render(build(read(sweep), "t"), [()])


def test_a_verdict_that_hangs_on_the_dead_is_flagged(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    better = NO_WORSE | {"kind": "superior", "margin": 0.0}
    common = {"grpo": {"final_pass": 0.35, "length": 100.0}, "gagar": {"final_pass": 1.0, "length": 100.0}}
    died = {"steps": 4, "result": None, "exit_status": "failed"}
    sweep = make_sweep(
        tmp_path,
        variants=common,
        seeds=range(5),
        baseline="grpo",
        hypotheses=[better],
        special={("gagar", 1): died, ("gagar", 3): died},
    )
    found = section(sweep)
    (row,) = found["verdicts"]
    assert (row["verdict"], row["effect"]["n_used"], row["effect"]["n_planned"]) == ("supported", 3, 5)
    assert row["effect"]["policy"].startswith("finished runs only")
    zero = next(p for p in row["policies"] if p["policy"] == "dead_as_zero")
    per_seed = [0.0 if s in (1, 3) else float(by_hand(sweep, f"v1s{s}")["passed"].mean()) for s in range(5)]  # type: ignore[arg-type]
    base = [float(by_hand(sweep, f"v0s{s}")["passed"].mean()) for s in range(5)]  # type: ignore[arg-type]
    assert zero["value"] == pytest.approx(np.mean(per_seed) - np.mean(base), rel=1e-5)
    assert (zero["verdict"], zero["n_used"], zero["step"]) == ("undecided", 5, 20)
    assert any(w["code"] == "policy" for w in found["warnings"])


def test_metrics_are_those_that_a_sweep_may_name() -> None:
    assert list(METRICS) == list(REPORT_METRICS)
    assert METRICS["tokens"].better == "lower"


def test_tasks_section_by_hand(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    sweep = make_sweep(tmp_path, variants=VARIANTS, baseline="grpo")
    base, other = section(sweep)["tasks"]
    scores = np.array(
        [by_hand(sweep, f"v0s{s}").sort("task_id")["passed"].to_numpy().astype(float) for s in range(3)]
    )
    rival = np.array(
        [by_hand(sweep, f"v1s{s}").sort("task_id")["passed"].to_numpy().astype(float) for s in range(3)]
    )
    assert base["iqm"] == pytest.approx(interquartile_mean(scores))
    wins = (rival.T[:, :, None] > scores.T[:, None, :]) + 0.5 * (rival.T[:, :, None] == scores.T[:, None, :])
    assert other["p_improvement"] == pytest.approx(wins.mean(), rel=1e-5)
    assert (base["n_tasks"], base["variance"]["n_attempts"], base["variance"]["seed_task"]) == (20, 1, None)
    shares = [base["variance"][k] for k in ("share_seed", "share_attempt")]
    assert sum(shares) == pytest.approx(1.0, abs=1e-5)


def test_one_factor_at_a_time(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    changes = ["estimator=rloo", "estimator=grpo", "weighting=exp", "sampling=keep_all", "grader=none"]
    variants = {"base": {"length": 200.0}} | {c: {"length": 200.0 + 40 * i} for i, c in enumerate(changes)}
    sweep = make_sweep(tmp_path, variants=variants, seeds=range(5), baseline="base")
    found = section(sweep)
    rows = {c["variant"]: c for c in found["comparisons"] if c["metric"] == "tokens"}
    assert found["n_found"] == 30
    assert rows.keys() == set(changes)
    for i, change in enumerate(changes, start=1):
        left, right = ({s: mean_tokens(sweep, f"v{v}s{s}") for s in range(5)} for v in (i, 0))
        wanted = compare(left, right)
        assert wanted.interval is not None
        assert rows[change]["value"] == pytest.approx(wanted.value, rel=1e-5)
        assert rows[change]["interval"]["low"] == pytest.approx(wanted.interval.low, rel=1e-5)
        assert (rows[change]["method"], rows[change]["family"]) == ("paired", 5)


def test_table_prints_what_the_tree_holds(
    tmp_path: Path, make_sweep: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = make_sweep(tmp_path, variants=VARIANTS, baseline="grpo", hypotheses=[SHORTER])
    found = section(sweep)
    assert main(["table", str(sweep), "--what", "runs", "--metric", "held_out_pass", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [r["run"] for r in rows] == [r["run_id"] for r in found["runs"]]
    wanted = [r["values"]["held_out_pass"] for r in found["runs"]]
    assert [float(r["held_out_pass"]) for r in rows] == pytest.approx(wanted, abs=5e-4)
    for what in ("variants", "comparisons", "verdicts", "tasks", "cost", "warnings", "metrics"):
        for form in ("text", "markdown", "json"):
            assert main(["table", str(sweep), "--what", what, "--format", form]) == 0
            printed = capsys.readouterr().out
            assert "(no rows)" not in printed
            if form == "json":
                assert json.loads(printed)


def test_table_reads_a_written_report_and_refuses_another_version(
    tmp_path: Path, make_sweep: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    tree = build(read(make_sweep(tmp_path, variants=VARIANTS, seeds=[0])), "main")
    stored = tmp_path / "report.json"
    stored.write_bytes(records.to_json(tree))
    assert load_report(stored) == tree
    assert main(["table", str(stored)]) == 0
    assert "held_out_pass" in capsys.readouterr().out
    assert main(["table", str(stored), "--what", "verdict", "--metric", "reward", "--sweep", "mian"]) == 2
    message = capsys.readouterr().err
    for part in ("what must be one of", "metric must be one of", "sweep must be one of main; got 'mian'"):
        assert part in message
    stored.write_bytes(records.to_json(tree | {"schema_version": 99}))
    with pytest.raises(RecordsError, match="report version 99; this code reads version 2"):
        load_report(stored)


def test_calibration_finds_the_nominal_rate_and_power(
    tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    (data,) = read(make_sweep(tmp_path, variants=VARIANTS, seeds=range(10), baseline="grpo"))
    found = calibrate(data, "tokens", trials=800)
    assert found.repaired is not None
    assert found.repaired.n == 5
    assert found.repaired_pairings == 2 * 945  # 10! / (5! 2^5) per variant
    none, _, one, two = found.resampled
    assert none.rate == pytest.approx(0.05, abs=0.025)
    assert one.rate == pytest.approx(power(1.0, 10), abs=0.08)
    assert two.rate > 0.97
    assert one.shift_in_units == found.sd_of_differences
    assert calibrate(data, "tokens", trials=800) == found
    with pytest.raises(InputError, match="trials must be at least 100"):
        calibrate(data, "tokens", trials=3)


def test_calibration_says_what_it_cannot_do(
    tmp_path: Path, make_sweep: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = make_sweep(tmp_path, variants={"grpo": {}}, seeds=[0, 1])
    assert main(["calibrate", str(sweep)]) == 0
    printed = capsys.readouterr().out
    assert "re-pairing needs a variant with 4 or more runs" in printed
    assert "resampling needs two variants" in printed


def test_runs_whose_grader_was_flagged_are_to_be_read_with_care(
    tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    sweep = make_sweep(tmp_path, variants=VARIANTS, seeds=range(2), baseline="grpo")
    for run, flags in (
        ("v1s0", ["step 20: tau-b 0.70 -> 0.10"]),
        ("v1s1", [f"step {20 * i}: top-1 0.90 -> 0.{i}0" for i in range(1, 5)]),
    ):
        path = sweep / "runs" / run / "result.json"
        records.publish(path, records.to_json(records.read_json(path) | {"grader_flags": flags}))
    found = [warning for warning in section(sweep)["warnings"] if warning["code"] == "grader"]
    assert [warning["runs"] for warning in found] == [["v1s0"], ["v1s1"]]
    assert found[0]["text"] == "gagar seed 0 (v1s0): the grader: step 20: tau-b 0.70 -> 0.10"
    assert found[1]["text"].endswith(
        "the grader: step 20: top-1 0.90 -> 0.10; ... (4 flags in all); step 80: top-1 0.90 -> 0.40"
    )
