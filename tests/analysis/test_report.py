"""``python -m analysis report``: numbers recomputed by hand, dead runs, bad folders, same bytes."""

from __future__ import annotations

import html.parser
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy import stats

from analysis.__main__ import main
from analysis.data import read
from analysis.page import render
from analysis.report import build
from analysis.study import load_sweeps
from gagar_core import records

NASTY = 'gagar <script>alert(1)</script> & $x^2$ "q"'
VARIANTS = {
    "grpo": {"final_pass": 0.7, "length": 300.0},
    NASTY: {"final_pass": 0.9, "length": 110.0},
}


def report(path: Path) -> dict[str, Any]:
    return build(read(path), path.name)


def write(path: Path, out: Path | None = None) -> Path:
    assert main(["report", str(path), *(["--out", str(out)] if out else [])]) == 0
    return out or path / "report"


def variant(tree: dict[str, Any], label: str) -> dict[str, Any]:
    found: dict[str, Any] = next(v for v in tree["sweeps"][0]["variants"] if v["label"] == label)["values"]
    return found


@pytest.fixture
def sweep(tmp_path: Path, make_sweep: Callable[..., Path]) -> Path:
    return make_sweep(tmp_path, variants=VARIANTS, baseline="grpo")


def test_numbers_agree_with_the_parquet_files(sweep: Path) -> None:
    tree = report(sweep)
    per_seed, lengths = [], []
    for seed in range(3):
        evals = pl.read_parquet(sweep / "runs" / f"v0s{seed}" / "evals" / "*.parquet")
        final = evals.filter(pl.col("step") == 20)
        per_seed.append(sum(final["passed"].to_list()) / final.height)
        lengths.append(sum(final["gen_tokens"].to_list() + final["obs_tokens"].to_list()) / final.height)
    number = variant(tree, "grpo")["held_out_pass"]
    low, high = stats.t.interval(0.95, 2, loc=sum(per_seed) / 3, scale=stats.sem(per_seed))
    assert number["value"] == pytest.approx(sum(per_seed) / 3, rel=1e-5)
    assert number["interval"]["low"] == pytest.approx(low, rel=1e-5)
    assert number["interval"]["high"] == pytest.approx(high, rel=1e-5)
    assert (number["n_used"], number["n_planned"], number["step"]) == (3, 3, 20)
    assert number["runs"] == ["v0s0", "v0s1", "v0s2"]
    assert variant(tree, "grpo")["tokens"]["value"] == pytest.approx(sum(lengths) / 3, rel=1e-5)


def test_comparison_is_paired_by_seed_block(sweep: Path) -> None:
    tree = report(sweep)
    differences = []
    for seed in range(3):
        sides = [
            pl.read_parquet(sweep / "runs" / f"v{v}s{seed}" / "evals" / "*.parquet")
            .filter(pl.col("step") == 20)["passed"]
            .mean()
            for v in (1, 0)
        ]
        differences.append(sides[0] - sides[1])
    row = next(c for c in tree["sweeps"][0]["comparisons"] if c["metric"] == "held_out_pass")
    oracle = stats.ttest_1samp(differences, 0)
    assert row["method"] == "paired"
    assert row["value"] == pytest.approx(sum(differences) / 3, rel=1e-5)
    assert row["p"] == pytest.approx(oracle.pvalue, rel=1e-5)
    assert row["interval"]["low"] == pytest.approx(oracle.confidence_interval().low, rel=1e-5)


def test_training_values_are_the_last_ten_steps_split_by_outcome(sweep: Path) -> None:
    tree = report(sweep)
    per_seed = []
    for seed in range(3):
        rows = pl.read_parquet(sweep / "runs" / f"v1s{seed}" / "trajectories" / "*.parquet")
        by_step = []
        for step in range(10, 20):
            passing = rows.filter((pl.col("step") == step) & pl.col("passed"))
            tokens = passing["gen_tokens"] + passing["obs_tokens"]
            if passing.height:
                by_step.append(tokens.sum() / passing.height)
        per_seed.append(sum(by_step) / len(by_step))
    value = variant(tree, NASTY)["train_tokens_pass"]["value"]
    assert value == pytest.approx(sum(per_seed) / 3, rel=1e-5)


