"""The run-folder contract: whole chunks, attempts, versions, and what counts as identical."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from gagar_core import records
from gagar_core.errors import RecordsError


def write_run(folder: Path, attempt: int = 1, steps: int = 25, chunk: int = 10, zero: float = 0.0) -> None:
    writer = records.RunWriter(folder, "r1", attempt, chunk_steps=chunk)
    for step in range(steps):
        loss = math.nan if step == 3 else zero
        writer.add("steps", step, [{"loss": loss, "groups_sampled": 12, "step_s": 0.1 * attempt}])
        writer.add(
            "segments", step, [{"group_id": step, "sample_idx": 0, "role": "agent", "text": f"λ{step}"}]
        )
        writer.end_step()
    writer.flush()


def test_rows_come_back(tmp_path: Path) -> None:
    write_run(tmp_path)
    frame = records.read(tmp_path, "steps")
    assert frame.height == 25
    assert frame["groups_sampled"].to_list() == [12] * 25
    assert frame["pass_rate"].null_count() == 25
    assert math.isnan(frame.filter(pl.col("step") == 3)["loss"].item())
    assert records.read(tmp_path, "grades").height == 0


def test_digest_ignores_chunks_attempts_times_and_signed_zero(tmp_path: Path) -> None:
    write_run(tmp_path / "a", chunk=10, zero=0.0)
    write_run(tmp_path / "b", attempt=7, chunk=4, zero=-0.0)
    assert records.digest(tmp_path / "a") == records.digest(tmp_path / "b")


def test_digest_sees_one_changed_value_text_or_null(tmp_path: Path) -> None:
    def run(name: str, row: dict[str, object]) -> str:
        writer = records.RunWriter(tmp_path / name, "r1", 1)
        writer.add("segments", 0, [{"group_id": 0, "role": "agent", "text": "x", "num_tokens": 0} | row])
        writer.flush()
        return records.digest(tmp_path / name)

    base, again = run("base", {}), run("again", {})
    others = [run("text", {"text": "y"}), run("null", {"num_tokens": None}), run("role", {"role": "env"})]
    assert base == again
    assert len({base, *others}) == 4


def test_a_later_attempt_replaces_steps_and_keeps_the_rest(tmp_path: Path) -> None:
    write_run(tmp_path, attempt=1, steps=25)
    writer = records.RunWriter(tmp_path, "r1", 2)
    writer.add("steps", 5, [{"groups_sampled": 99}])
    writer.flush()
    frame = records.read(tmp_path, "steps").sort("step")
    assert frame.height == 25
    assert frame["groups_sampled"].to_list() == [12] * 5 + [99] + [12] * 19


def test_unknown_column_is_refused(tmp_path: Path) -> None:
    writer = records.RunWriter(tmp_path, "r1", 1)
    with pytest.raises(RecordsError, match="steps has no column pass_rte"):
        writer.add("steps", 0, [{"pass_rte": 0.5}])


@pytest.mark.parametrize("damage", ["empty", "torn", "gone"])
def test_a_promised_chunk_that_is_damaged_is_named(tmp_path: Path, damage: str) -> None:
    write_run(tmp_path)
    chunk = tmp_path / "steps" / "000010-000019.a1.parquet"
    if damage == "gone":
        chunk.unlink()
    else:
        chunk.write_bytes(b"" if damage == "empty" else chunk.read_bytes()[:-40])
    with pytest.raises(RecordsError, match="steps lacks steps 10-19"):
        records.read(tmp_path, "steps")


def test_a_chunk_outside_the_manifest_does_not_count(tmp_path: Path) -> None:
    write_run(tmp_path, steps=10)
    extra = tmp_path / "steps" / "000010-000019.a1.parquet"
    extra.write_bytes((tmp_path / "steps" / "000000-000009.a1.parquet").read_bytes())
    (tmp_path / "steps" / ".x.tmp").write_bytes(b"half")
    assert records.read(tmp_path, "steps").height == 10


def test_kill_at_any_moment_leaves_a_readable_prefix(tmp_path: Path) -> None:
    script = f"""
import os, sys, threading
from pathlib import Path
from gagar_core import records
writer = records.RunWriter(Path({str(tmp_path)!r}), "r1", 1, chunk_steps=1)
for step in range(200):
    writer.add("steps", step, [{{"groups_sampled": step}}])
    writer.end_step()
    print(step, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    reported = [int(process.stdout.readline()) for _ in range(40)][-1]
    process.kill()
    process.wait()
    process.stdout.close()
    steps = records.read(tmp_path, "steps")["step"].sort().to_list()
    assert steps == list(range(len(steps)))
    assert len(steps) > reported


def test_another_version_is_refused(tmp_path: Path) -> None:
    records.publish(tmp_path / "config.json", records.to_json({"schema_version": 99, "run_id": "x"}))
    with pytest.raises(RecordsError, match="version 99; this code reads version 1"):
        records.RunFolder(tmp_path).config  # noqa: B018


def test_publish_once_has_one_winner(tmp_path: Path) -> None:
    assert records.publish_once(tmp_path / "result.json", b"1")
    assert not records.publish_once(tmp_path / "result.json", b"2")
    assert (tmp_path / "result.json").read_bytes() == b"1"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_damaged_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"run_id": ')
    with pytest.raises(RecordsError, match=r"config\.json is not valid JSON"):
        records.RunFolder(tmp_path).config  # noqa: B018


def test_find_runs_at_three_levels(tmp_path: Path) -> None:
    for name in ("b", "a"):
        folder = tmp_path / "main" / "runs" / name
        folder.mkdir(parents=True)
        records.publish(folder / "config.json", records.to_json({"schema_version": 1, "run_id": name}))
    for path in (tmp_path, tmp_path / "main"):
        assert [run.run_id for run in records.find_runs(path)] == ["a", "b"]
    assert [run.run_id for run in records.find_runs(tmp_path / "main" / "runs" / "a")] == ["a"]
    with pytest.raises(RecordsError, match="does not exist"):
        list(records.find_runs(tmp_path / "nothing"))
