"""The sandbox as the rest of the library sees it: batches in, results out, whatever a program does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gagar_core.errors import InputError
from gagar_core.sandbox import wire
from gagar_core.sandbox.cache import AnswerCache, Key, key_of
from gagar_core.sandbox.process import DiedError, StalledError, WorkerProcess
from gagar_core.sandbox.settings import SandboxSettings
from gagar_core.types import CallResult, Program

Request = tuple[Program, Sequence[tuple[Any, ...]]]
_CLAIMS = frozenset(("ok", "error", "timeout", "memory", "output"))
"""What a worker may say about a program; ``violation`` and ``infra`` are the broker's to give."""
_PING = ["def f():\n    return 1\n", "f", [[]]]
_NOT_RUN = "not run: an earlier call ended the program"


@dataclass(slots=True)
class Counters:
    """What has happened since the sandbox was opened; the caller takes differences per step."""

    calls: int = 0
    cache_hits: int = 0
    timeouts: int = 0
    infra: int = 0


class ProgramSession:
    """One program, called as often as one likes (see ``gagar_core.protocols.Session``)."""

    def __init__(self, sandbox: ProcessSandbox, program: Program) -> None:
        self._sandbox = sandbox
        self.program = program
        self.closed = False

    def call(self, args: tuple[Any, ...]) -> CallResult:
        """Call the program's entry point once."""
        return self.calls([args])[0]

    def calls(self, many: Sequence[tuple[Any, ...]]) -> list[CallResult]:
        """Call it once per argument tuple, in order."""
        if self.closed:
            raise InputError("this session is closed; open the program again")
        return self._sandbox.calls_batch([(self.program, many)])[0]

    def close(self) -> None:
        """Forget the program."""
        self.closed = True


class ProcessSandbox:
    """Persistent worker processes behind the ``Sandbox`` seam. Level ``rlimits``: not isolated."""

    level = "rlimits"

    def __init__(self, settings: SandboxSettings) -> None:
        self.settings = settings
        self.counters = Counters()
        self._workers = [WorkerProcess(settings) for _ in range(settings.workers)]
        self._cache = AnswerCache(settings.cache_mb << 20)
        self._sessions: list[ProgramSession] = []
        for worker in self._workers:
            worker.start()
        print(f"sandbox level={self.level} (not isolated)", file=sys.stderr)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all worker processes so far."""
        return sum(worker.cpu_s for worker in self._workers)

    def open(self, program: Program) -> ProgramSession:
        """Load a program."""
        session = ProgramSession(self, program)
        self._sessions.append(session)
        return session

    def end_step(self) -> None:
        """Close every session opened since the last call."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()

    def close(self) -> None:
        """Stop all worker processes."""
        self.end_step()
        for worker in self._workers:
            worker.kill()

    def __enter__(self) -> ProcessSandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def calls_batch(self, requests: Sequence[Request]) -> list[list[CallResult]]:
        """For each (program, argument tuples) the results of its calls, in order.

        Equal calls within the batch are executed once. Raises ``InputError`` for arguments that are not built
        from exact builtin types.
        """
        keys = [[key_of(args) for args in many] for _, many in requests]
        known = [self._cache.find(program, keys[i]) for i, (program, _) in enumerate(requests)]
        jobs = _missing_jobs(requests, keys, known)
        self.counters.calls += sum(len(many) for _, many in requests)
        self.counters.cache_hits += sum(len(many) for _, many in requests) - sum(len(j.args) for j in jobs)
        for job in self._executed(jobs):
            for (i, k), result in zip(job.places, job.results, strict=True):
                known[i][k] = result
                if result.status != "infra" and result.message != _NOT_RUN:
                    self._cache.keep(job.program, keys[i][k], result)
        return _filled(known, requests, keys)

    def _executed(self, jobs: list[_Job]) -> list[_Job]:
        """Run the jobs, spread over the workers."""
        shares = [jobs[k :: len(self._workers)] for k in range(len(self._workers))]
        drivers = [_Driver(worker, share) for worker, share in zip(self._workers, shares, strict=True)]
        for driver in drivers:
            driver.send_all()
        for driver in drivers:
            driver.collect()
        for result in (result for job in jobs for result in job.results):
            self.counters.timeouts += result.status == "timeout"
            self.counters.infra += result.status == "infra"
        return jobs


@dataclass(slots=True)
class _Job:
    """Calls of one program that must be executed, and where their results belong."""

    program: Program
    places: list[tuple[int, int]]
    args: list[list[Any]]
    results: list[CallResult]

    def message(self) -> list[Any]:
        return [self.program.source, self.program.entry_point, self.args]


