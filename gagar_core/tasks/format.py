"""Tasks as JSON lines: one object per task.

    id          text, unique in the file
    kind        code (default): a program is written or repaired; answer: the file's text is the answer;
                repository: a change of a repository, which needs that repository's environment to be judged
    statement   what the agent is asked to do
    entry_point name of the function that tests call (code)
    spec        words that an embedded policy is conditioned on; others ignore them
    files       starter files, name -> text; the program of a code task is f.py
    tests       kind of test -> list of tests, for public (the agent may run them), reward (decide pass),
                label (train and judge graders) and audit (only measure). "reward": "public" = the same ones.
                A test is {"args": [...], "expected": value, "atol": 0}, or {"args": [...]} whose value the
                reference gives, or {"program": "assert f(1) == 2"}, which may define check(candidate)
    generator   {"source": text of a function generate(seed) that returns a list of arguments, "seed": 0,
                "public": 2, "reward": 0, "label": 12, "audit": 24}: so many more tests of each kind
    reference   source of a right program (code), the answer (answer) or a patch (repository)
    split       sft, train or held_out
    difficulty  prior difficulty in [0, 1]
    tags        words for reports
    limits      sandbox settings that the tests need: fuel >= 1000, cpu_s >= 0.05, memory_mb >= 64
    origin      where the task is from; not read

Values are JSON numbers, texts, booleans, null and lists. Other builtin types are objects with one key:
{"t": [...]} tuple, {"s": [...]} set, {"d": [[key, value], ...]} dict, {"i": "0xff"} a very long integer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gagar_core.errors import InputError, gather
from gagar_core.sandbox import wire
from gagar_core.tasks.fields import MAX_LINE, faults_of
from gagar_core.types import TEST_KINDS, Case, Task


@dataclass(frozen=True, slots=True)
class Generator:
    """A function ``generate(seed)`` in source form, and how many tests of each kind it makes."""

    source: str
    seed: int
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task with what agents must not see: its reference and how its tests come about."""

    task: Task
    reference: str = ""
    split: str = ""
    generator: Generator | None = None
    inputs: dict[str, tuple[tuple[Any, ...], ...]] = field(default_factory=dict)
    """Kind -> arguments of tests whose expected value the reference gives."""
    origin: dict[str, Any] = field(default_factory=dict)
    line: int = 0
    """Line of the file, 1-based; 0 = not from a file."""

    @property
    def complete(self) -> bool:
        """Whether every test has its expected value."""
        return self.generator is None and not any(self.inputs.values())


def read_tasks(path: Path) -> list[TaskRecord]:
    """Every record of a file. Raises ``InputError`` gathering the faults of all lines."""
    records, faults = [], []
    for number, text in _lines(path):
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as err:
            where = f"{err.msg} at column {err.colno}" if isinstance(err, json.JSONDecodeError) else err
            faults.append(f"line {number}: not JSON ({where})")
            continue
        found = faults_of(raw)
        if not found:
            try:
                records.append(record_of(raw, number))
            except (wire.WireError, InputError) as err:
                found = [f"task {raw['id']!r}: a value cannot be read: {err}"]
        faults += [f"line {number}: {fault}" for fault in found]
    if not records and not faults:
        faults = ["no task in it"]
    gather(faults, headline=f"{path} is not a file of tasks", error=InputError)
    return records


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig") as stream:
            number = 0
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    msg = f"{path} line {number} is longer than {MAX_LINE:,} characters"
                    raise InputError(msg)
                if line.strip():
                    yield number, line
    except (OSError, UnicodeDecodeError) as err:
        msg = f"{path} cannot be read: {err}"
        raise InputError(msg) from err


