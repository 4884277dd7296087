"""Graders of a sweep: what was measured of them, what they cost, and what came of training with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.data import read
from analysis.grader_value import NOT_JUDGED, UNTRAINED, WATCHING
from analysis.plots.figures import draw_all
from analysis.report import build
from analysis.table import rows_of
from experiments.artifacts import _MONITORING
from gagar_core import records

SHORT = {"steps": 10, "planned_steps": 10, "eval_every": 10}
STEP_CPU = 0.1 + 0.05 + 0.01 + 0.08 + 0.002
GRADERS: dict[str, dict[str, Any]] = {
    "base": {"kind": "none"},
    "rule": {"kind": "length", "gold_every": 0},
    "net": {"kind": "distilled_s", "view": "joint", "gold_every": 20},
    "pair": {"kind": "distilled_s", "view": "pairwise", "gold_every": 20},
    "best": {"kind": "oracle", "gold_every": 0},
}


def settings(grader: dict[str, Any], tasks: str = "weak_tests") -> dict[str, Any]:
    budget = {"group_size": 8, "groups_per_step": 12, "sft_demos": 50, "sft_epochs": 1, "steps": 10}
    return {"grader": grader, "tasks": {"kind": tasks}, "policy": {"kind": "gru"}, "budget": budget}


def measure(
    root: Path, name: str, config: dict[str, Any], seed: int, pair: float, lucky: float | None
) -> None:
    folder = root / "artifacts" / "grader_accuracy" / name
    folder.mkdir(parents=True)
    records.publish(folder / "spec.json", records.to_json({"config": config, "seed": seed}))
    found = {"all": {"pair_accuracy": pair, "right_over_lucky": lucky}}
    content = found | {"upper_bound": config["grader"]["kind"] == "oracle"}
    records.publish(folder / "accuracy.json", records.to_json(content))
    records.publish(folder / "done.json", records.to_json({"cpu_s": 1.0}))


@pytest.fixture
def sweep(tmp_path: Path, make_sweep: Callable[..., Path]) -> Path:
    sweep = make_sweep(tmp_path, variants=dict.fromkeys(GRADERS, SHORT), seeds=[0, 1], baseline="base")
    for number, grader in enumerate(GRADERS.values()):
        for seed in (0, 1):
            path = sweep / "runs" / f"v{number}s{seed}" / "config.json"
            content = json.loads(path.read_text()) | {"config": settings(grader)}
            path.write_bytes(records.to_json(content))
    for name, seconds in (("sft", 20.0), ("graded_groups", 7.0), ("grader", 3.0)):
        folder = tmp_path / "artifacts" / name / name
        folder.mkdir(parents=True)
        records.publish(folder / "done.json", records.to_json({"cpu_s": seconds}))
    lines = [json.loads(line) for line in (sweep / "plan.jsonl").read_text().splitlines()]
    needs = {name: ["sft"] for name in GRADERS} | {"net": ["sft", "graded_groups", "grader"]}
    lines = [line | {"needs": needs.get(line.get("variant"), [])} for line in lines]
    (sweep / "plan.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return sweep


def graders(sweep: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    (data,) = read(sweep)
    tree = build([data], "t")["sweeps"][0]
    return tree, {row["label"]: row for row in tree["graders"]}


def test_agreement_is_that_of_the_arms_own_graders(tmp_path: Path, sweep: Path) -> None:
    watched = GRADERS["net"] | {
        "gold_every": 5
    }  # looking at a grader more often does not make it another one
    measure(tmp_path, "a", settings(watched), 0, 0.7, 0.5)
    measure(tmp_path, "b", settings(GRADERS["net"]), 1, 0.8, None)
    measure(tmp_path, "c", settings(GRADERS["net"]), 2, 0.1, 0.1)  # another seed block
    measure(tmp_path, "d", settings(GRADERS["net"], "hard"), 0, 0.2, 0.2)  # another suite
    measure(tmp_path, "e", settings(GRADERS["best"]), 0, 1.0, 0.9)
    _, rows = graders(sweep)
    assert list(rows) == ["rule", "net", "pair", "best"]  # the baseline has none
    agreement = rows["net"]["agreement"]
    assert agreement["pair_accuracy"]["value"] == pytest.approx(0.75)
    assert (agreement["pair_accuracy"]["n_used"], agreement["pair_accuracy"]["n_planned"]) == (2, 2)
    assert (agreement["right_over_lucky"]["value"], agreement["right_over_lucky"]["n_used"]) == (0.5, 1)
    for name in ("rule", "pair"):
        assert rows[name]["agreement"]["pair_accuracy"]["value"] is None
        assert rows[name]["agreement"]["pair_accuracy"]["why"] == NOT_JUDGED
    assert [name for name, row in rows.items() if row["upper_bound"]] == ["best"]
    (tmp_path / "artifacts" / "grader_accuracy" / "a" / "accuracy.json").write_text("{")
    _, rows = graders(sweep)
    assert rows["net"]["agreement"]["pair_accuracy"]["value"] == pytest.approx(0.8)


def test_costs_by_hand(sweep: Path) -> None:
    _, rows = graders(sweep)
    assert rows["net"]["grading"]["value"] == pytest.approx(10 * 0.01)
    assert rows["net"]["run"]["value"] == pytest.approx(10 * STEP_CPU)
    assert rows["net"]["share"]["value"] == pytest.approx(0.01 / STEP_CPU, rel=1e-4)
    assert rows["net"]["training"]["value"] == pytest.approx(7 + 3)  # without the SFT weights
    assert (rows["rule"]["training"]["value"], rows["rule"]["training"]["why"]) == (None, UNTRAINED)


def test_page_table_and_figure(tmp_path: Path, sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        measure(tmp_path, f"a{seed}", settings(GRADERS["net"]), seed, 0.7, 0.5)
        measure(tmp_path, f"b{seed}", settings(GRADERS["best"]), seed, 1.0, 0.9)
    (data,) = read(sweep)
    tree = build([data], "t")
    (drawing,) = draw_all(tree["sweeps"][0], data.curves, ["grader_value"])
    assert "net: right above lucky 0.5" in drawing.alt
    assert "2 of 2 judged graders" in drawing.caption
    net = rows_of(tree, "graders")[1]
    assert net["variant"] == "net"
    assert net["pair_accuracy"].startswith("0.700")
    assert net["training of the grader, CPU s"].startswith("10 ")
    assert main(["report", str(sweep)]) == 0
    page = (sweep / "report" / "report.html").read_text()
    assert all(words in page for words in ("upper bound: reads the label tests", UNTRAINED, NOT_JUDGED))
    assert "### Graders" in (sweep / "report" / "report.md").read_text()
    capsys.readouterr()
    assert main(["explain", "grader_value", str(sweep)]) == 0
    assert "not drawn" not in capsys.readouterr().out


def test_without_graders_nothing_is_said(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    sweep = make_sweep(tmp_path, variants={"a": SHORT, "b": SHORT}, seeds=[0], baseline="a")
    tree, rows = graders(sweep)
    assert rows == {}
    (data,) = read(sweep)
    assert draw_all(tree, data.curves, ["grader_value"]) == []


def test_settings_that_only_watch_are_the_ones_that_identity_leaves_out() -> None:
    assert set(WATCHING) == set(_MONITORING)


def test_table_of_accuracies_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, pair in enumerate((0.7, 0.8)):
        folder = tmp_path / "artifacts" / "grader_accuracy" / str(seed)
        folder.mkdir(parents=True)
        part = {"pair_accuracy": pair, "right_over_lucky": None, "tau": 0.5, "top1": 0.25}
        none = dict.fromkeys(part)
        content = {
            "kind": "distilled_s", "settings": {"view": "pairwise"}, "seed": seed, "upper_bound": False,
            "tasks": "weak_tests", "policy": "gru", "parameters": 11009, "fit_cpu_s": 2.0 + 2 * seed,
            "cpu_s_per_group": 0.001, "actions_per_group": 0.0, "all": part,
            "by_difficulty": {"easy": none, "middle": part, "hard": none},
            "by_origin": {"sft": none, "step 60": part | {"pair_accuracy": pair - 0.1}},
        }  # fmt: skip
        records.publish(folder / "accuracy.json", records.to_json(content))
        records.publish(folder / "done.json", records.to_json({}))
    assert main(["graders", str(tmp_path), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    # half width: t(.975, 1 df) = 12.7062 times sd .0707107 over sqrt 2
    assert row == {
        "grader": "distilled_s view=pairwise on weak_tests", "n": "2",
        "pair_accuracy": "0.750 [0.115, 1.385]", "right_over_lucky": "-",
        "tau": "0.500 [0.500, 0.500]", "top1": "0.250 [0.250, 0.250]",
        "pair, middle tasks": "0.750 [0.115, 1.385]", "pair, step 60": "0.650 [0.015, 1.285]",
        "parameters": "11,009", "fit CPU s": "3.0", "ms per group": "1.00", "actions": "0.0",
    }  # fmt: skip
