"""The configuration of one run. Types and defaults live in the settings classes, nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from omegaconf import MISSING

from experiments.budgets import BUDGETS
from experiments.tracking_choices import TRACKING
from gagar_core.choices import CHOICES as LIBRARY_CHOICES
from gagar_core.choices import choice_class
from gagar_core.errors import ConfigError, check_choice, check_folder_name, check_range, gather
from gagar_core.sandbox.settings import SandboxSettings

CHOICES: dict[str, dict[str, type[Any]]] = {**LIBRARY_CHOICES, "budget": BUDGETS, "tracking": TRACKING}
"""All axes of a run: those of the library, and two of its own."""

CONFIG_EPOCH = 2
"""Raised when a default or a setting changes its meaning, so that old and new runs never share an id."""

BOOKKEEPING = ("root", "name", "tracking", "checkpoint_every")
"""Fields that do not change what a run finds out; they are not part of its identity."""


@dataclass(kw_only=True)
class RunConfig:
    """One choice per axis, and the seed block."""

    estimator: Any = MISSING
    """Base advantage from the rewards of a group."""
    redistribution: Any = MISSING
    """How quality weights move advantage among passing trajectories."""
    weighting: Any = MISSING
    """Quality weight from the rank among passing trajectories."""
    sampling: Any = MISSING
    """Which tasks are rolled out and which groups are trained on."""
    grader: Any = MISSING
    """Who ranks the passing trajectories of a group."""
    shaping: Any = MISSING
    """Changes of the reward before group statistics."""
    loss: Any = MISSING
    """How per-token terms become one number."""
    policy: Any = MISSING
    """The agent."""
    tasks: Any = MISSING
    """The task suite and the rules of its environment."""
    trainer: Any = MISSING
    """The optimiser and its schedule."""
    budget: Any = MISSING
    """How much of everything a run may use."""
    tracking: Any = MISSING
    """Where finished runs are mirrored."""
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    """Limits of the programs that are run."""
    seed: int = 0
    """Seed block: SFT weights, task draw, data order and evaluation; >= 0."""
    checkpoint_every: int = 10
    """Steps between checkpoints, >= 0; 0 = only when the run is asked to stop."""
    root: str = "runs"
    """Folder under which everything is written."""
    name: str = "single"
    """Sweep folder below ``root`` that the run belongs to."""

    def __post_init__(self) -> None:
        gather(
            [*check_range("seed", self.seed, 0), *check_range("checkpoint_every", self.checkpoint_every, 0)],
            headline="invalid run",
        )


SANDBOX_BOOKKEEPING = (
    "level", "allow_no_isolation", "allow_weak_training", "workers", "wall_s", "cache_mb", "live_sessions",
    "recycle", "log",
)  # fmt: skip
"""Sandbox settings that do not change what a program returns."""

SCALARS = ("seed", "checkpoint_every", "root", "name")
"""Fields of a run that are no choice."""

AXES = tuple(f.name for f in fields(RunConfig) if f.name in CHOICES)


def kind_of(axis: str, settings: Any) -> str:
    """Name under which the class of ``settings`` is registered on its axis."""
    for name, cls in CHOICES[axis].items():
        if type(settings) is cls:
            return name
    msg = f"{type(settings).__name__} is no {axis}; choose one of {', '.join(sorted(CHOICES[axis]))}"
    raise ConfigError(msg)


def check_together(config: RunConfig) -> None:
    """Refuse choices that cannot work with each other, before anything is written or run."""
    faults = []
    gives = {"lengths", *config.grader.gives}
    grader, weighting = kind_of("grader", config.grader), kind_of("weighting", config.weighting)
    if config.redistribution.acts:
        faults += [
            f"weighting={weighting} reads {name}, which grader={grader} does not give"
            for name in getattr(config.weighting, "reads", ("ranks",))
            if name not in gives
        ]
    faults += [
        f"shaping={kind_of('shaping', config.shaping)} reads {name}, which grader={grader} does not give"
        for name in getattr(config.shaping, "reads", ())
        if name not in gives
    ]
    faults += _score_faults(config)
    faults += _check_evaluation(config)
    faults += _check_groups(config)
    faults += _transfer_faults(config)
    faults += check_folder_name(config.name)
    gather(faults, headline="this run cannot work")


def _score_faults(config: RunConfig) -> list[str]:
    """A shaping that multiplies by scores needs ones in [0, 1] from the first step to the last."""
    grader = config.grader
    if not getattr(config.shaping, "unit_scores", False) or "scores" not in grader.gives:
        return []
    reads = f"shaping={kind_of('shaping', config.shaping)} reads scores in [0, 1]"
    if not grader.unit_scores:
        able = [name for name, cls in CHOICES["grader"].items() if getattr(cls, "unit_scores", False)]
        return [f"{reads}, which grader={kind_of('grader', grader)} does not give; {', '.join(able)} do"]
    moved = [name for name in ("swap_prob", "bias_to_long") if getattr(grader, name)]
    return [f"{reads}, and grader.{name} takes them out of it; set 0" for name in moved]


def _check_evaluation(config: RunConfig) -> list[str]:
    # a suite's sizes are its fields, so that no suite need be made to know them
    sizes = [f.name for f in fields(config.tasks) if f.name.startswith("held_out_")]
    held_out = sum(getattr(config.tasks, name) for name in sizes)
    if not sizes or config.budget.eval_tasks <= held_out:
        return []
    where = f"tasks={kind_of('tasks', config.tasks)} has {held_out} held-out tasks ({', '.join(sizes)})"
    return [f"budget.eval_tasks={config.budget.eval_tasks}, but {where}; 0 evaluates all"]


def _check_groups(config: RunConfig) -> list[str]:
    """What a sampling policy cannot do with groups of the budget's size, and batches smaller than a group."""
    groups, size = config.budget.groups_per_step, config.budget.group_size
    faults: list[str] = config.sampling.check(size)
    minibatches = getattr(config.trainer, "minibatches", 1)
    if minibatches > groups:
        faults.append(
            f"trainer.minibatches={minibatches} cuts the {groups} groups of a step into batches "
            f"smaller than a group; set it to 1..{groups} or raise budget.groups_per_step"
        )
    return faults


