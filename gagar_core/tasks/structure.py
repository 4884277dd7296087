"""What can be said about tasks without running anything: duplicates, leaks, missing tests."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gagar_core.syntax import parse
from gagar_core.tasks.checks import num_tests
from gagar_core.tasks.findings import Finding, fault, note
from gagar_core.tasks.format import TaskRecord, plain
from gagar_core.types import TEST_KINDS, Task

LONG_STATEMENT = 20_000
"""Characters from which on a statement is pointed out: few policies can read it."""


def structure_findings(records: Sequence[TaskRecord]) -> Iterator[Finding]:
    """Duplicates and leaks over the whole file, then what each task lacks."""
    yield from _duplicates(records, "the same id", lambda r: r.task.id, always=True)
    yield from _duplicates(records, "the same statement", _statement_key)
    yield from _duplicates(records, "the same reference", _reference_key)
    if not any(record.split == "held_out" for record in records) and any(r.split for r in records):
        yield note(records[0], "no task of the file is held out: nothing can be evaluated")
    for record in records:
        yield from _missing(record)
        yield from _leaks(record)
        if record.task.kind == "repository":
            yield from _repository(record)


def _duplicates(
    records: Sequence[TaskRecord], what: str, key: Callable[[TaskRecord], str], always: bool = False
) -> Iterator[Finding]:
    """A duplicate across the border of the held-out tasks is a leak, and so a fault."""
    first: dict[str, TaskRecord] = {}
    for record in records:
        name = key(record)
        if not name:
            continue
        other = first.setdefault(name, record)
        if other is record:
            continue
        where = f"{what} as {other.task.id!r}" + (f" of line {other.line}" if other.line else "")
        if (other.split == "held_out") != (record.split == "held_out"):
            yield fault(record, f"{where}: a held-out task leaks into training")
        elif always:
            yield fault(record, where)
        else:
            yield note(record, where)


def _statement_key(record: TaskRecord) -> str:
    # signs stay: "a + b" and "a - b" are two tasks
    words = re.sub(r"[.,;:]+(?=\s|$)", "", record.task.statement).lower().split()
    return f"{' '.join(words)} {record.task.entry_point} {sorted(record.task.files.items())}"


def _reference_key(record: TaskRecord) -> str:
    if not record.reference or record.task.kind == "answer":
        return ""
    try:
        text = ast.dump(parse(_unnamed(record))) if record.task.kind == "code" else record.reference
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        text = record.reference
    return f"{text} {sorted(record.task.files.items())}"


def _unnamed(record: TaskRecord) -> str:
    """The reference with ``f`` for the name of the function that is asked for."""
    return re.sub(rf"\b{re.escape(record.task.entry_point)}\b", "f", record.reference)


def _missing(record: TaskRecord) -> Iterator[Finding]:
    task = record.task
    counts = {kind: num_tests(task, kind) for kind in TEST_KINDS}
    if task.kind != "repository" and not counts["reward"]:
        yield fault(record, "no reward tests: nothing decides whether an attempt passes")
    if task.kind == "code":
        if counts["reward"] == 1:
            yield note(record, "a single reward test: luck passes, only audit tests tell")
        if not counts["public"]:
            yield note(record, "no public tests: the agent has nothing to run")
        if not counts["audit"]:
            yield note(record, "no audit tests: whether passing means right cannot be measured")
        if not counts["label"]:
            yield note(record, "no label tests: no grader can be trained or judged on it")
        if not record.reference:
            yield note(record, "no reference: its tests are not run")
    if len(task.statement) > LONG_STATEMENT:
        yield note(record, f"the statement has {len(task.statement):,} characters")


def _leaks(record: TaskRecord) -> Iterator[Finding]:
    task = record.task
    if task.kind != "code":
        return
    seen, audit, label = (
        _tests(task, ("public", "reward")),
        _tests(task, ("audit",)),
        _tests(task, ("label",)),
    )
    if audit and audit <= seen:
        yield fault(record, "every audit test is a public or reward test as well: it measures nothing")
    elif audit & seen:
        yield note(
            record, f"{len(audit & seen)} of {len(audit)} audit tests are public or reward tests as well"
        )
    if audit and audit <= label:
        yield fault(
            record, "every audit test is a label test as well: graders would be trained on what measures them"
        )
    elif audit & label:
        yield note(record, f"{len(audit & label)} of {len(audit)} audit tests are label tests as well")
    if _in_statement(record):
        yield fault(record, "the statement contains the reference's body")


def _in_statement(record: TaskRecord) -> bool:
    """Whether the last lines of the reference stand in the statement as they are."""
    body = [line.strip() for line in record.reference.splitlines() if line.strip()]
    lines = {line.strip() for line in record.task.statement.splitlines()}
    return len(body) >= 3 and set(body[-3:]) <= lines


def _tests(task: Task, kinds: Iterable[str]) -> set[str]:
    cases = {json.dumps(plain((case.args, case.expected))) for kind in kinds for case in getattr(task, kind)}
    return cases | {text for kind in kinds for text in task.test_programs.get(kind, ())}


def _repository(record: TaskRecord) -> Iterator[Finding]:
    origin = record.origin
    failing, passing = set(origin.get("fail_to_pass", ())), set(origin.get("pass_to_pass", ()))
    if not failing:
        yield fault(record, "fail_to_pass is empty: no test tells whether the change is made")
    if failing & passing:
        yield fault(record, f"{len(failing & passing)} tests are in fail_to_pass and in pass_to_pass")
    changed = patched_files(record.reference)
    if not changed:
        yield fault(record, "the reference is no unified diff")
    both = changed & patched_files(str(origin.get("test_patch", "")))
    if both:
        yield fault(record, f"patch and test_patch both change {', '.join(sorted(both))}")
    if not origin.get("base_commit"):
        yield fault(record, "base_commit is missing: the repository's state is unknown")
    yield note(record, "not executed: a repository task needs its own environment")


def patched_files(patch: str) -> set[str]:
    """Names of the files that a unified diff changes, adds or deletes."""
    found = re.findall(r"^(?:---|\+\+\+) (?:[ab]/)?(\S+)", patch, re.MULTILINE)
    return set(found) - {"/dev/null"}
