"""Runs of other code than their sweep's are variants of their own: shown, named, averaged with nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.cautions import _other_code
from analysis.cross import cross_section
from analysis.data import read
from analysis.report import build
from analysis.study import FINISHED, Run, Sweep, keep_apart, load_run, load_sweeps
from gagar_core import records


def runs_of(*codes: str) -> list[Run]:
    """Runs of one variant that were of these codes."""
    return [Run(Path(f"r{i}"), f"r{i}", "grpo", i, FINISHED, code=code) for i, code in enumerate(codes)]


def labels(*codes: str, first: str = "") -> list[str]:
    """Variants of runs of these codes."""
    return [run.variant for run in keep_apart(runs_of(*codes), first)]


def test_the_minority_is_apart_and_unknown_code_is_no_fault() -> None:
    assert labels("a", "b", "a", "") == ["grpo", "grpo [code b]", "grpo", "grpo"]
    assert labels("a", "a", "") == ["grpo"] * 3
    assert labels("", "") == ["grpo"] * 2
    assert labels("a", "b") == ["grpo", "grpo [code b]"]  # of two equally frequent ones the first counts
    assert labels("a", "b", "b", first="a") == ["grpo", "grpo [code b]", "grpo [code b]"]
    runs = tuple(keep_apart(runs_of("a", "b", "a")))
    sweep = Sweep("s", Path("s"), "", None, (), "", {"grpo": (0, 1, 2)}, True, runs)
    assert (sweep.variants, sweep.comparable) == (["grpo", "grpo [code b]"], ["grpo"])
    (warning,) = _other_code(sweep)
    assert (warning["code"], warning["runs"]) == ("other_code", ["r1"])
    assert "1 runs are of other code (b) than this sweep" in warning["text"]


def set_code(run: Path, code: str) -> None:
    """As if the run had been of this code."""
    meta = {"versions": {}, "sandbox_level": "rlimits", "host": "h", "code": {"digest": code}}
    records.publish(run / "meta.json", records.to_json(meta))


@pytest.fixture
def mixed(tmp_path: Path, make_sweep: Callable[..., Path]) -> Path:
    """Two variants in three seed blocks; one run of ``grpo`` is bad, and of other code."""
    sweep = make_sweep(
        tmp_path,
        variants={"base": {}, "grpo": {"final_pass": 0.8}},
        baseline="base",
        special={("grpo", 2): {"final_pass": 0.1}},
    )
    for run in sorted((sweep / "runs").iterdir()):
        set_code(run, "bbb" if run.name == "v1s2" else "aaa")
    return sweep


def test_a_report_keeps_the_run_of_other_code_out_of_its_arm(mixed: Path) -> None:
    tree = build(read(mixed), "other code")
    (sweep,) = tree["sweeps"]
    arms = {arm["label"]: arm["values"]["held_out_pass"] for arm in sweep["variants"]}
    assert list(arms) == ["base", "grpo", "grpo [code bbb]"]
    assert (arms["grpo"]["runs"], arms["grpo"]["n_planned"]) == (["v1s0", "v1s1"], 3)
    assert arms["grpo [code bbb]"]["runs"] == ["v1s2"]
    assert arms["grpo"]["value"] > 0.7
    assert arms["grpo [code bbb]"]["value"] < 0.3
    rows = [row for row in sweep["comparisons"] if row["metric"] == "held_out_pass"]
    assert [(row["variant"], row["n_used"], row["family"]) for row in rows] == [("grpo", 2, 1)]
    assert any("1 runs are of other code (bbb)" in w["text"] for w in sweep["warnings"])


def test_asked_for_by_name_it_is_compared_and_the_note_says_why_that_means_little(mixed: Path) -> None:
    section = cross_section(read(mixed), "grpo [code bbb]", "base")
    assert section["note"] == "the runs are of different code (aaa, bbb): what differs may be the code"


def test_the_code_of_the_first_submission_is_the_sweeps_own(mixed: Path) -> None:
    for nonce, digest, other in (("n1", "bbb", False), ("n2", "aaa", True)):
        intent = {"code": {"digest": digest, "other": other}}
        (mixed / "submissions" / nonce).mkdir(parents=True)
        records.publish(mixed / "submissions" / nonce / "intent.json", records.to_json(intent))
    (sweep,) = load_sweeps(mixed)
    assert sorted(run.run_id for run in sweep.runs if not run.apart) == ["v1s2"]


def test_a_run_that_went_on_with_other_code_is_of_neither(mixed: Path) -> None:
    run = mixed / "runs" / "v0s0"
    for number, code in ((1, "aaa"), (2, "bbb")):
        (run / "attempts" / str(number)).mkdir(exist_ok=True)
        records.publish(run / "attempts" / str(number) / "claim.json", records.to_json({"code": code}))
    assert load_run(run).code == "aaa+bbb"
    (sweep,) = load_sweeps(mixed)
    assert next(r.variant for r in sweep.runs if r.run_id == "v0s0") == "base [code aaa+bbb]"