def _transfer_faults(config: RunConfig) -> list[str]:
    """The suite and the policy whose groups a grader learns from must exist."""
    faults = []
    for axis, name in (("tasks", "trained_on"), ("policy", "trained_with")):
        value = getattr(config.grader, name, "")
        if value:
            faults += check_choice(f"grader.{name}", value, CHOICES[axis])
    return faults


def to_record(config: RunConfig) -> dict[str, Any]:
    """The configuration as plain data: per axis its ``kind`` and every field, then the scalars."""
    record: dict[str, Any] = {}
    for axis in AXES:
        settings = getattr(config, axis)
        record[axis] = {"kind": kind_of(axis, settings)} | {
            f.name: getattr(settings, f.name) for f in fields(settings)
        }
    record["sandbox"] = {f.name: getattr(config.sandbox, f.name) for f in fields(config.sandbox)}
    return record | {name: getattr(config, name) for name in SCALARS}


def from_record(record: dict[str, Any]) -> RunConfig:
    """Rebuild a configuration from ``to_record``'s data, without Hydra."""
    parts: dict[str, Any] = {}
    for axis in AXES:
        settings = dict(record[axis])
        parts[axis] = choice_class(axis, settings.pop("kind"), CHOICES)(**settings)
    parts["sandbox"] = SandboxSettings(**record["sandbox"])
    return RunConfig(**parts, **{name: record[name] for name in SCALARS if name in record})


__all__ = [
    "AXES",
    "BOOKKEEPING",
    "CHOICES",
    "CONFIG_EPOCH",
    "RunConfig",
    "from_record",
    "kind_of",
    "to_record",
]
