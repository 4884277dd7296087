"""``python -m experiments adopt``: advantages of logged trajectories, and every faulty line named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.__main__ import main

EXAMPLE = Path(__file__).parent.parent.parent / "experiments" / "adopt_example.jsonl"
BASE: dict[str, Any] = {"task": "t", "passed": True}


def adopt(
    tmp_path: Path, lines: list[Any], *words: str, out: str = "out.jsonl"
) -> tuple[int, list[dict[str, Any]]]:
    source, target = tmp_path / "in.jsonl", tmp_path / out
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    source.write_text("\n".join(texts) + "\n")
    status = main(["adopt", str(source), "--out", str(target), *words])
    rows = [json.loads(line) for line in target.read_text().splitlines()] if target.exists() else []
    return status, rows


def test_example_gives_what_the_formula_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made" / "out.parquet"
    assert main(["adopt", str(EXAMPLE), "--out", str(out)]) == 0
    frame = pl.read_parquet(out)
    # waste: 0, 3 and 1 and a little for size; weights 1, .1, .55 on .25: λ = .75 / .4125 = 20 / 11
    assert frame["rank"].to_list() == [1, 3, 2, None, 2, 1, None]
    assert frame["weight"].to_list()[:4] == pytest.approx([1, 0.1, 0.55, 1])
    assert frame["adv_used"].to_list()[:4] == pytest.approx([5 / 11, 0.5 / 11, 2.75 / 11, -0.75])
    # ranks of its own, on a base of 1/3: weights .1 and 1, λ = 2 / 1.1
    assert frame["adv_used"].to_list()[4:] == pytest.approx([0.2 / 3.3, 2 / 3.3, -2 / 3])
    assert "7 lines in 2 groups: 2 redistributed" in capsys.readouterr().out


def test_choices_failures_of_the_infrastructure_and_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        BASE | {"rank": 1, "score": 0.9, "group": 7}, BASE | {"rank": 2, "score": 0.1, "group": 7},
        BASE | {"passed": False, "group": 7}, BASE | {"valid": False, "group": 7}, {"task": "λ\x1b", "passed": True},
    ]  # fmt: skip
    status, rows = adopt(tmp_path, lines, "redistribution=none", "estimator=rloo", "weighting=uniform")
    assert status == 0
    assert [row["adv_used"] for row in rows] == pytest.approx([0.5, 0.5, -1, 0, 0])
    assert rows[0]["group"] == "7"
    assert rows[4]["task"] == "λ\x1b"
    status, rows = adopt(tmp_path, lines)
    assert rows[4]["fallback"] == "single pass"
    assert "1 kept their base advantages: single pass" in capsys.readouterr().out


def test_every_fault_is_named_by_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        BASE, "{", "[1]", {"task": 3}, BASE | {"pased": 1}, BASE | {"tokens": -1}, BASE | {"rank": True}, "",
        BASE | {"score": float("nan")}, BASE | {"segments": [{"role": "user"}]}, BASE | {"passed": 1},
        BASE | {"tokens": 10**400}, {"task": "\ud800", "passed": True},
    ]  # fmt: skip
    status, rows = adopt(tmp_path, lines)
    err = capsys.readouterr().err
    assert (status, rows) == (2, [])
    for said in (
        "line 2: not valid JSON", "line 3: an object is expected; got list", "line 4: passed is missing",
        "line 4: task must be a text; got 3", "line 5: unknown field 'pased'; known: task, passed",
        "line 6: tokens must be at least 0; got -1", "line 7: rank must be int or float", "line 9: score must be finite",
        "line 10: segments[0] must be", "line 11: passed must be true or false; got 1", "line 12: tokens must be finite",
        "line 13: task holds a character",
    ):  # fmt: skip
        assert said in err, said
    assert "line 1:" not in err


def test_what_cannot_be_compared_or_chosen_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = [BASE | {"rank": 1}, BASE, BASE | {"passed": False}]
    for lines, words, said in (
        (half, [], "group 't': 1 of 2 passing lines have a rank; give all or none"),
        ([BASE | {"program": "x"}, BASE], [], "1 of 2 passing lines have a program"),
        ([], [], "holds no line"),
        ([BASE], ["policy=gru", "extra.jsonl"], "policy=gru: only algorithm, grader"),
        ([BASE], ["grader=nobody"], "trajectory_rule"),
        ([BASE], ["grader=distilled_s"], "has to be trained"),
        ([BASE], ["grader=oracle"], "label tests"),
        ([BASE], ["grader=self_likelihood"], "log-probabilities"),
        ([BASE] * 3, ["weighting=length_bucket"], "length"),
    ):
        assert adopt(tmp_path, lines, *words)[0] == 2
        assert said in capsys.readouterr().err
    assert adopt(tmp_path, [BASE], out="out.csv")[0] == 2
    assert adopt(tmp_path, [BASE], out="in.jsonl")[0] == 2
    assert "would replace" in capsys.readouterr().err
    assert main(["adopt", str(tmp_path / "none.jsonl")]) == 2
    assert "cannot read" in capsys.readouterr().err