def test_same_files_same_bytes(sweep: Path, tmp_path: Path) -> None:
    write(sweep, tmp_path / "one")
    copy = tmp_path / "elsewhere" / "main"
    shutil.copytree(sweep, copy)
    write(copy, tmp_path / "two")
    names = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert len(names) >= 12
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_dead_unfinished_and_missing_runs_are_named(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    sweep = make_sweep(
        tmp_path,
        variants=VARIANTS,
        seeds=range(4),
        baseline="grpo",
        special={
            ("grpo", 0): {"steps": 13, "result": {"status": "diverged", "reason": "loss is nan"}},
            ("grpo", 1): {"steps": 12, "result": None, "exit_status": None},
            (NASTY, 2): {"steps": 5, "result": None, "exit_status": "killed"},
        },
        skip=[(NASTY, 3)],
    )
    tree = report(sweep)
    texts = [w["text"] for w in tree["sweeps"][0]["warnings"]]
    assert any("grpo seed 0 (v0s0) diverged at step 13: loss is nan" in t for t in texts)
    assert any("grpo seed 1 (v0s1) is not finished, last recorded at step 12" in t for t in texts)
    assert any("seed 2 (v1s2) killed at step 5: killed on purpose" in t for t in texts)
    assert any("seed 3 (v1s3) is planned and has not started" in t for t in texts)
    # one died at 13 with an evaluation at 10: all ended runs are read off there, the running one nowhere
    grpo = variant(tree, "grpo")["held_out_pass"]
    assert (grpo["step"], grpo["n_used"], grpo["n_planned"]) == (10, 3, 4)
    assert grpo["policy"].startswith("last common step")
    # one died before its first evaluation after the start: only finished runs, and the policy says so
    other = variant(tree, NASTY)["held_out_pass"]
    assert (other["step"], other["n_used"], other["n_planned"]) == (20, 2, 4)
    assert other["policy"].startswith("finished runs only")


def test_one_seed_has_no_interval_and_says_so(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    tree = report(make_sweep(tmp_path, variants=VARIANTS, seeds=[0], baseline="grpo"))
    number = variant(tree, "grpo")["held_out_pass"]
    assert number["interval"] is None
    assert number["why"] == "one run: no interval"
    row = next(c for c in tree["sweeps"][0]["comparisons"] if c["metric"] == "held_out_pass")
    assert (row["interval"], row["p"], row["why"]) == (None, None, "one pair: no interval")


def test_root_and_single_run_can_be_reported(
    sweep: Path, tmp_path: Path, make_run: Callable[..., Path]
) -> None:
    make_run(tmp_path / "single", "solo", "rloo", 7)
    tree = report(tmp_path)
    assert [s["name"] for s in tree["sweeps"]] == ["main", "single"]
    assert tree["sweeps"][1]["baseline"] is None
    one = report(tmp_path / "single" / "runs" / "solo")
    assert variant(one, "rloo")["held_out_pass"]["n_used"] == 1


def test_not_isolated_is_shown_and_isolation_is_not_an_alarm(
    tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    open_one = make_sweep(tmp_path / "a", variants=VARIANTS, seeds=[0])
    walled = {k: v | {"sandbox_level": "namespaces"} for k, v in VARIANTS.items()}
    closed = make_sweep(tmp_path / "b", variants=walled, seeds=[0])
    assert "NOT ISOLATED (sandbox level rlimits)" in render(report(open_one), [()])
    assert "NOT ISOLATED" not in render(report(closed), [()])


class _Scan(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.outside.append(f"{name}={value}")
            if name == "id":
                self.ids.append(value or "")
            if name == "aria-label":
                self.labels.append(value or "")


def test_page_is_self_contained_and_escapes_labels(sweep: Path, make_run: Callable[..., Path]) -> None:
    make_run(sweep.parent / "single", "solo", NASTY, 7)
    out = write(sweep.parent)
    page = (out / "report.html").read_text()
    scan = _Scan()
    scan.feed(page)
    assert "script" not in scan.tags
    assert scan.outside == []
    assert "url(http" not in page
    assert len(scan.ids) == len(set(scan.ids))
    assert scan.tags.count("svg") == len(list((out / "figures").glob("*.svg"))) >= 14
    assert any("SFT 0." in label for label in scan.labels)


@pytest.mark.parametrize("damage", ["gone", "empty", "half config", "other version", "torn tables"])
def test_a_folder_that_cannot_be_read_is_one_message(
    damage: str, tmp_path: Path, make_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep"
    wanted = {
        "gone": "does not exist",
        "empty": "holds no runs",
        "half config": "config.json is not valid JSON",
        "other version": "version 99; this code reads version 1",
        "torn tables": "table evals lacks steps 0-20",
    }[damage]
    if damage == "empty":
        path.mkdir()
    elif damage != "gone":
        run = make_run(path, "r1", "grpo", 0)
        if damage == "half config":
            (run / "config.json").write_bytes((run / "config.json").read_bytes()[:20])
        elif damage == "other version":
            (run / "config.json").write_bytes(records.to_json({"schema_version": 99, "run_id": "r1"}))
        else:
            chunk = next((run / "evals").glob("*.parquet"))
            chunk.write_bytes(chunk.read_bytes()[:-9])
            manifest = run / "evals" / "_manifest.json"
            content = json.loads(manifest.read_text())
            content["chunks"] = [
                c | {"first": 0, "last": 20} for c in content["chunks"] if c["file"] == chunk.name
            ]
            manifest.write_bytes(records.to_json(content))
    assert main(["report", str(path)]) == 2
    captured = capsys.readouterr()
    assert wanted in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not (path / "report").exists()


def test_an_unfinished_run_alone_is_reported_with_status_3(
    tmp_path: Path, make_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, "r1", "grpo", 0, steps=7, result=None, exit_status=None)
    assert main(["report", str(run)]) == 3
    assert "no run has finished" in capsys.readouterr().err
    tree = json.loads((run / "report" / "report.json").read_text())
    assert variant(tree, "grpo")["held_out_pass"]["why"] == "no run has this value"


def test_a_run_folder_without_its_configuration_is_damaged_not_unstarted(sweep: Path) -> None:
    (sweep / "runs" / "v0s1" / "config.json").unlink()
    (found,) = load_sweeps(sweep)
    (run,) = [run for run in found.runs if run.run_id == "v0s1"]
    assert (run.status, run.variant, run.seed) == ("damaged", "grpo", 1)
    assert "config.json does not exist" in run.reason


def test_one_damaged_run_does_not_take_the_others_along(sweep: Path) -> None:
    (sweep / "runs" / "v0s1" / "steps" / "_manifest.json").write_text("{")
    chunk = next((sweep / "runs" / "v1s0" / "trajectories").glob("*.parquet"))
    chunk.write_bytes(b"")
    tree = report(sweep)
    damaged = {r["run_id"]: r["reason"] for r in tree["sweeps"][0]["runs"] if r["status"] == "damaged"}
    assert damaged.keys() == {"v0s1", "v1s0"}
    assert "_manifest.json is not valid JSON" in damaged["v0s1"]
    assert variant(tree, "grpo")["held_out_pass"]["n_used"] == 2


@pytest.mark.parametrize("table", ["trajectories", "steps", "grades"])
def test_a_file_damaged_in_its_middle_costs_only_its_run(table: str, sweep: Path) -> None:
    run = sweep / "runs" / "v0s1"
    if table == "grades":
        writer = records.RunWriter(run, "v0s1", 1)
        gold = {"is_gold": True, "rank": 1.0, "gold_rank": 1.0, "parse_ok": True, "order_seed": 0}
        writer.add("grades", 0, [gold | {"group_id": g, "sample_idx": s} for g in range(9) for s in range(9)])
        writer.flush()
    chunk = next((run / table).glob("*.parquet"))
    content = bytearray(chunk.read_bytes())
    # every page; the footer, its length and both magic numbers stay well
    pages = slice(4, len(content) - 8 - int.from_bytes(content[-8:-4], "little"))
    content[pages] = b"\xff" * len(content[pages])
    chunk.write_bytes(content)
    tree = report(sweep)
    damaged = {r["run_id"]: r["reason"] for r in tree["sweeps"][0]["runs"] if r["status"] == "damaged"}
    assert damaged.keys() == {"v0s1"}
    assert f"v0s1/{table}/{chunk.name}" in damaged["v0s1"]
    assert variant(tree, "grpo")["held_out_pass"]["n_used"] == 2


def test_a_damaged_table_that_is_not_needed_is_named_and_costs_nothing(sweep: Path) -> None:
    (sweep / "runs" / "v0s1" / "segments").mkdir()
    (sweep / "runs" / "v0s1" / "segments" / "_manifest.json").write_text("{")
    tree = report(sweep)
    assert variant(tree, "grpo")["held_out_pass"]["n_used"] == 3
    texts = [w["text"] for w in tree["sweeps"][0]["warnings"]]
    assert any(
        "segments/_manifest.json is not valid JSON" in text and "does not need it" in text for text in texts
    )


def test_equal_values_say_why_their_interval_has_no_width(
    tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    same = {"final_pass": 1.0, "steps": 10, "planned_steps": 10}
    tree = report(make_sweep(tmp_path, variants={"a": same, "b": same}, seeds=[0, 1], baseline="a"))
    row = next(c for c in tree["sweeps"][0]["comparisons"] if c["metric"] == "held_out_pass")
    assert (row["interval"]["low"], row["interval"]["high"]) == (0, 0)
    page = render(tree, [()])
    assert "[0.000, 0.000] all 2 equal: no spread to judge by" in page
    assert "interval of zero width" in page


def test_a_variant_of_damaged_runs_only_does_not_take_the_others_along(sweep: Path) -> None:
    for seed in range(3):
        next((sweep / "runs" / f"v1s{seed}" / "trajectories").glob("*.parquet")).write_bytes(b"")
    tree = json.loads((write(sweep) / "report.json").read_text())
    assert variant(tree, "grpo")["held_out_pass"]["n_used"] == 3
    assert variant(tree, NASTY)["held_out_pass"]["n_used"] == 0


def test_unwritable_out_is_one_message(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(sweep), "--out", "/proc/nowhere"]) == 2
    assert "choose another folder with --out" in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys, runpy\nsys.argv = ['analysis', 'report', '--help']\n"
        "try:\n    runpy.run_module('analysis', run_name='__main__')\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = 'polars numpy matplotlib torch mlflow optuna hydra jinja2'.split()\n"
        "heavy = set(heavy) & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Exit status" in done.stdout