def _missing_jobs(
    requests: Sequence[Request], keys: list[list[Key | None]], known: list[list[CallResult | None]]
) -> list[_Job]:
    jobs: dict[tuple[str, str], _Job] = {}
    planned: set[tuple[str, str, Key]] = set()
    for i, (program, many) in enumerate(requests):
        name = (program.source, program.entry_point)
        for k, args in enumerate(many):
            key = keys[i][k]
            if known[i][k] is not None or (key is not None and (*name, key) in planned):
                continue
            if key is not None:
                planned.add((*name, key))
            job = jobs.setdefault(name, _Job(program, [], [], []))
            job.places.append((i, k))
            job.args.append(_encoded(args))
    return list(jobs.values())


def _encoded(args: tuple[Any, ...]) -> list[Any]:
    try:
        return [wire.encode(value) for value in args]
    except (wire.UnsupportedTypeError, wire.TooDeepError) as fault:
        raise InputError(
            f"arguments must be built from exact builtin types: {args!r:.200} ({fault})"
        ) from None


def _filled(
    known: list[list[CallResult | None]], requests: Sequence[Request], keys: list[list[Key | None]]
) -> list[list[CallResult]]:
    """Copy the result of a call to the places that repeat it."""
    found: dict[tuple[str, str, Key], CallResult] = {}
    complete: list[list[CallResult]] = []
    for i, (program, _) in enumerate(requests):
        row: list[CallResult] = []
        for key, result in zip(keys[i], known[i], strict=True):
            name = (program.source, program.entry_point, key or b"")
            if result is None:
                result = found[name]
            else:
                found[name] = result
            row.append(result)
        complete.append(row)
    return complete


class _Driver:
    """Takes one worker through its share of a batch; finds the program that stops it."""

    def __init__(self, worker: WorkerProcess, jobs: list[_Job]) -> None:
        self._worker = worker
        self._jobs = jobs
        self._failed = False

    def send_all(self) -> None:
        if self._jobs:
            self._failed = not self._sent([job.message() for job in self._jobs])

    def collect(self) -> None:
        position = 0
        while position < len(self._jobs):
            if self._failed:
                position = self._past_suspect(position)
                rest = self._jobs[position:]
                self._failed = bool(rest) and not self._sent([job.message() for job in rest])
                continue
            try:
                self._jobs[position].results = _results(
                    self._worker.receive(), len(self._jobs[position].args)
                )
                position += 1
            except (StalledError, DiedError):
                self._failed = True

    def _sent(self, messages: list[Any]) -> bool:
        try:
            self._worker.send(messages)
        except DiedError:
            return False
        return True

    def _past_suspect(self, position: int) -> int:
        """Run the unanswered programs call by call until one stops the worker again."""
        for job in self._jobs[position:]:
            position += 1
            if not self._alone(job):
                break
        return position

    def _alone(self, job: _Job) -> bool:
        """Second run of a suspect; what it shows now is its verdict. False if it stopped the worker again."""
        job.results = []
        try:
            for args in job.args:
                self._worker.send([[job.program.source, job.program.entry_point, [args]]])
                job.results += _results(self._worker.receive(), 1)
            return True
        except StalledError:
            stop = CallResult("timeout", None, "no answer within the time limit")
        except DiedError:
            works = self._worker_works()
            stop = (
                CallResult("error", None, "process ended")
                if works
                else CallResult("infra", None, "worker broken")
            )
        job.results.append(stop)
        rest = CallResult(stop.status, None, _NOT_RUN)
        job.results += [rest] * (len(job.args) - len(job.results))
        return False

    def _worker_works(self) -> bool:
        try:
            self._worker.send([_PING])
            return _results(self._worker.receive(), 1)[0] == CallResult("ok", 1)
        except (StalledError, DiedError):
            return False


def _results(outcomes: Any, count: int) -> list[CallResult]:
    """Check what a worker says; anything odd becomes ``violation``, never a pass."""
    if type(outcomes) is not list or len(outcomes) != count:
        return [CallResult("violation", None, "malformed answer")] * count
    return [_result(outcome) for outcome in outcomes]


def _result(outcome: Any) -> CallResult:
    if type(outcome) is not list or len(outcome) != 3:
        return CallResult("violation", None, "malformed answer")
    status, value, message = outcome
    if status not in _CLAIMS or type(message) is not str:
        return CallResult("violation", None, "malformed answer")
    if status != "ok":
        return CallResult(status, None, message[:100])
    try:
        return CallResult("ok", wire.decode(value))
    except wire.WireError as fault:
        return CallResult("violation", None, f"malformed answer: {fault}")
