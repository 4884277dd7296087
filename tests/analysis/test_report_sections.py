"""Factors, costs, comparisons across sweeps, explanations, tunings, live sweeps, and numbers on the page."""

from __future__ import annotations

import html.parser
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis import explain as explaining
from analysis.__main__ import main
from analysis.cross import cross_section, what_differs
from analysis.data import read
from analysis.factors import factor_section, shorten
from analysis.page import render
from analysis.plots.effects import heat_map
from analysis.plots.figures import FIGURES, draw_all
from analysis.plots.style import in_style
from analysis.report import build
from analysis.stability_section import STRIP
from analysis.step_signals import COLUMNS, costs_at
from analysis.tuning_section import trials_of
from gagar_core import records
from gagar_core.errors import InputError
from gagar_core.records.writer import polars_schema

SHORT = {"steps": 10, "planned_steps": 10, "eval_every": 10}


def configure(sweep: Path, run_id: str, **axes: Any) -> None:
    """Give a synthetic run a configuration."""
    path = sweep / "runs" / run_id / "config.json"
    content = json.loads(path.read_text())
    path.write_bytes(records.to_json(content | {"config": {k: {"kind": v} for k, v in axes.items()}}))


@pytest.fixture
def grid(tmp_path: Path, make_sweep: Callable[..., Path]) -> Path:
    """Two axes, two levels each; pass rates 0, 0.3, 0.5, 1 leave nothing to chance at the ends."""
    variants = {
        name: SHORT | {"final_pass": p} for name, p in (("base", 0.0), ("a", 1.0), ("b", 1.0), ("ab", 1.0))
    }
    sweep = make_sweep(tmp_path, variants=variants, seeds=[0, 1], baseline="base")
    for number, axes in enumerate((("x", "u"), ("y", "u"), ("x", "v"), ("y", "v"))):
        for seed in (0, 1):
            configure(sweep, f"v{number}s{seed}", estimator=axes[0], weighting=axes[1], seed=str(seed))
    return sweep


def test_one_factor_and_grid_are_found_from_configurations(grid: Path) -> None:
    (data,) = read(grid)
    found = factor_section(data)
    assert found["axes"] == ["estimator", "weighting"]
    assert found["one_factor"] == [
        {"label": "a", "axis": "estimator", "from": "x", "to": "y"},
        {"label": "b", "axis": "weighting", "from": "u", "to": "v"},
    ]
    (square,) = found["grids"]
    assert square["cells"] == [["base", "b"], ["a", "ab"]]
    (contrast,) = square["metrics"]["held_out_pass"]["interactions"]
    # (1 - 1) - (1 - 0) in both seed blocks
    assert (contrast["value"], contrast["n_used"]) == (-1.0, 2)
    section = build([data], "t")["sweeps"][0]
    drawn = {d.key: d for d in draw_all(section, data.curves, ["tornado", "two_factor"])}
    assert set(drawn) == {"tornado", "two_factor"}
    assert "y with v: -1 [-1, -1], n = 2" in drawn["two_factor"].caption


