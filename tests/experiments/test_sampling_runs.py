"""Sampling policies inside real runs: what is recorded, going on after a stop, audit tests kept apart."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.attempts import claim, create_run_folder
from experiments.compose import compose
from experiments.execute import execute
from experiments.schema import RunConfig
from gagar_core import records
from gagar_core.sampling.outcome import REASONS
from sweeps.tuning import OBJECTIVE
from tests.experiments.test_run import WORDS

ROOT = Path(__file__).parent.parent.parent


def config(root: Path, *words: str) -> RunConfig:
    return compose([*WORDS, f"root={root}", "algorithm=gagar", *words])


def finished(root: Path, *words: str) -> Path:
    folder = create_run_folder(config(root, *words))
    if not records.RunFolder(folder).finished:
        execute(folder, claim(folder).number)
    return folder


class Stopped(Exception):
    """What ends the first attempt."""


@pytest.mark.parametrize("name", ["refill", "curriculum"])
def test_stopped_and_gone_on_equals_uninterrupted(name: str, shared_root: Path) -> None:
    words = (f"sampling={name}", "checkpoint_every=1")
    whole = finished(shared_root, *words)
    folder = create_run_folder(config(shared_root, *words, "name=stopped"))

    def stop(line: dict[str, Any]) -> None:
        if line["step"] == 2:
            raise Stopped

    with pytest.raises(Stopped):
        execute(folder, claim(folder).number, stop)
    result = execute(folder, claim(folder).number)
    assert (folder / "checkpoints/000002.a1").exists()
    assert records.digest(folder) == records.digest(whole)
    assert result["sampling"] == records.RunFolder(whole).result["sampling"]


def test_what_was_sampled_kept_and_wasted_is_told(shared_root: Path) -> None:
    folder = finished(shared_root, "sampling=refill")
    steps = records.read(folder, "steps").sort("step")
    groups = records.read(folder, "groups")
    trajectories = records.read(folder, "trajectories")
    assert set(groups["drop_reason"]) <= set(REASONS)
    assert groups.filter(pl.col("kept") != (pl.col("drop_reason") == "")).is_empty()
    assert steps["sampling_rounds"].to_list() != [1, 1, 1]
    for row in steps.to_dicts():
        own = trajectories.filter(pl.col("step") == row["step"])
        kept = groups.filter((pl.col("step") == row["step"]) & pl.col("kept"))
        assert row["groups_kept"] == kept.height
        assert row["groups_short"] == 6 - kept.height
        assert row["traj_sampled"] == own.height
        assert row["traj_wasted"] == own.height - row["traj_used"] == own.filter(~pl.col("kept")).height
        assert row["wasted_tokens"] == own.filter(~pl.col("kept"))["gen_tokens"].cast(pl.Int64).sum()
    told = records.RunFolder(folder).result["sampling"]
    assert told == {name: int(steps[name].sum()) for name in told}
    assert groups["group_id"].n_unique() == groups.height


def test_audit_tests_reach_no_memory_of_a_sampler(shared_root: Path) -> None:
    """Other audit tests, same everything else: only audit columns may differ."""
    import gagar_core.tasks.list_functions as suite_module
    from gagar_core.types import Case

    original = suite_module.ListFunctions._task

    def with_other_audits(self, *args):  # type: ignore[no-untyped-def]
        from dataclasses import replace

        task = original(self, *args)
        return replace(task, audit=tuple(Case(case.args, 10**6) for case in task.audit[:5]))

    plain = finished(shared_root, "sampling=curriculum")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite_module.ListFunctions, "_task", with_other_audits)
        other = finished(shared_root, "sampling=curriculum", "name=other_audits_again")
    for table in records.schema.RUN_TABLES:
        names = records.schema.column_names(table, result_only=True)
        kept = [name for name in names if "audit" not in name and not name.startswith("sandbox_")]
        one, two = (records.read(path, table).select(kept) for path in (plain, other))
        assert one.equals(two, null_equal=True), table


KNOWS_AUDIT = {
    "gagar_core/training/evaluate.py": "runs the tests",
    "gagar_core/training/recording.py": "writes the result down",
    "gagar_core/records/measures.py": "names what reports show",
    "experiments/execute.py": "measures after the update, for the records",
    "experiments/run.py": "prints the result",
    "experiments/tracking.py": "mirrors the result",
    "sweeps/claims.py": "names what hypotheses may speak of",
    "experiments/recorded/group.py": "reads a recorded group, to be shown",
    "experiments/recorded/find.py": "chooses which recorded group to show",
    "experiments/recorded/story.py": "says what a recorded group shows",
    "experiments/recorded/terminal.py": "shows it in the terminal",
    "experiments/recorded/page.py": "shows it as a page",
}
"""Who may know of audit tests or their results, beside ``gagar_core.tasks``, which makes and checks them."""


def test_no_other_code_knows_of_audit_tests() -> None:
    """No training, grading, sampling or tuning code reads them, or loops over the kinds of tests."""
    paths = [path for room in ("gagar_core", "experiments", "sweeps") for path in (ROOT / room).rglob("*.py")]
    told = [path for path in paths if any(word in path.read_text() for word in ("audit", "TEST_KINDS"))]
    code = {str(path.relative_to(ROOT)): _words_of(path) for path in told}
    found = {name for name, words in code.items() if any("audit" in word for word in words)}
    assert {name for name in found if not name.startswith("gagar_core/tasks/")} - {"gagar_core/types.py"} == {
        *KNOWS_AUDIT
    } | {"gagar_core/records/schema.py"}
    loops = {name for name, words in code.items() if "TEST_KINDS" in words}
    assert {name for name in loops if not name.startswith("gagar_core/tasks/")} == {"gagar_core/types.py"}


def _words_of(path: Path) -> set[str]:
    """Names and texts of the code of a file; what only explains (a text that stands alone) is left out."""
    tree = ast.parse(path.read_text())
    explained = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    words = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in explained:
            words.add(node.value)
        for field in ("id", "attr", "name", "arg"):
            word = getattr(node, field, None)
            words |= {word} if isinstance(word, str) else set()
    return words


def test_tuning_chooses_by_what_may_be_seen() -> None:
    assert OBJECTIVE == "held_out_pass"
