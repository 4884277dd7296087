"""What running tells about tasks: the reference passes, and other programs do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gagar_core.protocols import Sandbox
from gagar_core.tasks.checks import cases_of, num_tests, num_tests_passed, passes, shown, verdict_of
from gagar_core.tasks.completion import OpenSandbox, by_limits
from gagar_core.tasks.execution import Attempt, run_tests
from gagar_core.tasks.findings import Finding, fault, note
from gagar_core.tasks.format import TaskRecord
from gagar_core.tasks.mutants import mutants, stubs
from gagar_core.types import MAIN_FILE, TEST_KINDS, CallResult, Task

NUM_MUTANTS = 12
"""Changed references tried per task."""


def trial_findings(records: Sequence[TaskRecord], open_sandbox: OpenSandbox) -> Iterator[Finding]:
    """Run references, stubs and changed references against every test; one sandbox per set of limits."""
    tried = [r for r in records if r.task.kind == "code" or (r.reference and r.task.kind == "answer")]
    for own in by_limits(tried):
        with open_sandbox(own[0].task.limits) as sandbox:
            for first in range(0, len(own), 50):  # batches: memory stays flat on long files
                yield from _batch(own[first : first + 50], sandbox)


def _batch(records: Sequence[TaskRecord], sandbox: Sandbox) -> Iterator[Finding]:
    known = [record for record in records if record.reference]
    bad = set()
    for record, found in zip(known, references_fail(known, sandbox), strict=True):
        yield from found
        if found:
            bad.add(id(record))
    code = [record for record in records if record.task.kind == "code" and id(record) not in bad]
    yield from _stub_findings(code, sandbox)
    yield from _mutant_findings([record for record in code if record.reference], sandbox)


def references_fail(records: Sequence[TaskRecord], sandbox: Sandbox) -> list[list[Finding]]:
    """Per record the faults of its reference, one per kind of test that it does not pass."""
    findings: list[list[Finding]] = [[] for _ in records]
    attempts = [_attempt(record.reference, record.task) for record in records]
    for kind in TEST_KINDS:
        for i, results in enumerate(run_tests(sandbox, attempts, kind)):
            decided = verdict_of(records[i].task, kind, results)
            if decided != "pass":
                told = _first_failure(records[i].task, kind, results)
                findings[i].append(fault(records[i], f"the reference does not pass its {kind} tests: {told}"))
    return findings


def _first_failure(task: Task, kind: str, results: Sequence[CallResult]) -> str:
    cases = cases_of(task, kind)
    for case, result in zip(cases, results, strict=False):
        if not passes(case, result):
            got = shown(result.value) if result.status == "ok" else f"{result.status} {result.message}"
            return f"({shown(*case.args)}) gave {got:.80}, expected {shown(case.expected)}"
    bad = next(k for k, result in enumerate(results[len(cases) :]) if result.status != "ok")
    result = results[len(cases) + bad]
    return f"test program {bad + 1} gave {result.status} {result.message}"


def _stub_findings(records: Sequence[TaskRecord], sandbox: Sandbox) -> Iterator[Finding]:
    tried = [
        (record, name, text)
        for record in records
        if num_tests(record.task, "reward")
        for name, text in stubs(record.task.entry_point, record.task.reward).items()
    ]
    attempts = [_attempt(text, record.task) for record, _, text in tried]
    reward, audit = _reward_and_audit(sandbox, attempts)
    for (record, name, _), passed, honest in zip(tried, reward, audit, strict=True):
        # without audit tests a constant that passes may be all that a single test can tell
        measured = num_tests(record.task, "audit") or name in ("raises an error", "returns nothing")
        if passed and honest and measured:
            yield fault(record, f"tests do not discriminate: a program that {name} passes")
        elif passed:
            yield note(record, f"reward tests can be hacked: a program that {name} passes them")


def _mutant_findings(records: Sequence[TaskRecord], sandbox: Sandbox) -> Iterator[Finding]:
    changed = [(record, mutants(record.reference, NUM_MUTANTS)) for record in records]
    attempts = [_attempt(text, record.task) for record, texts in changed for text in texts]
    reward, audit = _reward_and_audit(sandbox, attempts)
    at = 0
    for record, texts in changed:
        own = range(at, at := at + len(texts))
        survivors = sum(reward[i] for i in own)
        caught = sum(reward[i] and not audit[i] for i in own)
        if len(texts) >= 5 and survivors == len(texts):
            yield fault(record, f"reward tests pass all {len(texts)} changed references: they test nothing")
        elif caught:
            yield note(record, "audit tests reject changed references that reward tests pass")


def _reward_and_audit(sandbox: Sandbox, attempts: Sequence[Attempt]) -> tuple[list[bool], list[bool]]:
    """Whether each attempt passes all reward tests, and whether it passes all audit tests as well."""
    reward = _all_pass(sandbox, attempts, "reward")
    passing = [i for i, passed in enumerate(reward) if passed]
    honest = dict(zip(passing, _all_pass(sandbox, [attempts[i] for i in passing], "audit"), strict=True))
    return reward, [honest.get(i, False) for i in range(len(attempts))]


def _all_pass(sandbox: Sandbox, attempts: Sequence[Attempt], kind: str) -> list[bool]:
    """Whether each attempt passes all tests of a kind; True where there is none."""
    results = run_tests(sandbox, attempts, kind)
    return [
        num_tests_passed(task, kind, found) == num_tests(task, kind)
        for (_, task), found in zip(attempts, results, strict=True)
    ]


def _attempt(source: str, task: Task) -> Attempt:
    return {**task.files, MAIN_FILE: source}, task
