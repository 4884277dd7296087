"""Figures: labels that do not collide, looks that stay, awkward sweeps, and well-formed SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from analysis.curves import Curve
from analysis.data import read
from analysis.plots import parallel
from analysis.plots.drawing import Drawing
from analysis.plots.figures import FIGURES, draw_all
from analysis.plots.panels import seed_width
from analysis.plots.stacks import line, solid_part
from analysis.plots.style import (
    OTHERS,
    in_style,
    log_ticks,
    looks,
    new_figure,
    place_names,
    short_names,
    spread,
)
from analysis.plots.tuning import staggered
from analysis.report import build

PNG = b"\x89PNG\r\n\x1a\n"


@given(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=12))
def test_end_labels_keep_their_distance_and_order(wanted: list[float]) -> None:
    place = spread(wanted)
    ordered = sorted(place)
    assert all(b - a >= 0.075 - 1e-9 for a, b in pairwise(ordered))
    assert max(place) <= 1.0 + 1e-9
    for i in range(len(wanted)):
        for j in range(len(wanted)):
            if wanted[i] < wanted[j]:
                assert place[i] < place[j]


def test_labels_that_have_room_stay_where_they_are() -> None:
    assert spread([0.1, 0.9, 0.5]) == [0.1, 0.9, 0.5]


@given(st.lists(st.text(min_size=1, max_size=90), min_size=1, max_size=8, unique=True))
def test_short_names_stay_short_and_different(labels: list[str]) -> None:
    names = short_names(labels)
    assert all(len(name) <= 24 for name in names.values())
    assert len(set(names.values())) == len(labels)


def test_short_names_leave_out_what_all_labels_say() -> None:
    labels = ["gagar tasks=hard", "gagar sampling=refill tasks=hard", "gagar sampling=band tasks=hard"]
    assert list(short_names(labels).values()) == ["gagar", "sampling=refill", "sampling=band"]
    assert short_names(["gagar tasks=hard"]) == {"gagar tasks=hard": "gagar tasks=hard"}


def test_names_too_long_for_a_line_lose_the_key_that_most_have_and_take_two_lines() -> None:
    labels = ["dr_grpo", "gagar grader=agentic_s", "gagar grader=distilled_s grader.teacher=agentic_s"]
    assert list(short_names(labels, width=19, lines=2).values()) == [
        "dr_grpo", "gagar agentic_s", "gagar distilled_s\nteacher=agentic_s",
    ]  # fmt: skip
    # a number means nothing without its key, and names must stay different
    assert list(short_names(["a grader.edit_cost=2", "b grader.edit_cost=4 seed_everything=7"]).values()) == [
        "a edit_cost=2", "b edit_cost=…verything=7",
    ]  # fmt: skip
    same = ["x grader=one_that_is_very_long", "x teacher=one_that_is_very_long", "x grader=other"]
    assert len(set(short_names(same).values())) == 3


def test_a_variant_looks_the_same_in_every_figure_and_the_baseline_is_black() -> None:
    found = looks(["grpo", "rloo", "gagar"], "grpo")
    assert found["grpo"].colour == "#000000"
    assert len({look.colour for look in found.values()}) == 3
    assert len({look.marker for look in found.values()}) == 3
    labels = [f"v{i}" for i in range(12)]
    many = looks(labels, "v0", ["v0", "v3", "v5", "v7", "v9"])
    told_apart = [label for label, look in many.items() if look.colour != OTHERS]
    assert told_apart == ["v0", "v3", "v5", "v7", "v9"]
    assert len({many[label].colour for label in told_apart}) == 5


def draw(path: Path, only: Collection[str] | None = None) -> list[Drawing]:
    (data,) = read(path)
    return draw_all(build([data], "t")["sweeps"][0], data.curves, only)


def check(drawings: list[Drawing]) -> None:
    for drawing in drawings:
        assert drawing.png.startswith(PNG)
        ET.fromstring(drawing.svg)
        assert b"<!--" not in drawing.svg
        assert drawing.alt
        assert "n = " in drawing.caption or "n differs" in drawing.caption


@pytest.mark.parametrize("count", [6, pytest.param(33, marks=pytest.mark.slow)])
def test_small_multiples_say_what_they_leave_out(
    count: int, tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    few = {"steps": 2, "planned_steps": 2, "eval_every": 2}
    variants = {"v0": few} | {f"{'a very long name of a variant ' * 3}{i}": few for i in range(count - 1)}
    # all figures of many variants only in the slow lane
    only = ["train_pass", "learning", "pareto", "seeds"] if count < 10 else None
    drawings = draw(make_sweep(tmp_path, variants=variants, seeds=[0], baseline="v0"), only)
    assert only is None or [d.key for d in drawings] == ["learning", "pareto", "seeds", "train_pass"]
    check(drawings)
    words = {drawing.key: drawing.caption for drawing in drawings}
    assert ("30 of 3" in words["train_pass"]) == ("30 of 3" in words["seeds"]) == (count > 30)
    assert f"grey: the other {count - 5}." in words["learning"]


@pytest.mark.parametrize("steps", [1, 3])
def test_one_point_and_equal_values_can_be_drawn(
    steps: int, tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    same = {"steps": steps, "planned_steps": steps, "final_pass": 1.0, "length": 0.0}
    drawings = draw(make_sweep(tmp_path, variants={"a": same, "b": same}, seeds=[0], baseline="a"))
    assert {"held_out", "train_pass", "difference_tokens"} <= {drawing.key for drawing in drawings}
    check(drawings)


def test_without_baseline_nothing_is_compared(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    only = [key for key in FIGURES if key.startswith("difference")] + ["tornado", "two_factor", "pareto"]
    drawings = draw(make_sweep(tmp_path, variants={"a": {}, "b": {}}, seeds=[0]), only)
    assert [drawing.key for drawing in drawings] == ["pareto"]
    assert not [drawing.key for drawing in drawings if drawing.key.startswith("difference")]


@pytest.mark.parametrize("count", [5, 7])
def test_many_variants_without_baseline_can_be_told_apart(
    count: int, tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    few = {"steps": 2, "planned_steps": 2, "eval_every": 2}
    drawings = draw(make_sweep(tmp_path, variants={f"v{i}": few for i in range(count)}, seeds=[0]))
    check(drawings)
    learning = next(drawing for drawing in drawings if drawing.key == "learning")
    assert "the baseline" not in learning.caption
    assert (f"the first 5 variants; grey: the other {count - 5}." in learning.caption) == (count > 5)
    found = looks([f"v{i}" for i in range(5)], None).values()
    assert len({look.colour for look in found} | {"#000000"}) == 6
    assert len({look.marker for look in found}) == len({str(look.dash) for look in found}) == 5


def test_markup_in_names_stays_text(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    nasty = "a --><script>$x^{$ & <b>"
    drawings = draw(make_sweep(tmp_path, variants={nasty: {}}, seeds=[0]), ["held_out", "learning", "pareto"])
    check(drawings)
    assert not [d.key for d in drawings if b"<script" in d.svg]


def test_means_over_survivors_are_dotted(tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    # seed 1 dies at step 12, before its second evaluation: the mean is whole up to step 10 only
    special = {("a", 1): {"steps": 12, "result": None, "exit_status": "killed"}}
    (data,) = read(make_sweep(tmp_path, variants={"a": {}}, seeds=[0, 1], special=special))
    one = build([data], "t")["sweeps"][0]["learning"]["variants"]["a"]
    assert (one["step"], one["n"]) == ([0, 10, 20], [2, 2, 1])
    assert solid_part(one) == [True, True, False]
    _, axes = new_figure()
    line(axes[0, 0], one["step"], one["mean"], looks(["a"], None)["a"], solid=solid_part(one))
    assert [list(drawn.get_xdata()) for drawn in axes[0, 0].lines] == [[0, 10], [10, 20]]


def test_thin_lines_of_many_runs_are_averaged_and_few_are_not() -> None:
    def curve(runs: int, steps: int) -> Curve:
        return Curve(tuple(map(str, range(runs))), np.arange(1, steps + 1), np.zeros((runs, steps)))

    assert [seed_width(curve(*shape)) for shape in ((60, 200), (61, 200), (1000, 200), (600, 2000), (3, 1))] == [
        1, 2, 17, 100, 1,
    ]  # fmt: skip


def test_ticks_of_a_log_axis_are_round_and_at_least_two() -> None:
    assert log_ticks(20, 3000) == [30, 100, 300, 1000, 3000]
    assert log_ticks(80, 160) == [80, 100, 120, 140, 160]
    assert log_ticks(285, 352) == [300, 320, 340]
    assert log_ticks(1, 1000) == [1, 10, 100, 1000]


def test_names_of_points_do_not_lie_on_each_other() -> None:
    with in_style():
        figure, grid = new_figure()
        axes = grid[0, 0]
        points = [(100 + i, 0.5 + i / 1000, f"a name of a variant {i}", "#000000") for i in range(5)]
        axes.plot([60, 160], [0, 1], ls="")
        place_names(axes, points)
        figure.draw_without_rendering()
        boxes = [Text.get_window_extent(text) for text in axes.texts]  # without their lines
    assert len(boxes) == 5
    assert not [1 for a, b in combinations(boxes, 2) if a.shrunk(1, 0.8).overlaps(b.shrunk(1, 0.8))]


def test_long_names_of_choices_stand_on_two_levels() -> None:
    assert staggered(["a", "b"]) == ["a", "b"]
    names = ["mixed_only", "adaptive_group", "anchors", "curriculum", "keep_all", "refill", "band"]
    assert staggered(names) == [
        "mixed_only", "\nadaptive_group", "anchors", "\ncurriculum", "keep_all", "\nrefill", "band",
    ]  # fmt: skip


def test_two_processes_draw_the_same_bytes(
    tmp_path: Path, make_sweep: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"steps": 10, "planned_steps": 10, "eval_every": 10}
    sweep = make_sweep(tmp_path, variants={"a": short, "b": short}, seeds=[0, 1], baseline="a")
    (data,) = read(sweep)
    section = build([data], "t")["sweeps"][0]
    alone = parallel.draw(section, data.curves)
    monkeypatch.setattr(parallel, "LARGE", 4)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert parallel.draw(section, data.curves) == alone
    others = parallel._ask(section, data.curves, ["held_out", "pareto"])  # it is really the other who draws
    assert others == [drawing for drawing in alone if drawing.key in ("held_out", "pareto")]
    assert [drawing.key for drawing in others] == ["held_out", "pareto"]
    # a process that does not come up costs time and nothing else
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert parallel._ask(section, data.curves, ["held_out"]) == []
    assert parallel.draw(section, data.curves) == alone
