"""Graders as artifacts: what must be built before what, teachers, and groups of another suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments import artifacts
from experiments.compose import compose
from experiments.grader_accuracy import ACCURACY
from experiments.schema import RunConfig, kind_of
from gagar_core.records import read_json


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
