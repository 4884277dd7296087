"""Logged trajectories of an agent of one's own: read with every fault named, graded, redistributed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gagar_core.advantages import AdvantageResult, compute_advantages
from gagar_core.agent.actions import syntax_nodes
from gagar_core.errors import InputError, gather
from gagar_core.grading.grade import grade_groups
from gagar_core.types import MAIN_FILE, Group, Segment, Task, Trajectory

_SHOWN = 20
"""Faults of a file that are written out."""

NEEDED = {"task": "name of the task", "passed": "true or false"}
"""Fields without which a line says nothing."""

OPTIONAL: dict[str, tuple[tuple[type, ...], str]] = {
    "group": ((str, int), "name of the group; default: the task, whose lines are then one group"),
    "valid": ((bool,), "false for a failure of the infrastructure: such a line counts nowhere"),
    "reward": ((int, float), "after any shaping of your own; default: 1 if passed, else 0"),
    "tokens": ((int,), "tokens that the agent wrote; needed by what reads lengths"),
    "program": ((str,), "the final program, of which graders read the size"),
    "segments": ((list,), 'turns: [{"role": "agent" or "env", "text": "..."}, ...]'),
    "test_runs": ((int,), "runs of the tests by the agent"),
    "redundant_test_runs": ((int,), "of these, after an OK with nothing changed since"),
    "edits": ((int,), "rewrites of what was written before"),
    "rank": ((int, float), "1 = best among the passing lines of the group, ties share"),
    "score": ((int, float), "higher = better"),
    "tier": ((int, float), "1 = best"),
}
"""Further fields: their types, and what they mean."""

_LARGEST = 2**53
"""Beyond it whole numbers are no longer exact."""

_COUNTS = ("tokens", "test_runs", "redundant_test_runs", "edits")


class NoExecution:
    """In place of a sandbox: adopted programs are read, never run."""

    def calls_batch(self, requests: Sequence[Any]) -> Any:
        """Refuse."""
        msg = "this grader runs programs, and adopt runs nothing; give ranks of your own"
        raise InputError(msg)

    judge_batch = open = calls_batch


@dataclass(frozen=True)
class Adopted:
    """The lines of a file with what was found for them; arrays and lists are parallel to ``lines``."""

    lines: list[dict[str, Any]]
    grades: dict[str, np.ndarray[Any, np.dtype[np.float64]]]
    """ranks, scores and tiers, NaN where there are none."""
    result: AdvantageResult
    abstained: dict[Any, str]
    """Group -> why its grader gave no ranking."""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON Lines file; raises ``InputError`` naming every faulty line and field."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        msg = f"cannot read {path}: {err}"
        raise InputError(msg) from err
    lines, faults = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            record, found = _read(line)
            faults += [f"line {number}: {fault}" for fault in found]
            lines.append(record)
    if not lines:
        faults.append("the file holds no line; `adopt --help` shows what one looks like")
    more = len(faults) - _SHOWN
    gather(faults[:_SHOWN] + ([f"and {more} more"] if more > 0 else []), headline=f"{path}", error=InputError)
    return lines


def _read(line: str) -> tuple[dict[str, Any], list[str]]:
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as err:
        return {}, [f"not valid JSON ({err})"]
    if not isinstance(record, dict):
        return {}, [f"an object is expected; got {type(record).__name__}"]
    return record, list(_faults(record))


def _faults(record: Mapping[str, Any]) -> Iterable[str]:
    known = (*NEEDED, *OPTIONAL)
    yield from (f"{name} is missing: {what}" for name, what in NEEDED.items() if name not in record)
    yield from (
        f"unknown field {name!r:.60}; known: {', '.join(known)}" for name in record if name not in known
    )
    if not isinstance(record.get("task", ""), str):
        yield f"task must be a text; got {record['task']!r:.60}"
    if not isinstance(record.get("passed", True), bool):
        yield f"passed must be true or false; got {record['passed']!r:.60}"
    for name in OPTIONAL:
        if record.get(name) is not None:
            yield from _value_faults(name, record[name])
    yield from (
        f"{name} holds a character that no file can: {record[name]!r:.60}"
        for name in ("task", "group")
        if isinstance(record.get(name), str) and not _encodable(record[name])
    )
    yield from _segment_faults(record.get("segments"))


def _value_faults(name: str, value: Any) -> Iterable[str]:
    types, what = OPTIONAL[name]
    fitting: bool = isinstance(value, types)
    if not fitting or (isinstance(value, bool) and bool not in types):
        yield f"{name} must be {' or '.join(t.__name__ for t in types)} ({what}); got {value!r:.60}"
    elif isinstance(value, int | float) and not abs(value) <= _LARGEST:  # NaN compares with nothing
        yield f"{name} must be finite and at most {_LARGEST}; got {value!r:.60}"
    elif name in _COUNTS and value < 0:
        yield f"{name} must be at least 0; got {value}"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _segment_faults(segments: Any) -> Iterable[str]:
    for at, segment in enumerate(segments if isinstance(segments, list) else []):
        good = isinstance(segment, dict) and segment.get("role") in ("agent", "env")
        if not good or not isinstance(segment.get("text"), str):
            yield f'segments[{at}] must be {{"role": "agent" or "env", "text": "..."}}; got {segment!r:.60}'


def adopt(lines: list[dict[str, Any]], config: Any) -> Adopted:
    """Grade, weight and redistribute; ``config`` has grader, estimator, weighting and redistribution.

    A group in which every passing line has a rank keeps those; the others are graded. Raises ``InputError``
    where a choice needs what the lines do not hold.
    """
    ids = [group_of(line) for line in lines]
    gather(_uneven(lines, ids), headline="groups that cannot be compared", error=InputError)
    grades, abstained = _grade(lines, ids, config.grader)
    passed = np.array([line["passed"] for line in lines])
    rewards = [line["reward"] if line.get("reward") is not None else float(line["passed"]) for line in lines]
    tokens = [line.get("tokens") for line in lines]
    result = compute_advantages(
        rewards,
        ids,
        estimator=config.estimator,
        redistribution=config.redistribution,
        weighting=config.weighting,
        passed=passed,
        valid=np.array([line.get("valid") is not False for line in lines]),
        lengths=None if None in tokens else np.array(tokens, dtype=np.float64),
        **{name: values for name, values in grades.items() if name == "ranks" or np.isfinite(values).any()},
    )
    return Adopted(lines, grades, result, abstained)


def _uneven(lines: Sequence[Mapping[str, Any]], ids: Sequence[Any]) -> list[str]:
    """Groups in which only some passing lines have a rank, or a program to compare."""
    faults = []
    for name in ("rank", "program"):
        held: dict[Any, list[bool]] = {}
        for line, group in zip(lines, ids, strict=True):
            if line["passed"] and line.get("valid") is not False:
                held.setdefault(group, []).append(line.get(name) is not None)
        faults += [
            f"group {group!r:.60}: {sum(found)} of {len(found)} passing lines have a {name}; give all or none"
            for group, found in held.items()
            if 0 < sum(found) < len(found)
        ]
    return faults[:_SHOWN]


def group_of(line: Mapping[str, Any]) -> Any:
    """The group that a line belongs to."""
    return line["task"] if line.get("group") is None else line["group"]


def _grade(lines: Sequence[Mapping[str, Any]], ids: Sequence[Any], grader: Any) -> tuple[Any, dict[Any, str]]:
    members: dict[Any, list[int]] = {}
    for row, group in enumerate(ids):
        members.setdefault(group, []).append(row)
    grades = {name: np.full(len(lines), np.nan) for name in ("ranks", "scores", "tiers")}
    abstained = {}
    for number, (group, rows) in enumerate(members.items()):
        if _own_grades(lines, rows, grades):
            continue
        made = Group(number, _task(lines[rows[0]]), tuple(_trajectory(lines[row]) for row in rows))
        [ranking] = grade_groups([made], grader, NoExecution())  # type: ignore[arg-type]
        if ranking.abstain:
            abstained[group] = ranking.abstain
        for name, values in grades.items():
            if getattr(ranking, name):
                values[rows] = getattr(ranking, name)
    return grades, abstained


def _own_grades(lines: Sequence[Mapping[str, Any]], rows: Sequence[int], grades: dict[str, Any]) -> bool:
    """Take over the grades of passing lines, if each of a group's has a rank; whether they were taken."""
    passing = [row for row in rows if lines[row]["passed"] and lines[row].get("valid") is not False]
    if not passing or any(lines[row].get("rank") is None for row in passing):
        return False
    for name, field in (("ranks", "rank"), ("scores", "score"), ("tiers", "tier")):
        for row in passing:
            value = lines[row].get(field)
            grades[name][row] = np.nan if value is None else float(value)
    return True


