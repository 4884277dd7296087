"""Which run and which group is meant, and which one to look at where nothing is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gagar_core.errors import GagarError, RecordsError
from gagar_core.records import RunFolder, find_runs, scan

if TYPE_CHECKING:
    import polars as pl

_LISTED = 12
"""Names in a message before it ends with …"""

COLUMNS = (
    "step", "group_id", "task_id", "n", "n_pass", "kept", "drop_reason", "lambda_", "capped", "fallback",
    "abstain",
)  # fmt: skip
"""What is read of the groups of a run to find one."""


@dataclass(frozen=True)
class Found:
    """A run, and how it was chosen ("" where it was named)."""

    run: RunFolder
    why: str = ""


@dataclass(frozen=True)
class Chosen:
    """A group, and how it was chosen ("" where it was named)."""

    step: int
    group_id: int
    why: str = ""


def find_run(word: str, root: str = "runs") -> Found:
    """The run that ``word`` names: a folder, an id under ``root``, the beginning of one, or LABEL:SEED.

    A folder with several runs gives the first in which advantage moved, else the first that redistributes.
    Raises ``RecordsError`` listing the runs there are.
    """
    path = Path(word)
    if path.is_dir():
        return _of_folder(path)
    known = list(find_runs(Path(root))) if Path(root).is_dir() else []
    named = [run for run in known if run.path.name.startswith(word)] or [r for r in known if label(r) == word]
    if len(named) == 1:
        return Found(named[0])
    if named:
        msg = f"{word!r} names {len(named)} runs; give more of the id, or a folder:\n{_runs(named)}"
        raise RecordsError(msg)
    there = f"there are:\n{_runs(known)}" if known else "there are none; root=PATH says where to look"
    msg = f"no run {word!r} under {root}; {there}"
    raise RecordsError(msg)


def label(run: RunFolder) -> str:
    """``VARIANT:SEED`` of a run, "" where its configuration cannot be read."""
    try:
        return f"{run.config['variant']}:{run.config['seed']}"
    except (RecordsError, KeyError):
        return ""


def _of_folder(path: Path) -> Found:
    runs = list(find_runs(path))
    if not runs:
        msg = f"{path} holds no run; give a run folder (it has a config.json), or a folder of runs"
        raise RecordsError(msg)
    if len(runs) == 1:
        return Found(runs[0])
    tests = (
        (_redistributed, "the first in which advantage moved"),
        (
            _redistributes,
            "the first that redistributes; no group of theirs had passes to tell apart",
        ),
    )
    found = ((run, why) for test, why in tests for run in runs if test(run))
    chosen, because = next(found, (runs[0], "the first; none of them redistributes"))
    return Found(chosen, f"{path} holds {len(runs)} runs: this is {chosen.path.name}, {because}")


def _redistributed(run: RunFolder) -> bool:
    try:
        return bool(scan(run.path, "groups").select("lambda_").drop_nulls().head(1).collect().height)
    except GagarError:
        return False  # a damaged neighbour must not keep the others from being shown


def _redistributes(run: RunFolder) -> bool:
    try:
        return bool(run.config["config"]["redistribution"]["kind"] != "none")
    except (RecordsError, KeyError, TypeError):
        return False


def _runs(runs: Sequence[RunFolder]) -> str:
    lines = [f"  {run.path.name}  {label(run) or 'unreadable'}  {run.path}" for run in runs[:_LISTED]]
    more = len(runs) - _LISTED
    return "\n".join([*lines, *([f"  … and {more} more"] if more > 0 else [])])


def groups_of(folder: Path, step: int | None = None) -> pl.DataFrame:
    """The ``COLUMNS`` of a run's groups, or of one step's, in order. Raises naming the steps there are."""
    frame = scan(folder, "groups", step).select(COLUMNS).collect().sort("step", "group_id")
    if frame.height:
        return frame
    steps = sorted(set(scan(folder, "groups").select("step").collect()["step"].to_list()))
    if not steps:
        msg = f"{folder} has no recorded groups: the run ended before its first step was written"
    else:
        msg = f"{folder} has no step {step}; it has {_ranges(steps)}"
    raise RecordsError(msg)


def _ranges(numbers: Sequence[int]) -> str:
    """``0-59`` or ``0-9, 20-29``."""
    parts: list[list[int]] = []
    for value in numbers:
        if parts and value == parts[-1][1] + 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ", ".join(f"{a}-{b}" if a != b else f"{a}" for a, b in parts)


def choose(folder: Path, step: int | None, group_id: int | None) -> Chosen:
    """The group that is meant; where it is not named, the most instructive one of the step or the run."""
    groups = groups_of(folder, step)
    if group_id is None:
        return _instructive(folder, groups, step)
    rows = [row for row in groups.iter_rows(named=True) if row["group_id"] == group_id]
    if rows:
        return Chosen(rows[0]["step"], group_id)
    ids = _ranges(sorted(set(groups["group_id"].to_list())))
    where = "the run" if step is None else f"step {step}"
    msg = f"{where} has no group {group_id}; its groups are {ids} (--list describes them)"
    raise RecordsError(msg)


def _instructive(folder: Path, groups: pl.DataFrame, step: int | None) -> Chosen:
    """Most different weights first; then one with a pass that audit tests refute; then the earliest."""
    rows = _passing_rows(folder, step)
    best = max(
        groups.iter_rows(named=True),
        key=lambda g: (*_lesson(g, rows.get((g["step"], g["group_id"]), [])), -g["step"], -g["group_id"]),
    )
    own = rows.get((best["step"], best["group_id"]), [])
    return Chosen(best["step"], best["group_id"], _why(best, own, "run" if step is None else "step"))


def _passing_rows(folder: Path, step: int | None) -> dict[tuple[int, int], list[tuple[float, bool]]]:
    """(step, group) -> weight and whether audit tests pass, of each passing row."""
    import polars as pl

    frame = scan(folder, "trajectories", step).filter(pl.col("passed") & pl.col("valid"))
    found: dict[tuple[int, int], list[tuple[float, bool]]] = {}
    columns = frame.select("step", "group_id", "weight", "audit_passed").collect()
    for at, group, weight, audit in columns.iter_rows():
        found.setdefault((at, group), []).append((weight, audit is not False))
    return found


def _lesson(group: dict[str, Any], rows: Sequence[tuple[float, bool]]) -> tuple[bool, int, bool, bool, int]:
    """How much a group teaches: redistributed, weights that differ, luck beside skill, failures."""
    levels = len({weight for weight, _ in rows})
    mixed_luck = len({audit for _, audit in rows}) == 2
    enough = len(rows) >= 3 and len(rows) < group["n"]
    return (group["lambda_"] is not None, min(levels, 3) if enough else 0, mixed_luck, enough, bool(rows))


def _why(group: dict[str, Any], rows: Sequence[tuple[float, bool]], scope: str) -> str:
    levels = len({weight for weight, _ in rows})
    if group["lambda_"] is None:
        return f"chosen from the {scope}; no group of it was redistributed"
    luck = ", one of them by luck" if sum(not audit for _, audit in rows) == 1 else ""
    luck = luck or (", some of them by luck" if not all(audit for _, audit in rows) else "")
    return f"chosen from the {scope}: {len(rows)} of {group['n']} pass{luck}, with {levels} different weights"
