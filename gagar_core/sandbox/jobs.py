"""Calls that must be executed: planned from a batch, spread, and put back in order."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gagar_core.errors import InputError
from gagar_core.sandbox import wire
from gagar_core.sandbox.cache import SCALARS, AnswerCache, Key, key_of
from gagar_core.types import CallResult, Program

Request = tuple[Program, Sequence[Any]]
NOT_RUN = "not run: an earlier call ended the program"
_CLAIMS = frozenset(("ok", "error", "timeout", "memory", "output"))
"""What a child may say about its program; ``violation`` and ``infra`` are the broker's to give."""
_HINTS = ("unsupported type", "SystemExit", "SkipTest", "Skipped")


@dataclass(slots=True)
class Job:
    """Calls of one program that must be executed, and where their results belong."""

    program: Program
    mode: str
    places: list[tuple[int, int]] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    """One per call, in the form that the child's mode expects."""
    results: list[CallResult] = field(default_factory=list)

    def message(self) -> list[Any]:
        """The form in which a shared child takes it."""
        return [self.program.source, self.program.entry_point, self.inputs]

    def stop(self, verdict: CallResult) -> None:
        """The running call ends in ``verdict`` and so do those that can no longer be run."""
        self.results.append(verdict)
        rest = CallResult(verdict.status, None, NOT_RUN)
        self.results += [rest] * (len(self.inputs) - len(self.results))

    @property
    def done(self) -> bool:
        """Whether every call has its result."""
        return len(self.results) == len(self.inputs)

    @property
    def suspicious(self) -> bool:
        """Whether a result hints at tampering; a monitoring signal, never a reason for a reward."""
        return any(r.status == "violation" or r.message.startswith(_HINTS) for r in self.results)


@dataclass(slots=True)
class Plan:
    """A batch, what is known of it already, and the jobs that remain."""

    mode: str
    requests: Sequence[Request]
    keys: list[list[Key | None]]
    known: list[list[CallResult | None]]
    jobs: list[Job]

    @property
    def calls(self) -> int:
        """Calls asked for."""
        return sum(len(row) for row in self.keys)

    @property
    def executions(self) -> int:
        """Calls that must be executed."""
        return sum(len(job.inputs) for job in self.jobs)

    def settle(self, cache: AnswerCache) -> list[list[CallResult]]:
        """Results in the order of the requests, once every job is done; remembers the new ones."""
        for job in self.jobs:
            for (i, k), result in zip(job.places, job.results, strict=True):
                self.known[i][k] = result
                if result.status != "infra" and result.message != NOT_RUN:
                    cache.keep(_name(self.mode, job.program), self.keys[i][k], result)
        found: dict[tuple[Any, ...], CallResult] = {}
        return [[self._found(i, k, found) for k in range(len(row))] for i, row in enumerate(self.keys)]

    def _found(self, i: int, k: int, found: dict[tuple[Any, ...], CallResult]) -> CallResult:
        name = (*_name(self.mode, self.requests[i][0]), self.keys[i][k])
        result = self.known[i][k]
        if result is not None:
            return found.setdefault(name, result)
        first = found[name]
        return first if type(first.value) in SCALARS else replace(first, value=copy.deepcopy(first.value))


def plan(mode: str, requests: Sequence[Request], cache: AnswerCache) -> Plan:
    """Look up what is known; equal calls within the batch become one.

    Raises ``InputError`` for inputs that are not built from exact builtin types.
    """
    keys = [[key_of(given) for given in many] for _, many in requests]
    known = [cache.find(_name(mode, program), keys[i]) for i, (program, _) in enumerate(requests)]
    jobs: dict[tuple[Any, ...], Job] = {}
    planned: set[tuple[Any, ...]] = set()
    for i, (program, many) in enumerate(requests):
        name = _name(mode, program)
        for k, given in enumerate(many):
            key = keys[i][k]
            if known[i][k] is not None or (key is not None and (*name, key) in planned):
                continue
            planned.add((*name, key))
            job = jobs.setdefault((*name, program.closed_vocabulary), Job(program, mode))
            job.places.append((i, k))
            job.inputs.append(_encoded(mode, given))
    return Plan(mode, requests, keys, known, list(jobs.values()))


def _name(mode: str, program: Program) -> tuple[str, str, str]:
    return mode, program.source, program.entry_point


def _encoded(mode: str, given: Any) -> Any:
    try:
        if mode == "calls":
            return [wire.encode(value) for value in _row(given)]
        if mode == "operations":
            return [[str(n), [wire.encode(v) for v in _row(arguments)]] for n, arguments in _row(given)]
        return str(given)
    except (wire.UnsupportedTypeError, wire.TooDeepError) as fault:
        msg = f"arguments must be built from exact builtin types: {given!r:.200} ({fault})"
        raise InputError(msg) from None


def _row(given: Any) -> Any:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InputError(f"the arguments of a call are a tuple or a list, not {given!r:.200}")
    return given


def results_of(outcomes: Any, count: int) -> list[CallResult]:
    """Check what a child says; anything odd becomes ``violation``, never a pass."""
    if type(outcomes) is not list or len(outcomes) != count:
        return [CallResult("violation", None, "malformed answer")] * count
    return [result_of(outcome) for outcome in outcomes]


def result_of(outcome: Any) -> CallResult:
    """One outcome; a child cannot claim ``violation`` or ``infra``."""
    if type(outcome) is not list or len(outcome) != 3:
        return CallResult("violation", None, "malformed answer")
    status, value, message = outcome
    if type(status) is not str or status not in _CLAIMS or type(message) is not str:
        return CallResult("violation", None, "malformed answer")
    if status != "ok":
        return CallResult(status, None, message[:100])
    try:
        return CallResult("ok", wire.decode(value))
    except wire.WireError as fault:
        return CallResult("violation", None, f"malformed answer: {fault}")