def _task(line: Mapping[str, Any]) -> Task:
    return Task(str(line["task"]), "code", "", (), "f", (), (), (), ())


def _trajectory(line: Mapping[str, Any]) -> Trajectory:
    segments = tuple(Segment(s["role"], s["text"], ()) for s in line.get("segments") or ())
    program = line.get("program") or ""
    valid = line.get("valid") is not False
    return Trajectory(
        task_id=str(line["task"]),
        segments=segments,
        files={MAIN_FILE: program},
        verdict=("pass" if line["passed"] else "wrong") if valid else "infra",
        stop_reason="submit",
        gen_tokens=line.get("tokens") or 0,
        obs_tokens=0,
        turns=sum(segment.role == "agent" for segment in segments),
        tool_calls=0,
        tool_errors=0,
        test_runs=line.get("test_runs") or 0,
        redundant_test_runs=line.get("redundant_test_runs") or 0,
        edits=line.get("edits") or 0,
        program_lines=len(program.splitlines()),
        program_nodes=syntax_nodes(program),
    )


def rows_of(adopted: Adopted) -> list[dict[str, Any]]:
    """One output record per line, in the order of the file."""
    result, grades = adopted.result, adopted.grades
    rows = []
    for at, line in enumerate(adopted.lines):  # of the lines that are not blank, in order
        code = int(result.codes[at])
        rows.append(
            {
                "row": at,
                "task": line["task"],
                "group": str(group_of(line)),
                "passed": line["passed"],
                "rank": _finite(grades["ranks"][at]),
                "weight": float(result.weights[at]),
                "adv_base": float(result.base[at]),
                "adv_used": float(result.advantages[at]),
                "lambda_": _finite(result.lambda_[code]),
                "capped": bool(result.capped[code]),
                "fallback": str(result.fallback[code]),
                "abstain": adopted.abstained.get(group_of(line), ""),
            }
        )
    return rows


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
