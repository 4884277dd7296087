"""Things built once and used by many runs, stored under a digest of what they were built from.

    <root>/artifacts/<kind>/<digest>/spec.json + the builder's files + done.json

``done.json`` is written last: a folder without it is not an artifact. Building is guarded by a lease, so that
two processes that miss the same artifact build it once; the loser waits and reads the winner's.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.identity import changed_fields, delta, digest_of
from experiments.lease import LeaseHeldError, lease
from experiments.schema import CHOICES, CONFIG_EPOCH, RunConfig, kind_of, to_record
from gagar_core.choices import choice_class
from gagar_core.grading.settings import LearnedSettings
from gagar_core.records import publish, publish_once, to_json

BUILDERS = {
    "sft": "experiments.sft_artifact",
    "graded_groups": "experiments.graded_groups",
    "grader": "experiments.grader_artifact",
    "held_out_groups": "experiments.held_out_groups",
    "grader_accuracy": "experiments.grader_accuracy",
}
"""kind -> module with ``build(config, folder, beat)``; imported only when something is built."""

_MONITORING = (
    "gold_every",
    "gold_groups",
    "gold_drop",
    "recalibrate_every",
    "recalibrate_groups",
    "error_from",
)
"""Settings of a grader that do not change how it judges a group before any training."""
_POLL_S = 0.2
"""Between looks at what somebody else builds, seconds."""


@dataclass(frozen=True)
class ArtifactSpec:
    """What to build: the kind, the part of a configuration that matters, and the digest of both."""

    kind: str
    digest: str
    seed: int
    config: RunConfig

    def path(self) -> Path:
        """Folder of the artifact."""
        return Path(self.config.root) / "artifacts" / self.kind / self.digest

    def done(self) -> bool:
        """Whether it has been built completely."""
        return (self.path() / "done.json").exists()


def required(config: RunConfig) -> list[ArtifactSpec]:
    """The artifacts that a run needs, in the order in which they must be built."""
    specs = [sft_of(config)]
    if getattr(config.grader, "gold_every", 0):
        specs.append(graded_groups_of(config))
    if _trains(config):
        data = data_config(config)
        specs += [sft_of(data), graded_groups_of(data)]
        teacher = teacher_config(config)
        specs += [grader_of(teacher)] if teacher else []
        specs.append(grader_of(config))
    return list({spec.digest: spec for spec in specs}.values())


def sft_of(config: RunConfig) -> ArtifactSpec:
    """The policy after its warm start."""
    return _spec("sft", config, _sft_parts(config))


def graded_groups_of(config: RunConfig) -> ArtifactSpec:
    """Labelled groups of the run's own suite and policy."""
    parts = {**_groups_parts(config), "steps": data_steps(config)}
    return _spec("graded_groups", config, parts)


def held_out_groups_of(config: RunConfig) -> ArtifactSpec:
    """Labelled groups of held-out tasks, on which graders are judged; no run needs them."""
    return _spec("held_out_groups", config, _groups_parts(config))


def accuracy_of(config: RunConfig) -> ArtifactSpec:
    """How well the run's grader does on held-out tasks of the run's own suite and policy."""
    kind = kind_of("grader", config.grader)
    parts = {
        "grader": {
            "kind": kind,
            **{k: v for k, v in changed_fields(config.grader).items() if k not in _MONITORING},
        },
        "snapshot": grader_of(config).digest if _trains(config) else "",
        "groups": held_out_groups_of(config).digest,
    }
    return _spec("grader_accuracy", config, parts)


def grader_of(config: RunConfig) -> ArtifactSpec:
    """The snapshot of the run's grader, trained on what ``trained_on`` and ``trained_with`` say."""
    settings = config.grader
    parts = {
        "kind": kind_of("grader", settings),
        "settings": {k: v for k, v in changed_fields(settings).items() if k in settings.fitting},
        "groups": graded_groups_of(data_config(config)).digest,
    }
    teacher = teacher_config(config)
    if teacher:
        parts["teacher"] = grader_of(teacher).digest
    return _spec("grader", config, parts)


def _trains(config: RunConfig) -> bool:
    return bool(config.grader.learned and not config.grader.snapshot)


def data_config(config: RunConfig) -> RunConfig:
    """The run whose groups the grader learns from: itself, or one of another suite or policy."""
    other = {
        axis: choice_class(axis, name, CHOICES)()
        for axis, name in (("tasks", config.grader.trained_on), ("policy", config.grader.trained_with))
        if name
    }
    return replace(config, **other) if other else config


def teacher_config(config: RunConfig) -> RunConfig | None:
    """The run whose grader the run's grader learns from, trained on the same groups; None if on labels."""
    name = getattr(config.grader, "teacher", "")
    if not name:
        return None
    same = {key: getattr(config.grader, key) for key in ("trained_on", "trained_with", "data_steps")}
    return replace(config, grader=choice_class("grader", name, CHOICES)(**same))


def data_steps(config: RunConfig) -> int:
    """RL steps that labelled groups are taken from; rules need groups for the gold set alone."""
    steps: int = getattr(config.grader, "data_steps", LearnedSettings.data_steps)
    return steps


def _groups_parts(config: RunConfig) -> dict[str, Any]:
    budget = config.budget
    return {**_sft_parts(config), "groups": [budget.groups_per_step, budget.group_size]}


def _sft_parts(config: RunConfig) -> dict[str, Any]:
    return {
        "tasks": delta(config, ("tasks",)),
        "policy": delta(config, ("policy",)),
        "demos": [config.budget.sft_demos, config.budget.sft_epochs],
        "seed": config.seed,
        "epoch": CONFIG_EPOCH,
    }


def _spec(kind: str, config: RunConfig, parts: dict[str, Any]) -> ArtifactSpec:
    return ArtifactSpec(kind, digest_of([kind, parts]), config.seed, config)


def ensure(spec: ArtifactSpec, beat: Callable[[], None] = lambda: None) -> Path:
    """Return the artifact's folder, building it if nobody else does; ``beat`` is called while waiting."""
    held = spec.path().with_name(f"{spec.digest}.lease")
    while not spec.done():
        try:
            with lease(held):
                _build(spec, held)
        except LeaseHeldError:
            time.sleep(_POLL_S)
            beat()
    return spec.path()


def _build(spec: ArtifactSpec, held: Path) -> None:
    if spec.done():
        return
    folder = spec.path()
    folder.mkdir(parents=True, exist_ok=True)
    publish(
        folder / "spec.json",
        to_json({"kind": spec.kind, "seed": spec.seed, "config": to_record(spec.config)}),
    )
    builder = importlib.import_module(BUILDERS[spec.kind])
    summary = builder.build(spec.config, folder, beat=lambda: held.touch())
    publish_once(folder / "done.json", to_json(summary))
