"""Artifact ``grader_accuracy``: how well a grader orders held-out groups, by difficulty and by policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments import artifacts
from experiments.grader_artifact import load_snapshot, tasks_of
from experiments.identity import changed_fields
from experiments.schema import RunConfig, kind_of
from experiments.sft_artifact import WEIGHTS
from gagar_core.errors import ArtifactError
from gagar_core.grading.agreement import agreement
from gagar_core.grading.grade import grade_groups
from gagar_core.grading.labelled import LabelledGroup, read_lines
from gagar_core.grading.settings import GraderSettings
from gagar_core.policies.weights import load_weights
from gagar_core.protocols import Grader
from gagar_core.records import publish, read_json, to_json
from gagar_core.sandbox import ProcessSandbox, open_sandbox
from gagar_core.seeds import stream

ACCURACY = "accuracy.json"


def build(config: RunConfig, folder: Path, beat: Callable[[], None]) -> dict[str, Any]:
    """Judge the grader; the policy that ``self_likelihood`` asks is the SFT one."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    settings = config.grader
    groups = artifacts.ensure(artifacts.held_out_groups_of(config), beat)
    facts: dict[str, Any] = {}
    weights = None
    if settings.learned:
        snapshot = (
            Path(settings.snapshot)
            if settings.snapshot
            else artifacts.ensure(artifacts.grader_of(config), beat)
        )
        weights = load_snapshot(snapshot, settings)
        facts = read_json(snapshot / "done.json") if (snapshot / "done.json").exists() else {}
    data = read_lines(groups / "held_out.jsonl", tasks_of(config))
    with open_sandbox(config.sandbox) as sandbox:
        policy = config.policy.build(config.tasks, sandbox, config.seed)
        load_weights(policy.network, artifacts.ensure(artifacts.sft_of(config), beat) / WEIGHTS)
        found = judged(_built(settings, weights, policy), data, sandbox, settings, config.seed)
    content = {
        "kind": kind_of("grader", settings),
        "settings": changed_fields(settings),
        "seed": config.seed,
        "upper_bound": settings.upper_bound,
        "tasks": kind_of("tasks", config.tasks),
        "policy": kind_of("policy", config.policy),
        "parameters": facts.get("parameters", 0),
        "fit_cpu_s": facts.get("cpu_s", 0.0),
        "train_groups": facts.get("train_groups", 0),
        **found,
    }
    publish(folder / ACCURACY, to_json(content))
    return {"kind": content["kind"], "pair_accuracy": found["all"]["pair_accuracy"], "cpu_s": found["cpu_s"]}


def _built(settings: Any, weights: Any, policy: Any) -> Grader:
    try:
        grader: Grader = settings.build(weights, policy)
    except ValueError as err:
        msg = f"grader={kind_of('grader', settings)} cannot be built: {err}"
        raise ArtifactError(msg) from err
    return grader


def judged(
    grader: Grader,
    data: Sequence[LabelledGroup],
    sandbox: ProcessSandbox,
    settings: GraderSettings,
    seed: int,
) -> dict[str, Any]:
    """Agreement over all groups, by difficulty of the task and by who wrote them, and what grading cost."""
    started = time.process_time() + sandbox.cpu_s
    rankings = grade_groups(
        [one.group for one in data],
        grader,
        sandbox,
        settings=settings,
        step=settings.error_from,
        streams=lambda group: stream(seed, "grader", "accuracy", group),
    )
    cpu = time.process_time() + sandbox.cpu_s - started
    sandbox.end_step()
    pairs = list(zip(data, rankings, strict=True))

    def part(keep: Callable[[LabelledGroup], bool]) -> dict[str, Any]:
        chosen = [(one, ranking) for one, ranking in pairs if keep(one)]
        return asdict(agreement([one for one, _ in chosen], [ranking for _, ranking in chosen]))

    return {
        "all": part(lambda one: True),
        "by_difficulty": {
            name: part(lambda one, name=name: difficulty_class(one.group.task.difficulty) == name)  # type: ignore[misc]
            for name in ("easy", "middle", "hard")
        },
        "by_origin": {
            origin: part(lambda one, origin=origin: one.origin == origin)  # type: ignore[misc]
            for origin in sorted({one.origin for one in data})
        },
        "cpu_s": cpu,
        "cpu_s_per_group": cpu / max(len(data), 1),
        "actions_per_group": float(np.mean([r.actions for r in rankings])) if data else 0.0,
        "tokens_per_group": float(np.mean([r.tokens for r in rankings])) if data else 0.0,
    }


def difficulty_class(difficulty: float) -> str:
    """easy below 1/3, middle below 2/3, else hard: of the task's prior difficulty."""
    return "easy" if difficulty < 1 / 3 else "middle" if difficulty < 2 / 3 else "hard"
