"""Graders as artifacts: what must be built before what, teachers, and groups of another suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import artifacts
from experiments.compose import compose
from experiments.grader_accuracy import ACCURACY
from experiments.grader_artifact import PARAMETERS, SNAPSHOT, load_snapshot, snapshot_facts
from experiments.schema import RunConfig, kind_of
from gagar_core.errors import ArtifactError
from gagar_core.records import publish, read_json, to_json
from gagar_core.training.checkpoint import arrays_bytes


def config_of(root: Path, *words: str) -> RunConfig:
    return compose(["budget=smoke", "tracking=none", f"root={root}", "grader.data_steps=0", *words])


def test_a_teacher_is_built_before_its_student(tmp_path: Path) -> None:
    config = config_of(tmp_path, "grader=distilled_xs", "grader.teacher=agentic_s")
    specs = artifacts.required(config)
    assert [spec.kind for spec in specs] == ["sft", "graded_groups", "grader", "grader"]
    assert [kind_of("grader", spec.config.grader) for spec in specs[2:]] == ["agentic_s", "distilled_xs"]
    taught, plain = specs[3], artifacts.grader_of(config_of(tmp_path, "grader=distilled_xs"))
    other = artifacts.grader_of(config_of(tmp_path, "grader=distilled_xs", "grader.teacher=agentic_l"))
    assert len({taught.digest, plain.digest, other.digest}) == 3


def test_a_teacher_learns_where_its_student_does(tmp_path: Path) -> None:
    words = ("grader=distilled_xs", "grader.teacher=agentic_s", "grader.trained_on=weak_tests")
    config = config_of(tmp_path, *words)
    teacher = artifacts.teacher_config(config)
    assert teacher is not None
    assert teacher.grader.trained_on == "weak_tests"
    groups = {artifacts.graded_groups_of(artifacts.data_config(one)).digest for one in (config, teacher)}
    assert len(groups) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (SNAPSHOT, b"[]", "holds list"),
        (SNAPSHOT, b"7", "holds int"),
        (SNAPSHOT, b"{", "not valid JSON"),
        (SNAPSHOT, b"{}", "format is None"),
        (PARAMETERS, b"", "EOFError"),
        (PARAMETERS, b"PK\x05\x06", "cannot be read"),
    ],
)
def test_a_damaged_snapshot_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    config = whole_snapshot(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=said):
        load_snapshot(tmp_path, config.grader)


def test_a_snapshot_packed_in_an_unknown_way_is_named(tmp_path: Path) -> None:
    config = whole_snapshot(tmp_path)
    packed = bytearray((tmp_path / PARAMETERS).read_bytes())
    entry = packed.index(b"PK\x01\x02")  # the archive's list of contents: the method is its bytes 10 and 11
    packed[entry + 10] = 99
    (tmp_path / PARAMETERS).write_bytes(packed)
    with pytest.raises(ArtifactError, match="NotImplementedError"):
        load_snapshot(tmp_path, config.grader)


def whole_snapshot(folder: Path) -> RunConfig:
    """The configuration that a snapshot in ``folder`` is of."""
    config = config_of(folder, "grader=distilled_xs")
    publish(folder / PARAMETERS, arrays_bytes({"a": np.zeros(2)}))
    publish(folder / SNAPSHOT, to_json(snapshot_facts(config.grader)))
    assert load_snapshot(folder, config.grader)["a"].tolist() == [0.0, 0.0]
    return config


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["grader=distilled_xs", "grader.teacher=agentic_s"],
        ["grader=distilled_xs", "grader.trained_on=list_functions"],
        ["grader=tiered"],
    ],
)
def test_graders_are_built_and_judged(shared_root: Path, words: list[str]) -> None:
    config: Any = config_of(shared_root, "tasks=weak_tests", *words)
    for spec in artifacts.required(config):
        artifacts.ensure(spec)
    found = read_json(artifacts.ensure(artifacts.accuracy_of(config)) / ACCURACY)
    assert found["parameters"] > 1000
    assert found["all"]["abstained"] == 0
    assert found["all"]["groups"] > 10
