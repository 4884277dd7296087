"""Filling in what a record leaves to its reference: expected values, and tests that a generator makes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from gagar_core.protocols import Sandbox
from gagar_core.seeds import derive
from gagar_core.tasks.checks import atol_for, shown
from gagar_core.tasks.format import TaskRecord
from gagar_core.types import TEST_KINDS, CallResult, Case, Program

Arguments = tuple[Any, ...]
OpenSandbox = Callable[[dict[str, float]], AbstractContextManager[Sandbox]]
"""From the limits of a task to a sandbox that has them."""


def by_limits(records: Iterable[TaskRecord]) -> list[list[TaskRecord]]:
    """The records by what their tests need of a sandbox, which is opened once for each of these lists."""
    found: dict[str, list[TaskRecord]] = {}
    for record in records:
        found.setdefault(repr(sorted(record.task.limits.items())), []).append(record)
    return list(found.values())


def completed_within_limits(
    records: Sequence[TaskRecord], open_sandbox: OpenSandbox
) -> tuple[list[TaskRecord], list[str]]:
    """``completed``, each record in a sandbox of its own limits; in the order of ``records``."""
    done: dict[int, TaskRecord] = {id(record): record for record in records}
    faults: list[str] = []
    for own in by_limits(record for record in records if not record.complete):
        with open_sandbox(own[0].task.limits) as sandbox:
            found, broken = completed(own, sandbox)
        done |= {id(record): filled for record, filled in zip(own, found, strict=True)}
        faults += broken
    return [done[id(record)] for record in records], faults


def completed(records: Sequence[TaskRecord], sandbox: Sandbox) -> tuple[list[TaskRecord], list[str]]:
    """The same records with every test written out, and one sentence per record where that failed.

    Generators and references run in the sandbox; a record whose reference gives no value stays as it is.
    """
    open_ones = [index for index, record in enumerate(records) if not record.complete]
    faults: list[str] = []
    wanted = _generated([records[i] for i in open_ones], sandbox, faults)
    requests = [
        (Program(records[i].reference, records[i].task.entry_point), [args for _, args in wanted[k]])
        for k, i in enumerate(open_ones)
    ]
    result = list(records)
    for k, found in enumerate(sandbox.calls_batch(requests)):
        result[open_ones[k]] = _filled(records[open_ones[k]], wanted[k], found, faults)
    return result, faults


def _generated(
    records: Sequence[TaskRecord], sandbox: Sandbox, faults: list[str]
) -> list[list[tuple[str, Arguments]]]:
    """Per record (kind, arguments) of every test that lacks its expected value."""
    seeds = [_seeds(record) for record in records]
    requests = [
        (Program(record.generator.source if record.generator else "", "generate"), [(s,) for _, s in own])
        for record, own in zip(records, seeds, strict=True)
    ]
    wanted = []
    for record, own, found in zip(records, seeds, sandbox.calls_batch(requests), strict=True):
        made = [(kind, args) for kind in TEST_KINDS for args in record.inputs.get(kind, ())]
        bad = [(seed, r) for (_, seed), r in zip(own, found, strict=True) if not _is_arguments(r)]
        if bad:
            faults.append(f"task {record.task.id!r}: generate({bad[0][0]}) gave {_said(bad[0][1])}")
        made += [(kind, tuple(r.value)) for (kind, _), r in zip(own, found, strict=True) if _is_arguments(r)]
        wanted.append(made)
    return wanted


def _is_arguments(result: CallResult) -> bool:
    return result.status == "ok" and isinstance(result.value, list | tuple)


def _seeds(record: TaskRecord) -> list[tuple[str, int]]:
    made = record.generator
    if made is None:
        return []
    return [
        (kind, derive(made.seed, "generate", record.task.id, kind, number))
        for kind in TEST_KINDS
        for number in range(made.counts.get(kind, 0))
    ]


def _filled(
    record: TaskRecord, wanted: list[tuple[str, Arguments]], found: list[CallResult], faults: list[str]
) -> TaskRecord:
    cases: dict[str, list[Case]] = defaultdict(list)
    for (kind, args), result in zip(wanted, found, strict=True):
        if result.status != "ok":
            faults.append(f"task {record.task.id!r}: its reference on ({shown(*args)}) gave {_said(result)}")
            return record
        cases[kind].append(Case(args, result.value, atol_for(result.value)))
    tests: dict[str, Any] = {kind: (*getattr(record.task, kind), *more) for kind, more in cases.items()}
    return replace(record, task=replace(record.task, **tests), generator=None, inputs={})


def _said(result: CallResult) -> str:
    return shown(result.value) if result.status == "ok" else f"{result.status}: {result.message}"
