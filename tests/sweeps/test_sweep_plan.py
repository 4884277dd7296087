"""Plans: what is in them, what is refused, and that they never change."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from plans import LISTED, write_plan

from gagar_core.errors import ConfigError, RecordsError
from sweeps.ledger import Ledger, locate
from sweeps.plan import build_plan
from sweeps.spec import SPECS, from_words, load_spec, read_spec, with_words


def test_runs_and_artifacts_of_a_plan(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    assert [line["index"] for line in ledger.lines] == list(range(6))
    assert [line["kind"] for line in ledger.lines] == ["artifact"] * 2 + ["run"] * 4
    assert [(line["variant"], line["seed"]) for line in ledger.runs] == [
        ("grpo", 0),
        ("rloo", 0),
        ("grpo", 1),
        ("rloo", 1),
    ]
    by_seed = {line["seed"]: line["digest"] for line in ledger.artifacts}
    assert all(line["needs"] == [by_seed[line["seed"]]] for line in ledger.runs)
    assert ledger.head["baseline"] == "grpo"
    assert ledger.head["seeds"] == [0, 1]
    assert ledger.runs[3]["overrides"] == ["budget=smoke", "tracking=none", "algorithm=rloo", "seed=1"]


def test_the_main_comparison_has_the_planned_arms() -> None:
    plan = build_plan(load_spec(SPECS / "main.yaml"))
    runs = [line for line in plan.lines if line["kind"] == "run"]
    labels = list(dict.fromkeys(line["variant"] for line in runs))
    assert labels == ["grpo", "rloo", "dr_grpo", "gagar", "grpo sampling=keep_all"]
    assert {line["config"]["sampling"]["kind"] for line in runs if line["variant"] in labels[:4]} == {
        "mixed_only"
    }
    assert {line["config"]["loss"]["kind"] for line in runs} == {"token_mean"}
    assert plan.head["baseline"] == "dr_grpo"
    assert plan.head["hypotheses"][0]["against"] == "dr_grpo"
    assert plan.head["hypotheses"][3]["variant"] == "grpo"
    assert plan.head["hypotheses"][3]["against"] == "grpo sampling=keep_all"


def test_two_processes_make_the_same_plan(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sweeps", "plan", "main", f"root={tmp_path}"]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second
    assert "15 runs, 3 artifacts" in first
    assert list(tmp_path.iterdir()) == []  # plan writes nothing


def test_bookkeeping_and_spelling_do_not_change_identities(tmp_path: Path) -> None:
    words = ["algorithm=gagar", "trainer.lr=0.001", "seed=1"]
    plain = build_plan(from_words(words)).lines[-1]["run_id"]
    other = ["seed=1", "trainer.lr=1e-3", "algorithm=gagar", f"root={tmp_path}", "name=n", "tracking=none"]
    assert build_plan(from_words(other)).lines[-1]["run_id"] == plain
    assert build_plan(from_words([*words, "weighting.floor=0.5000001"])).lines[-1]["run_id"] != plain


def test_every_variant_that_does_not_compose_is_named() -> None:
    factors = {"grid": {"estimator": ["grpoo", "rloo", "x"]}}
    with pytest.raises(ConfigError) as caught:
        build_plan(read_spec("x", {**LISTED, "factors": factors}))
    assert "grpoo" in str(caught.value)
    assert "estimator=x" in str(caught.value)


def test_two_variants_of_one_identity_are_refused() -> None:
    factors = {"list": ["algorithm=grpo", "algorithm=grpo weighting=uniform", "algorithm=rloo"]}
    with pytest.raises(
        ConfigError, match=r"weighting=uniform' and 'algorithm=grpo' are the same run \(grpo\)"
    ):
        build_plan(read_spec("x", {**LISTED, "factors": factors}))


def test_baseline_and_hypotheses_must_be_in_the_plan() -> None:
    hypotheses = [{"metric": "held_out_pass", "variant": "gagar", "kind": "superior"}]
    spec = read_spec("x", {**LISTED, "baseline": "dr_grpo", "hypotheses": hypotheses})
    with pytest.raises(ConfigError) as caught:
        build_plan(spec)
    assert "baseline 'dr_grpo' is not in the plan; variants: grpo, rloo" in str(caught.value)
    assert "hypothesis 1: variant 'gagar' is not in the plan" in str(caught.value)


def test_words_of_a_variant_name_it_whatever_the_base_adds() -> None:
    spec = with_words(read_spec("x", LISTED), ["budget.steps=2"])
    assert build_plan(spec).head["baseline"].startswith("grpo budget.steps=2")


def test_a_plan_is_written_once(tmp_path: Path) -> None:
    before = write_plan(tmp_path)
    content = (before.path / "plan.jsonl").read_bytes(), (before.path / "sweep.json").read_bytes()
    assert write_plan(tmp_path).head["plan_digest"] == before.head["plan_digest"]
    with pytest.raises(ConfigError, match="already holds another plan"):
        write_plan(tmp_path, seeds=3)
    assert content == ((before.path / "plan.jsonl").read_bytes(), (before.path / "sweep.json").read_bytes())


def test_without_a_name_the_sweep_is_called_by_its_digest(tmp_path: Path) -> None:
    plan = build_plan(from_words(["algorithm=grpo,rloo", f"root={tmp_path}"]))
    assert plan.folder == tmp_path / plan.head["plan_digest"]


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "x" * 81, "a b", "λ", "a=b", "a\nb", "a,b"])
def test_names_that_are_no_folder_are_refused(name: str, tmp_path: Path) -> None:
    spec = replace(read_spec("x", LISTED), name=name, root=str(tmp_path / "runs"))
    plan = build_plan(spec)
    if not name:
        assert plan.folder.name == plan.head["plan_digest"]
        return
    with pytest.raises(ConfigError, match="name must be"):
        plan.write()
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordsError, match="give another root="):
        write_plan(tmp_path / "file")


def test_damaged_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    with pytest.raises(RecordsError, match=r"no sweep .other. in .*; there are: tiny"):
        locate("other", str(tmp_path))
    (ledger.path / "plan.jsonl").write_text('{"kind": ')
    with pytest.raises(RecordsError, match="was damaged"):
        _ = Ledger(ledger.path).lines
    head = json.loads((ledger.path / "sweep.json").read_text())
    (ledger.path / "sweep.json").write_text(json.dumps({**head, "schema_version": 99}))
    with pytest.raises(RecordsError, match="has version 99"):
        _ = Ledger(ledger.path).head


def test_sweep_folders_are_private(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    submission = ledger.open_submission({"launcher": {}})
    assert [path.stat().st_mode & 0o777 for path in (ledger.path, submission.path)] == [0o700, 0o700]
