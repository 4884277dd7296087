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


READS_AUDIT = {"tasks", "training/evaluate.py", "training/recording.py"}
"""Who may look at audit tests: those that make, check, measure and record them."""


def test_no_other_code_of_the_library_names_audit_tests() -> None:
    library = ROOT / "gagar_core"
    found = {
        str(path.relative_to(library))
        for path in library.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr == "audit")
        or (isinstance(node, ast.Constant) and node.value == "audit" and path.name != "types.py")
    }
    assert {name for name in found if name not in READS_AUDIT and not name.startswith("tasks/")} == set()
