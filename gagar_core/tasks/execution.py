"""Running the tests of tasks on what agents left behind: one place that knows the kinds of tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gagar_core.errors import InputError
from gagar_core.protocols import Sandbox
from gagar_core.tasks.checks import cases_of, num_tests
from gagar_core.types import MAIN_FILE, CallResult, Program, Task

Attempt = tuple[Mapping[str, str], Task]
"""Final files and the task they are meant for."""

_INTEGER = re.compile(r"[+-]?\d{1,4000}")


def program_of(files: Mapping[str, str], task: Task) -> Program:
    """The program to load. That it keeps to a closed vocabulary is a hint which the sandbox checks itself."""
    return Program(files.get(MAIN_FILE, ""), task.entry_point, closed_vocabulary=True)


def run_tests(sandbox: Sandbox, attempts: Sequence[Attempt], kind: str) -> list[list[CallResult]]:
    """Per attempt the results of its tests of a kind: cases, then test programs.

    Programs run in two batches at most. The answer of an ``answer`` task is read off its file, nothing is
    executed. Raises ``InputError`` for a task that only its repository can judge.
    """
    results: list[list[CallResult]] = [[] for _ in attempts]
    calls: list[tuple[int, tuple[Program, list[tuple[Any, ...]]]]] = []
    asserted: list[tuple[int, tuple[Program, tuple[str, ...]]]] = []
    for index, (files, task) in enumerate(attempts):
        if task.kind == "repository":
            msg = f"task {task.id}: a repository task is judged in its own environment, not here"
            raise InputError(msg)
        if task.kind == "answer":
            results[index] = [answer(files)] * num_tests(task, kind)
            continue
        program = program_of(files, task)
        if cases_of(task, kind):
            calls.append((index, (program, [case.args for case in cases_of(task, kind)])))
        if task.test_programs.get(kind):
            asserted.append((index, (program, task.test_programs[kind])))
    for (index, _), found in zip(calls, sandbox.calls_batch([c for _, c in calls]), strict=True):
        results[index] = list(found)
    if asserted:
        judged = sandbox.judge_batch([request for _, request in asserted])
        for (index, _), found in zip(asserted, judged, strict=True):
            results[index] += found
    return results


def answer(files: Mapping[str, str]) -> CallResult:
    """The answer that a file states: an integer where it is one, else its text without outer blanks."""
    text = files.get(MAIN_FILE, "").strip()
    return CallResult("ok", int(text) if _INTEGER.fullmatch(text) else text)
