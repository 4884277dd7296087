"""Pass at equal cost, cost of an equal pass rate, waste and reach of edits, on tables worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.cross import cross_section
from analysis.curves import Curve
from analysis.data import SweepData, read
from analysis.efficiency import cost_of_level, efficiency, value_at_cost, wasted_share
from analysis.metrics import METRICS
from analysis.page import render
from analysis.report import build
from analysis.step_signals import COLUMNS
from analysis.study import FAILED, FINISHED, UNFINISHED, Run, Sweep
from gagar_core import records

STEPS = np.array([0, 1, 2])
NAN = math.nan


def test_value_at_a_cost_is_read_between_evaluations() -> None:
    costs, values = np.array([10.0, 20, 40]), np.array([0.2, 0.4, 0.8])
    assert value_at_cost(costs, values, 15) == pytest.approx(0.3)
    assert value_at_cost(costs, values, 30) == pytest.approx(0.6)
    assert value_at_cost(costs, values, 40) == 0.8
    # artifacts cost 10: before that there is the policy that training starts from
    assert value_at_cost(costs, values, 5) == 0.2
    assert math.isnan(value_at_cost(costs, values, 41))
    assert value_at_cost(costs, np.array([0.2, NAN, 0.8]), 25) == pytest.approx(0.5)
    assert math.isnan(value_at_cost(np.full(3, NAN), values, 5))


def test_cost_of_a_level_is_that_of_its_first_crossing() -> None:
    costs = np.array([0.0, 100, 200, 300])
    values = np.array([0.2, 0.6, 0.4, 0.9])
    assert cost_of_level(costs, values, 0.5) == pytest.approx(75)
    assert cost_of_level(costs, values, 0.75) == pytest.approx(270)
    assert cost_of_level(costs, values, 0.1) == 0.0
    assert math.isnan(cost_of_level(costs, values, 0.95))


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 1)), min_size=2, max_size=8), st.floats(0, 1))
def test_the_cost_of_a_level_buys_that_level(points: list[tuple[float, float]], share: float) -> None:
    costs = np.cumsum([gap for gap, _ in points])
    values = np.array([value for _, value in points])
    level = values.min() + share * (values.max() - values.min())
    cost = cost_of_level(costs, values, level)
    assert value_at_cost(costs, values, cost) >= level - 1e-9
    cheaper = [value for at, value in zip(costs, values, strict=True) if at < cost]
    assert all(value < level for value in cheaper)


def signals(tokens: Sequence[float], wasted: Sequence[float], cpu: float = 1.0) -> dict[str, np.ndarray]:
    found = {name: np.full(2, NAN) for name in COLUMNS}
    return found | {
        "done": np.array([1.0, 2.0]),
        "gen_tokens": np.array(tokens),
        "wasted_tokens": np.array(wasted),
        "train_cpu_s": np.full(2, cpu),
    }


def run(run_id: str, variant: str, status: str = FINISHED) -> Run:
    return Run(Path(), run_id, variant, int(run_id[-1]), status)


def sweep_of(*runs: Run) -> Sweep:
    planned = {r.variant: (0, 1) for r in runs}
    return Sweep("s", Path("nowhere"), "", None, (), "", planned, False, runs)


FOUR = ("a0", "b0", "a1", "b1")
PASS = Curve(FOUR, STEPS, np.array([[0.2, 0.4, 0.6], [0.2, 0.5, 0.6], [0.3, 0.5, 0.4], [0.3, 0.3, 0.7]]))
SIGNALS = {
    "a0": signals([100, 100], [50, 0], cpu=4),
    "b0": signals([200, 200], [0, 0]),
    "a1": signals([100, 100], [100, 50], cpu=4),
    "b1": signals([200, 200], [40, 0]),
}


def test_both_grounds_are_common_to_a_seed_block() -> None:
    everyone = sweep_of(*(run(i, i[0]) for i in FOUR))
    grounds, curves = efficiency(everyone, PASS, SIGNALS)
    assert grounds.budgets == {"tokens": {0: 200, 1: 200}, "cpu_s": {0: 2, 1: 2}}
    # block 0: both reach 0.6; block 1: a reaches 0.5 at best, b 0.7
    assert grounds.levels == {0: 0.6, 1: 0.5}
    last = {
        name: dict(zip(FOUR, curve.values[:, -1].round(9), strict=True)) for name, curve in curves.items()
    }
    assert last["pass_at_tokens"] == {"a0": 0.6, "b0": 0.5, "a1": 0.4, "b1": 0.3}
    # a spends 4 CPU seconds a step, so at 2 it is half way to its first evaluation
    assert last["pass_at_cpu"] == {"a0": 0.3, "b0": 0.6, "a1": 0.4, "b1": 0.7}
    assert last["tokens_to_level"] == {"a0": 200, "b0": 400, "a1": 100, "b1": 300}
    assert last["cpu_to_level"] == {"a0": 8, "b0": 2, "a1": 4, "b1": 1.5}
    assert last["spent_tokens"] == {"a0": 200, "b0": 400, "a1": 200, "b1": 400}
    assert last["wasted_share"] == {"a0": 0.25, "b0": 0, "a1": 0.75, "b1": 0.1}
    assert np.isnan(curves["wasted_share"].values[:, 0]).all()


def test_what_is_not_over_sets_no_ground_and_what_died_does() -> None:
    half = Curve(("a0", "b0"), STEPS, np.array([[0.2, 0.4, 0.6], [0.2, 0.5, NAN]]))
    running = sweep_of(run("a0", "a"), run("b0", "b", UNFINISHED))
    assert efficiency(running, half, SIGNALS)[0].budgets["tokens"] == {0: 200}
    died = sweep_of(run("a0", "a"), run("b0", "b", FAILED))
    grounds, curves = efficiency(died, half, SIGNALS)
    assert grounds.budgets == {"tokens": {0: 200}, "cpu_s": {0: 1}}
    assert grounds.levels == {0: 0.5}
    assert curves["pass_at_tokens"].values[1, :2].tolist() == [0.5, 0.5]
    assert math.isnan(curves["pass_at_tokens"].values[1, 2])


def test_costs_that_were_not_recorded_give_no_number() -> None:
    everyone = sweep_of(*(run(i, i[0]) for i in FOUR))
    blind = SIGNALS | {"a0": signals([NAN, 100], [0, 0])}
    grounds, curves = efficiency(everyone, PASS, blind)
    assert grounds.budgets["tokens"] == {0: 400, 1: 200}
    assert np.isnan(curves["pass_at_tokens"].values[0]).all()
    assert np.isnan(wasted_share(None, STEPS)).all()
    assert np.isnan(wasted_share(blind["a0"], STEPS)).all()


def write(folder: Path, number: int, variant: str, tokens: int, shares: Sequence[float]) -> dict[str, object]:
    """A run of two steps; ``shares`` of ten held-out tasks pass, edits of passing ones reach two functions."""
    path = folder / "runs" / f"r{number}"
    path.mkdir(parents=True)
    config = {"schema_version": 1, "run_id": path.name, "variant": variant, "seed": 0, "config": {}}
    records.publish(path / "config.json", records.to_json(config))
    records.publish(path / "meta.json", records.to_json({"sandbox_level": "namespaces"}))
    writer = records.RunWriter(path, path.name, 1)
    for step, share in enumerate(shares):
        rows = [
            {
                "split": "held_out", "task_id": f"t{task}", "attempt_idx": 0, "passed": task < 10 * share,
                "audit_passed": False, "valid": True, "gen_tokens": 5, "obs_tokens": 0,
                "diff_add": 3 if task == 0 else 1, "diff_del": 1, "functions_changed": 2 if task == 0 else 1,
            }
            for task in range(10)
        ]  # fmt: skip
        writer.add("evals", step, rows)
        if step < 2:
            writer.add("steps", step, [{"gen_tokens": tokens, "wasted_tokens": 30, "train_cpu_s": 1.0}])
            writer.end_step()
    writer.flush()
    records.publish(path / "result.json", records.to_json({"status": "finished", "steps": 2, "reason": ""}))
    return {"index": number, "run_id": path.name, "variant": variant, "seed": 0, "kind": "run"}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Arm a: 100 tokens a step; arm b: 200."""
    folder = tmp_path / "main"
    lines = [
        write(folder, 0, "a", 100, [0.2, 0.4, 0.6]),
        write(folder, 1, "b", 200, [0.2, 0.6, 0.8]),
    ]
    (folder / "plan.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    head = {
        "schema_version": 1,
        "name": "main",
        "question": "q",
        "baseline": "a",
        "hypotheses": [],
        "seeds": [0],
    }
    (folder / "sweep.json").write_text(json.dumps(head))
    return folder


