"""Artifact ``grader``: the snapshot of a trained grader.

weights.npz  snapshot.json (format, kind, settings, tokens)
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments import artifacts
from experiments.identity import digest_of
from experiments.schema import RunConfig, kind_of
from gagar_core.errors import ArtifactError, RecordsError
from gagar_core.grading.encoding import codec
from gagar_core.grading.labelled import LabelledGroup, read_lines
from gagar_core.grading.ranking import words_of
from gagar_core.grading.settings import LearnedSettings
from gagar_core.grading.teaching import taught_by
from gagar_core.protocols import Sandbox
from gagar_core.records import publish, read_json, to_json
from gagar_core.sandbox import open_sandbox
from gagar_core.seeds import stream
from gagar_core.training.checkpoint import arrays_bytes
from gagar_core.types import Task

FORMAT = 1
"""Version of the snapshot folder."""
SNAPSHOT, PARAMETERS = "snapshot.json", "weights.npz"


def build(config: RunConfig, folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
    """Train the grader of a seed block, write its snapshot."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    settings = config.grader
    data_folder = artifacts.ensure(artifacts.graded_groups_of(artifacts.data_config(config)), beat)
    tasks = tasks_of(artifacts.data_config(config))
    with open_sandbox(config.sandbox) as sandbox:
        started = time.process_time()
        data = _taught(config, read_lines(data_folder / "train.jsonl", tasks), sandbox)
        weights = settings.fit(
            data, sandbox, stream(config.seed, "grader fit", digest_of(_fitting(settings)))
        )
        cpu = time.process_time() - started + sandbox.cpu_s
    publish(folder / PARAMETERS, arrays_bytes(weights))
    publish(folder / SNAPSHOT, to_json(snapshot_facts(settings)))
    return {
        "grader": kind_of("grader", settings),
        "parameters": int(sum(value.size for value in weights.values())),
        "train_groups": len(data) if not settings.train_groups else min(len(data), settings.train_groups),
        "cpu_s": cpu,
    }


def _taught(config: RunConfig, data: list[LabelledGroup], sandbox: Sandbox) -> list[LabelledGroup]:
    """The groups as the grader is to learn them: with their labels, or with its teacher's rankings."""
    teacher = artifacts.teacher_config(config)
    if teacher is None:
        return data
    weights = load_snapshot(artifacts.ensure(artifacts.grader_of(teacher)), teacher.grader)
    grader = teacher.grader.build(weights)
    return taught_by(grader, data, sandbox, lambda group: stream(config.seed, "teacher", group))


def snapshot_facts(settings: LearnedSettings) -> dict[str, Any]:
    """What a snapshot must agree on with the code and the settings that read it."""
    return {
        "format": FORMAT,
        "kind": kind_of("grader", settings),
        "tokens": digest_of(list(codec().vocabulary)),
        "settings": _fitting(settings),
    }


def load_snapshot(folder: Path, settings: LearnedSettings) -> dict[str, NDArray[Any]]:
    """Parameters of a snapshot; raises ``ArtifactError`` if it is of another version, kind or shape."""
    try:
        facts = read_json(folder / SNAPSHOT)
    except (RecordsError, OSError) as err:
        raise ArtifactError(f"no grader snapshot: {err}") from err
    if not isinstance(facts, dict):
        msg = f"the snapshot's {SNAPSHOT} holds {type(facts).__name__}, not named facts: {folder}"
        raise ArtifactError(msg)
    expected = snapshot_facts(settings)
    for name in ("format", "kind", "tokens"):
        if facts.get(name) != expected[name]:
            msg = f"the snapshot's {name} is {facts.get(name)!r}, not {expected[name]!r}: {folder}"
            raise ArtifactError(msg)
    try:
        with np.load(io.BytesIO((folder / PARAMETERS).read_bytes()), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as err:  # of a damaged file, zipfile and NumPy raise errors of many kinds
        msg = f"the snapshot's parameters cannot be read ({words_of(err)}): {folder}"
        raise ArtifactError(msg) from err


def tasks_of(config: RunConfig) -> Mapping[str, Task]:
    """All tasks of the suite by id."""
    suite = config.tasks.load()
    return {task.id: task for task in (*suite.train, *suite.held_out)}


def _fitting(settings: LearnedSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.fitting}
