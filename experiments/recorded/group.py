"""One recorded group from the tables of a run: candidates best first, with what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.schema import CHOICES
from gagar_core.agent.transcript import matches, replayed
from gagar_core.choices import choice_class
from gagar_core.errors import GagarError, RecordsError
from gagar_core.records import RunFolder, scan
from gagar_core.types import MAIN_FILE, Task

Row = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """A segment of a trajectory: ``agent`` or ``env``."""

    role: str
    text: str


@dataclass(frozen=True)
class Candidate:
    """One trajectory of the group: its row of the table, what was said, and the file it ended with."""

    row: Row
    turns: tuple[Turn, ...]
    program: str | None
    """None where the turns do not lead to a file of the recorded size."""
    twin: int | None
    """An earlier shown candidate that ended with the same text."""
    evidence: str = ""

    @property
    def index(self) -> int:
        """Position in the group."""
        return int(self.row["sample_idx"])

    @property
    def passed(self) -> bool:
        """Whether it passes the reward tests and counts."""
        return bool(self.row["passed"] and self.row["valid"])

    @property
    def lucky(self) -> bool:
        """Whether it passes although audit tests show that it is wrong."""
        return self.passed and self.row["audit_passed"] is False

    @property
    def base(self) -> float | None:
        """Advantage of the estimator alone; None where the group was dropped."""
        return self.row["adv_base"]  # type: ignore[no-any-return]

    @property
    def used(self) -> float | None:
        """Advantage in the loss."""
        return self.row["adv_used"]  # type: ignore[no-any-return]

    @property
    def weight(self) -> float | None:
        """Quality weight."""
        return self.row["weight"]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RecordedGroup:
    """A group of a run; ``candidates`` are the passing ones by rank, then the others."""

    config: Row
    row: Row
    candidates: tuple[Candidate, ...]
    task: Task | None
    no_task: str = ""
    """Why the task's statement is not there."""

    @cached_property
    def passing(self) -> list[Candidate]:
        """Candidates that pass, best first."""
        return [candidate for candidate in self.candidates if candidate.passed]

    @cached_property
    def others(self) -> list[Candidate]:
        """Candidates that fail or do not count."""
        return [candidate for candidate in self.candidates if not candidate.passed]

    @property
    def acted(self) -> bool:
        """Whether the group's advantages were redistributed by a factor."""
        return self.row["lambda_"] is not None

    def kind(self, axis: str) -> str:
        """Name of the choice on an axis."""
        return str(self.settings(axis).get("kind", "?"))

    def settings(self, axis: str) -> Row:
        """Kind and fields of the choice on an axis; empty where the run does not record it."""
        return dict(self.config.get("config", {}).get(axis, {}))


def load_group(run: RunFolder, step: int, group_id: int) -> RecordedGroup:
    """Read one group; only the chunks of its step are touched."""
    [row] = _rows(run.path, "groups", step, group_id)
    task, no_task = task_of(run.config, str(row["task_id"]))
    starter = "" if task is None else task.files.get(MAIN_FILE, "")
    trajectories = _rows(run.path, "trajectories", step, group_id)
    if not trajectories:
        msg = f"{run.path}: table trajectories has no rows of group {group_id} in step {step}: it was cut off"
        raise RecordsError(msg)
    turns = _turns(_rows(run.path, "segments", step, group_id))
    evidence = _evidence(_rows(run.path, "grades", step, group_id))
    candidates: list[Candidate] = []
    for trajectory in sorted(trajectories, key=_order):
        own = turns.get(trajectory["sample_idx"], ())
        program = _program(trajectory, own, starter)
        twin = next((c.index for c in candidates if program and c.program == program), None)
        said = evidence.get(trajectory["sample_idx"], "")
        candidates.append(Candidate(trajectory, own, program, twin, said))
    return RecordedGroup(run.config, row, tuple(candidates), task, no_task)


def _rows(folder: Path, table: str, step: int, group_id: int) -> list[Row]:
    import polars as pl

    return scan(folder, table, step).filter(pl.col("group_id") == group_id).collect().to_dicts()


def _order(row: Row) -> tuple[bool, float, float, int]:
    """Passing rows by rank (by weight where there is none), then the others as they were sampled."""
    rank = row["rank"] if row["rank"] is not None else float("inf")
    return (not (row["passed"] and row["valid"]), rank, -(row["weight"] or 0.0), row["sample_idx"])


def _turns(segments: Sequence[Row]) -> dict[int, tuple[Turn, ...]]:
    found: dict[int, list[Row]] = {}
    for segment in segments:
        found.setdefault(segment["sample_idx"], []).append(segment)
    return {
        index: tuple(Turn(s["role"], s["text"] or "") for s in sorted(own, key=lambda s: s["segment_idx"]))
        for index, own in found.items()
    }


def _program(row: Row, turns: Sequence[Turn], starter: str) -> str | None:
    workspace = replayed([turn.text for turn in turns if turn.role == "agent"], starter)
    sizes = (row["program_lines"], row["program_nodes"])
    if None in sizes or not matches(workspace, *sizes):
        return None
    return workspace.source


def _evidence(grades: Sequence[Row]) -> dict[int, str]:
    return {row["sample_idx"]: row["evidence"] or "" for row in grades if not row["is_gold"]}


def task_of(config: Row, task_id: str) -> tuple[Task | None, str]:
    """The task by its id from the run's suite, or None and why it cannot be had."""
    settings = dict(config.get("config", {}).get("tasks", {}))
    try:
        suite = choice_class("tasks", settings.pop("kind", ""), CHOICES)(**settings).load()
    except (GagarError, TypeError, OSError) as err:
        return None, f"the suite of the run cannot be loaded here: {err}"
    found = next((task for task in (*suite.train, *suite.held_out) if task.id == task_id), None)
    return found, "" if found else f"the suite {suite.name} of this checkout has no task of this id"