def one(data: SweepData, key: str) -> list[float]:
    (section,) = build([data], "t")["sweeps"]
    return [variant["values"][key]["value"] for variant in section["variants"]]


def test_report_has_them_with_their_grounds(sweep: Path) -> None:
    (data,) = read(sweep)
    assert one(data, "pass_at_tokens") == [0.6, 0.6]
    assert one(data, "tokens_to_level") == [200, 200]
    assert one(data, "wasted_share") == [0.3, 0.15]
    # six passing attempts of arm a: one with 4 lines in two functions, five with 2 lines in one
    assert one(data, "diff_lines_pass") == [pytest.approx(14 / 6, rel=1e-5), pytest.approx(18 / 8, rel=1e-5)]
    assert one(data, "functions_changed_pass")[0] == pytest.approx(7 / 6, rel=1e-5)
    (section,) = build([data], "t")["sweeps"]
    assert section["efficiency"] == {
        "budget": {"tokens": {"0": 200}, "cpu_s": {"0": 2}},
        "level": {"0": 0.6},
    }
    difference = {row["metric"]: row["value"] for row in section["comparisons"]}
    assert (difference["pass_at_tokens"], difference["spent_tokens"]) == (0, 200)


def test_page_table_and_explanation_show_them(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = render(build(read(sweep), "t"), [()])
    assert "Per generated token and per CPU second" in page
    for key in ("pass_at_tokens", "pass_at_cpu", "cpu_to_level", "wasted_share", "functions_changed_pass"):
        assert METRICS[key].label in page
    assert main(["table", str(sweep), "--what", "efficiency", "--format", "csv"]) == 0
    head, first, _ = capsys.readouterr().out.splitlines()
    assert "pass at equal tokens, share" in head
    assert first == "a,0.600,0.600,0.600,200,2,200,2,0.300,2.33,1.17,1/1"
    assert main(["explain", "pass_at_tokens", str(sweep)]) == 0
    said = capsys.readouterr().out
    assert "generated fewest did in all; linear between evaluations" in said
    assert "r1 seed 0: 0.600" in said


def test_no_equal_budget_across_two_sweeps(sweep: Path) -> None:
    (data,), (again,) = read(sweep), read(sweep)
    inside = {row["metric"] for row in cross_section([data], "a", "b")["rows"]}
    assert "pass_at_tokens" in inside
    lines = (sweep / "sweep.json").read_text().replace('"main"', '"other"')
    (sweep / "sweep.json").write_text(lines)
    (again,) = read(sweep)
    across = {
        row["metric"] for row in cross_section([data, again], f"{data.sweep.name}/a", "other/b")["rows"]
    }
    assert "pass_at_tokens" not in across
    assert "held_out_pass" in across
