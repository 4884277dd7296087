"""The grader of a run: its snapshot, its gold set, and what it is fitted on again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from experiments import artifacts
from experiments.schema import RunConfig
from gagar_core.errors import ArtifactError
from gagar_core.grading.labelled import LabelledGroup, read_lines
from gagar_core.grading.live import LiveGrader
from gagar_core.policies.embedded import EmbeddedPolicy
from gagar_core.seeds import stream, torch_stream
from gagar_core.tasks.suite import Suite
from gagar_core.types import GRADED_KINDS, Group


def live_grader(config: RunConfig, policy: EmbeddedPolicy, suite: Suite) -> LiveGrader:
    """Load what the grader needs; a snapshot that cannot be used leaves one that abstains and says why."""
    settings = config.grader
    weights, reason = _weights(config)
    tasks = {task.id: task for task in (*suite.train, *suite.held_out)}
    flags: list[str] = []
    gold: Sequence[LabelledGroup] = ()
    training: Sequence[LabelledGroup] = ()
    if getattr(settings, "gold_every", 0):
        gold = read_lines(artifacts.graded_groups_of(config).path() / "gold.jsonl", tasks)
        if not gold:
            flags.append("is not watched: no gold task has a group with two passing trajectories")
    if getattr(settings, "recalibrate_every", 0) and not settings.snapshot:
        data = artifacts.data_config(config)
        known = tasks if data is config else _tasks_of(data)
        training = read_lines(artifacts.graded_groups_of(data).path() / "train.jsonl", known)
    return LiveGrader(
        settings,
        config.seed,
        weights,
        policy,
        gold=gold,
        training=training,
        fresh=_fresh(config, policy, suite),
        reason=reason,
        flags=flags,
    )


def _weights(config: RunConfig) -> tuple[dict[str, NDArray[Any]] | None, str]:
    settings = config.grader
    if not settings.learned:
        return None, ""
    from experiments.grader_artifact import load_snapshot

    folder = Path(settings.snapshot) if settings.snapshot else artifacts.grader_of(config).path()
    try:
        return load_snapshot(folder, settings), ""
    except ArtifactError as err:
        print(f"the grader abstains on every group: {err}", file=sys.stderr)
        return None, str(err)


def _fresh(config: RunConfig, policy: EmbeddedPolicy, suite: Suite) -> Any:
    """Groups of the current policy on training tasks, sampled for a refit alone."""
    size = config.budget.group_size

    def sample(step: int, count: int) -> list[Group]:
        tasks = [task for task in suite.train if task.kind in GRADED_KINDS]
        chosen = stream(config.seed, "fresh tasks", step).permutation(len(tasks))[:count]
        repeated = [tasks[int(i)] for i in chosen for _ in range(size)]
        found = policy.rollouts(repeated, torch_stream(config.seed, "fresh groups", step))
        return [
            Group(n, tasks[int(i)], tuple(found[n * size : (n + 1) * size])) for n, i in enumerate(chosen)
        ]

    return sample


def _tasks_of(config: RunConfig) -> Any:
    from experiments.grader_artifact import tasks_of

    return tasks_of(config)
