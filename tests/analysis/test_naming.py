"""What is left out of the names of variants, and where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.naming import fitted, left_out, own_names, shared_words
from analysis.text import interval_text
from gagar_core import records

LABELS = ["dr_grpo tasks=weak", "gagar tasks=weak", "gagar grader=oracle tasks=weak"]


def test_words_that_all_have_are_left_out() -> None:
    assert own_names(LABELS) == dict(zip(LABELS, ["dr_grpo", "gagar", "gagar grader=oracle"], strict=True))
    assert left_out(LABELS) == ["tasks=weak"]
    assert own_names(["gagar tasks=weak"]) == {"gagar tasks=weak": "gagar tasks=weak"}
    assert left_out(["gagar tasks=weak"]) == []
    # a name needs a word: the plain one keeps its first
    assert list(own_names(["gagar", "gagar grader=oracle"]).values()) == ["gagar", "grader=oracle"]


def test_labels_that_would_become_equal_stay_whole() -> None:
    labels = ["a x", "a a x"]
    assert shared_words(labels) == ["a", "x"]
    assert own_names(labels) == {"a x": "a x", "a a x": "a a x"}
    assert left_out(labels) == []


@given(st.lists(st.text("ab =", min_size=1, max_size=9), min_size=1, max_size=6, unique=True))
def test_own_names_are_never_empty_and_never_equal(labels: list[str]) -> None:
    names = own_names(labels)
    assert len(set(names.values())) == len(labels)
    assert all(names.values())


@given(st.text(min_size=1, max_size=90), st.integers(8, 24), st.integers(1, 3))
def test_a_fitted_name_keeps_to_its_lines(text: str, width: int, lines: int) -> None:
    text = " ".join(text.split()) or "x"
    found = fitted(text, width, lines).split("\n")
    assert len(found) <= lines
    assert all(len(line) <= width for line in found)


def test_pages_use_own_names_and_report_json_whole_labels(
    tmp_path: Path, make_sweep: Callable[..., Path]
) -> None:
    hypothesis = {
        "metric": "tokens", "variant": LABELS[2], "against": LABELS[0], "kind": "superior",
        "direction": "lower", "margin": 0.0,
    }  # fmt: skip
    few = {"steps": 2, "planned_steps": 2, "eval_every": 2}
    sweep = make_sweep(
        tmp_path,
        variants=dict.fromkeys(LABELS, few),
        seeds=[0, 1],
        baseline=LABELS[0],
        hypotheses=[hypothesis],
    )
    assert main(["report", str(sweep)]) == 0
    (section,) = records.read_json(sweep / "report" / "report.json")["sweeps"]
    assert [variant["label"] for variant in section["variants"]] == LABELS
    assert section["left_out"] == ["tasks=weak"]
    assert (
        "gagar grader=oracle tasks=weak is lower than dr_grpo tasks=weak"
        in section["verdicts"][0]["sentence"]
    )
    for name in ("report.html", "report.md"):
        page = (sweep / "report" / name).read_text().replace("\\", "").replace("<wbr>", "")
        assert page.count("tasks=weak") == 1
        assert "gagar grader=oracle is lower than dr_grpo" in page


def test_an_interval_without_width_says_why() -> None:
    number = {"unit": "share", "n_used": 3, "why": "", "interval": {"low": 1.0, "high": 1.0}}
    assert interval_text(number | {"sd": 0.0}) == "[1.000, 1.000] all 3 equal: no spread to judge by"
    assert interval_text(number | {"sd": 1e-9}) == (
        "[1.000, 1.000] equal in all digits kept: no spread to judge by"
    )