def test_without_a_complete_square_there_is_no_grid(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    variants = dict.fromkeys(("base", "a", "b", "ab"), SHORT)
    sweep = make_sweep(tmp_path, variants=variants, seeds=[0], baseline="base")
    # five levels of one axis, one of them also with the other axis changed, but not where the base is
    for number, axes in enumerate((("x", "u"), ("x", "v"), ("x", "w"), ("y", "v"))):
        configure(sweep, f"v{number}s0", estimator=axes[0], weighting=axes[1])
    (data,) = read(sweep)
    assert factor_section(data)["grids"] == []


def test_aheat_map_has_its_longer_side_downwards_and_no_labels_on_each_other() -> None:
    with in_style():
        columns = ["mixed_only", "adaptive_group", "anchors", "band", "curriculum", "keep_all", "refill"]
        table = np.linspace(0, 1, 14).reshape(2, 7)
        table[1, 3] = np.nan
        figure = heat_map(table, ["estimator", "sampling"], ["dr_grpo", "reinforce"], columns)
        figure.savefig(io.BytesIO())
    (axes,) = figure.axes
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("sampling", "estimator")
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        boxes = [label.get_window_extent() for label in labels]
        assert not any(a.overlaps(b) for a, b in pairwise(boxes))
    assert [text.get_text() for text in axes.texts][:2] == ["0.000", "0.538"]
    assert len(axes.texts) == 13


def test_settings_are_named_by_what_differs() -> None:
    assert what_differs("linear floor=0.1 ties=average", "linear floor=0.5 ties=average") == (
        "linear floor=0.1", "linear floor=0.5",
    )  # fmt: skip
    assert what_differs("small hidden=16 view=joint", "large hidden=64 view=joint") == (
        "small hidden=16", "large hidden=64",
    )  # fmt: skip
    assert what_differs("linear", "not set") == ("linear", "not set")
    assert shorten({"linear floor=0.1 ties=average", "linear floor=0.5 ties=average"}) == {
        "linear floor=0.1 ties=average": "floor=0.1",
        "linear floor=0.5 ties=average": "floor=0.5",
    }
    assert shorten({"linear floor=0.1", "uniform"}) == {"linear floor=0.1": "linear", "uniform": "uniform"}


def test_arms_pay_for_their_artifacts(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    sweep = make_sweep(tmp_path, variants={"a": SHORT, "b": SHORT}, seeds=[0], baseline="a")
    needs = {"v0s0": ["s"], "v1s0": ["s", "g"]}
    lines = [json.loads(line) for line in (sweep / "plan.jsonl").read_text().splitlines()]
    lines = [line | {"needs": needs.get(line["run_id"], [])} for line in lines]
    (sweep / "plan.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    for kind, digest, seconds in (("sft", "s", 20.0), ("grader", "g", 300.0)):
        (tmp_path / "artifacts" / kind / digest).mkdir(parents=True)
        records.publish(
            tmp_path / "artifacts" / kind / digest / "done.json", records.to_json({"cpu_s": seconds})
        )
    (data,) = read(sweep)
    tree = build([data], "t")["sweeps"][0]
    a, b = tree["cost"]
    steps = 10 * (0.1 + 0.05 + 0.01 + 0.08 + 0.002)
    assert a["arm_cpu_s"] == pytest.approx(steps + 20, rel=1e-4)
    assert b["arm_cpu_s"] == pytest.approx(steps + 320, rel=1e-4)
    assert [part["kind"] for part in b["artifacts"]] == ["grader", "sft"]
    assert (a["why"], b["why"]) == ("", "")
    assert tree["learning"]["variants"]["b"]["cpu_s"] == pytest.approx([320, 320 + steps], rel=1e-4)
    (tmp_path / "artifacts" / "grader" / "g" / "done.json").unlink()
    (again,) = read(sweep)
    tree = build([again], "t")["sweeps"][0]
    assert "lower bound" in tree["cost"][1]["why"]
    # neither arm may seem cheaper because what it needs is unknown: the axis starts at 0 for both, and says so
    assert [tree["learning"]["variants"][label]["cpu_s"][0] for label in "ab"] == [0, 0]
    assert "what 1 of 2 artifacts cost is not known" in tree["learning"]["axes"]["cpu_s"]
    (drawing,) = draw_all(tree, again.curves, ["learning"])
    assert "CPU seconds leave out artifacts: what 1 of 2 artifacts cost is not known" in drawing.caption


def test_costs_at_steps_by_hand() -> None:
    signals = {name: np.full(3, np.nan) for name in COLUMNS}
    signals |= {"done": np.array([1.0, 2, 3]), "gen_tokens": np.array([10.0, 20, 30])}
    signals |= {"rollout_cpu_s": np.array([1.0, 1, 1]), "grade_cpu_s": np.array([0.5, 0.5, np.nan])}
    found = costs_at(signals, [0, 2, 3], 100.0)
    assert found["tokens"].tolist() == [0, 30, 60]
    assert found["cpu_s"].tolist() == [100, 103, 104]
    assert np.isnan(costs_at(signals | {"gen_tokens": np.full(3, np.nan)}, [3])["tokens"]).all()
    blind = costs_at(signals | {"rollout_cpu_s": np.full(3, np.nan)}, [0, 3])
    assert np.isnan(blind["cpu_s"]).all()


def test_two_sweeps_are_compared_by_seed_block(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    always, never = SHORT | {"final_pass": 1.0}, SHORT | {"final_pass": 0.0}
    make_sweep(tmp_path, name="one", variants={"grpo": always, "rloo": never}, seeds=[0, 1])
    make_sweep(tmp_path, name="two", variants={"grpo": never}, seeds=[0, 1, 2])
    data = read(tmp_path)
    found = cross_section(data, "one/grpo", "two/grpo")
    row = next(row for row in found["rows"] if row["metric"] == "held_out_pass")
    assert (row["value"], row["n_used"], row["unmatched_blocks"], row["method"]) == (1.0, 2, [2], "paired")
    assert row["runs"][0] == "one/grpo/v0s0"
    assert "different sweeps" in found["note"]
    assert cross_section(data, "rloo", "one/grpo")["note"] == ""
    with pytest.raises(InputError, match="several sweeps; give one of one/grpo, two/grpo"):
        cross_section(data, "grpo", "rloo")
    with pytest.raises(InputError, match="'gargar' is no variant; there are one/grpo, one/rloo, two/grpo"):
        cross_section(data, "gargar", "rloo")
    assert "one/rloo against two/grpo" in render(build(data, "t", ("rloo", "two/grpo")), [(), ()])


def test_explanations_name_formula_runs_and_who_is_left_out(
    tmp_path: Path, make_sweep: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    special = {("a", 1): {"steps": 3, "result": None, "exit_status": "killed"}}
    sweep = make_sweep(tmp_path, variants={"a": SHORT}, seeds=[0, 1], special=special)
    assert main(["explain", "pareto", str(sweep)]) == 0
    said = capsys.readouterr().out
    assert "no variant is as short and as good" in said
    assert "v0s0 seed 0: " in said
    assert "v0s1 seed 1: not used, killed (killed on purpose)" in said
    assert main(["explain", "entropy_tok", str(sweep)]) == 0
    assert "formula: mean of the last 10 steps" in capsys.readouterr().out
    assert main(["explain", "paretto", str(sweep)]) == 2
    assert "ID must be one of" in capsys.readouterr().err


def test_a_figure_that_is_not_drawn_is_said_to_be_missing(
    grid: Path, tmp_path: Path, make_sweep: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = make_sweep(tmp_path / "other", variants={"a": SHORT}, seeds=[0])
    assert main(["explain", "two_factor", str(plain)]) == 0
    assert "main: not drawn, there is nothing to show" in capsys.readouterr().out
    assert main(["explain", "two_factor", str(grid)]) == 0
    words = capsys.readouterr().out
    assert "not drawn" not in words
    assert "runs behind it, each with its held-out pass:" in words


def test_every_figure_can_be_explained() -> None:
    assert set(explaining.FIGURES) == set(FIGURES)
    assert all(entry["metric"] and entry["section"] for entry in explaining.FIGURES.values())
    assert set(STRIP) <= set(COLUMNS)


def test_plot_writes_what_was_asked_and_says_what_is_empty(
    tmp_path: Path, make_sweep: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = make_sweep(tmp_path, variants={"a": SHORT}, seeds=[0])
    out = tmp_path / "figures"
    assert main(["plot", str(sweep), "--figure", "pareto", "--figure", "tuning", "--out", str(out)]) == 0
    assert sorted(p.name for p in out.iterdir()) == ["pareto.png", "pareto.svg"]
    assert "tuning has nothing to show here" in capsys.readouterr().err
    assert main(["plot", str(sweep), "--figure", "pie"]) == 2


def test_a_live_sweep_says_that_n_is_not_reached(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    special = {("a", 1): {"steps": 5, "result": None, "exit_status": None}}
    sweep = make_sweep(tmp_path, variants={"a": SHORT}, seeds=[0, 1, 2], special=special, skip=[("a", 2)])
    tree = build(read(sweep), "t")
    state = tree["sweeps"][0]["state"]
    assert (state["reached"], state["unfinished"], state["not_started"]) == (False, 1, 1)
    page = render(tree, [()])
    assert "Planned n not reached: 1 of 3 runs have ended" in page
    assert page.index("Planned n not reached") < page.index("Held-out results")


def test_trials_are_means_over_seeds_and_failed_ones_have_no_value(
    tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    rows = [
        {"trial": t, "run_id": f"r{t}{s}", "seed": s, "params": json.dumps({"floor": t / 10, "kind": "ab"[t % 2]}),
         "value": None if (t, s) == (3, 1) else t / 10 + s / 100, "state": "fail" if t == 3 else "complete"}
        for t in range(4) for s in range(2)
    ]  # fmt: skip
    schema = polars_schema("trials")
    frame = pl.DataFrame({name: [row.get(name) for row in rows] for name in schema}, schema=schema)
    found = trials_of(frame)
    assert [trial["value"] for trial in found] == pytest.approx([0.005, 0.105, 0.205, None])
    sweep = make_sweep(tmp_path, variants={"a": SHORT}, seeds=[0])
    records.write_table(frame, sweep / "trials.parquet")
    (data,) = read(sweep)
    tree = build([data], "t")
    tuning = tree["sweeps"][0]["tuning"]
    assert (tuning["n_trials"], tuning["n_complete"], tuning["best"]) == (4, 3, 2)
    floor, kind = tuning["settings"]
    assert (floor["name"], floor["rank_correlation"], kind["numeric"]) == ("floor", 1.0, False)
    (drawing,) = draw_all(tree["sweeps"][0], data.curves, ["tuning"])
    assert "3 of 4 trials complete" in drawing.caption
    (sweep / "trials.parquet").write_bytes(b"PAR1 but not really PAR1")
    assert main(["report", str(sweep), "--out", str(tmp_path / "out")]) == 2


class _Cells(html.parser.HTMLParser):
    """Text of table cells."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.cells = 0, [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "td":
            self.inside += 1
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag == "td"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.cells[-1] += f" {data}"


def leaves(tree: Any) -> Iterator[float]:
    """Every number of a tree, and the length of every list."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, list):
        yield len(tree)
        for value in tree:
            yield from leaves(value)
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield tree


def test_every_number_in_a_table_is_in_the_json(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    claim = {"metric": "held_out_pass", "variant": "b", "against": "a", "kind": "superior"}
    sweep = make_sweep(
        tmp_path, variants={"a": SHORT, "b": SHORT}, seeds=[0, 1], baseline="a", hypotheses=[claim]
    )
    tree = build(read(sweep), "t")
    scan = _Cells()
    scan.feed(render(tree, [()]))
    assert len(numbers_in(scan.cells)) > 500
    assert not_in_tree(tree, scan.cells) == []


def numbers_in(texts: Iterable[str]) -> list[str]:
    """Every number of some texts, as written."""
    form = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
    return [number for text in texts for number in form.findall(text)]


def not_in_tree(tree: Any, texts: Iterable[str]) -> list[str]:
    """Numbers of some texts that are no number of the tree in any form that the report writes."""
    known = set()
    for value in leaves(tree):
        known |= {f"{value:.3f}", f"{value:.2f}", f"{value:.3g}", f"{value:.4g}", f"{value:,.0f}", str(value)}
    return [number for number in numbers_in(texts) if number not in known]


def test_markdown_has_the_same_numbers_and_no_markup_from_names(
    tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    sweep = make_sweep(
        tmp_path, variants={"a|b <i>": SHORT, "b": SHORT | {"length": 80.0}}, seeds=[0, 1], baseline="b"
    )
    assert main(["report", str(sweep), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "report.md").read_text()
    tree = json.loads((tmp_path / "out" / "report.json").read_text())
    value = tree["sweeps"][0]["variants"][1]["values"]["held_out_pass"]["value"]
    assert f"{value:.3f}" in text
    # tables, and of every figure what it says to those who cannot see it, and its caption
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(numbers_in(lines)) > 300
    assert not_in_tree(tree, lines) == []
    assert "a\\|b" in text
    for file in re.findall(r"\]\((figures/[^)]*)\)", text):
        assert (tmp_path / "out" / file).exists()