def record_of(raw: dict[str, Any], line: int = 0) -> TaskRecord:
    """The record of one checked JSON object."""
    tests = dict(raw.get("tests", {}))
    if tests.get("reward") == "public":
        tests["reward"] = tests.get("public", [])
    cases = {kind: _cases(tests.get(kind, [])) for kind in TEST_KINDS}
    programs = {k: tuple(t["program"] for t in tests.get(k, []) if "program" in t) for k in TEST_KINDS}
    task = Task(
        id=raw["id"],
        kind=raw.get("kind", "code"),
        statement=raw["statement"],
        spec=tuple(raw.get("spec", ())),
        entry_point=raw.get("entry_point", ""),
        **cases,
        difficulty=float(raw.get("difficulty", 0.0)),
        tags=tuple(raw.get("tags", ())),
        files=dict(raw.get("files", {})),
        test_programs={kind: found for kind, found in programs.items() if found},
        limits=dict(raw.get("limits", {})),
    )
    return TaskRecord(
        task=task,
        reference=str(raw.get("reference", "")),
        split=raw.get("split", ""),
        generator=_generator(raw.get("generator")),
        inputs={kind: found for kind in TEST_KINDS if (found := _inputs(tests.get(kind, [])))},
        origin=dict(raw.get("origin", {})),
        line=line,
    )


def _cases(tests: list[dict[str, Any]]) -> tuple[Case, ...]:
    return tuple(
        Case(_arguments(test), wire.decode(test["expected"]), float(test.get("atol", 0.0)))
        for test in tests
        if "expected" in test
    )


def _inputs(tests: list[dict[str, Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(_arguments(test) for test in tests if "args" in test and "expected" not in test)


def _arguments(test: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(wire.decode(argument) for argument in test["args"])


def _generator(raw: dict[str, Any] | None) -> Generator | None:
    if raw is None:
        return None
    return Generator(raw["source"], raw.get("seed", 0), {k: raw[k] for k in TEST_KINDS if raw.get(k)})


def to_json(record: TaskRecord) -> dict[str, Any]:
    """The object of a record, without fields that say nothing."""
    task = record.task
    tests: dict[str, Any] = {kind: _tests(record, kind) for kind in TEST_KINDS}
    if tests["reward"] and json.dumps(tests["reward"]) == json.dumps(tests["public"]):  # 1 is not 1.0
        tests["reward"] = "public"
    content = {
        "id": task.id, "kind": task.kind, "statement": task.statement, "entry_point": task.entry_point,
        "spec": list(task.spec), "files": task.files,
        "tests": {kind: found for kind, found in tests.items() if found},
        "reference": record.reference, "split": record.split, "difficulty": task.difficulty,
        "tags": list(task.tags), "limits": task.limits, "origin": record.origin,
    }  # fmt: skip
    if record.generator is not None:
        made = record.generator
        content["generator"] = {"source": made.source, "seed": made.seed, **made.counts}
    return {name: value for name, value in content.items() if value not in ("", [], {}, 0.0)}


def _tests(record: TaskRecord, kind: str) -> list[dict[str, Any]]:
    task = record.task
    cases = [
        {"args": [plain(a) for a in case.args], "expected": plain(case.expected)}
        | ({"atol": case.atol} if case.atol else {})
        for case in getattr(task, kind)
    ]
    inputs = [{"args": [plain(a) for a in args]} for args in record.inputs.get(kind, ())]
    return [*cases, *inputs, *({"program": text} for text in task.test_programs.get(kind, ()))]


def plain(value: Any) -> Any:
    """The JSON form of a value; that of a set is the same in every process."""
    return _ordered(wire.encode(value))


def _ordered(form: Any) -> Any:
    if isinstance(form, list):
        return [_ordered(item) for item in form]
    if not isinstance(form, dict):
        return form
    ((tag, body),) = form.items()
    body = _ordered(body)
    return {tag: sorted(body, key=json.dumps) if tag == "s" else body}


def to_lines(records: Iterable[TaskRecord]) -> str:
    """The text of a file of tasks."""
    return "".join(json.dumps(to_json(record), ensure_ascii=True) + "\n" for record in records)


def content_hash(tasks: Iterable[Task]) -> str:
    """Twelve hex digits over tasks in order: statement, files and every test; equal on every machine."""
    text = to_lines(TaskRecord(task) for task in tasks)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
