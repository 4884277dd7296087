"""The sandbox as the rest of the library sees it: batches in, results out, whatever a program does."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gagar_core.errors import InputError, SandboxError
from gagar_core.sandbox import jobs, journal, levels
from gagar_core.sandbox.cache import AnswerCache
from gagar_core.sandbox.isolated import Isolated
from gagar_core.sandbox.jobs import Job, Request
from gagar_core.sandbox.lanes import Lane
from gagar_core.sandbox.scheduling import Task, run_together
from gagar_core.sandbox.settings import TRAINING_LEVELS, SandboxSettings
from gagar_core.sandbox.vocabulary import is_closed, syntax_fault
from gagar_core.sandbox.zygotes import ZygoteLostError
from gagar_core.types import CallResult, Program


@dataclass(slots=True)
class Counters:
    """What has happened since the sandbox was opened; the caller takes differences per step."""

    calls: int = 0
    cache_hits: int = 0
    timeouts: int = 0
    infra: int = 0
    programs: int = 0
    """Programs executed (at least one call not answered from the cache)."""
    tampering: int = 0
    """Executed programs with a sign of tampering: foreign return types, SystemExit, early answers."""

    @property
    def tamper_hints(self) -> float:
        """Signs of tampering per 1,000 executed programs."""
        return 1000 * self.tampering / self.programs if self.programs else 0.0


class ProgramSession:
    """One program, kept warm until the step ends (see ``gagar_core.protocols.Session``).

    Between calls its process is stopped; one that has threads or children left after an answer is ended, and
    the next call gets a fresh one.
    """

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
        return self._sandbox.warm_calls(self.program, many)

    def close(self) -> None:
        """Forget the program."""
        self.closed = True


class ProcessSandbox:
    """Zygotes, their children and a cache behind the ``Sandbox`` seam; for one thread at a time."""

    def __init__(self, settings: SandboxSettings, chosen: levels.Choice, *, announce: bool = True) -> None:
        self.settings = settings
        self.level = chosen.level
        self.report = chosen.report
        self.counters = Counters()
        self._lanes = [Lane(settings, chosen.level) for _ in range(settings.workers)]
        self._cache = AnswerCache(settings.cache_mb << 20)
        self._proofs: dict[str, bool] = {}
        self._sessions: list[ProgramSession] = []
        self._warm: OrderedDict[tuple[str, str], Isolated] = OrderedDict()
        self._journal = journal.Journal(settings, self.report) if settings.log else None
        self._turn = 0
        if announce:
            print(self.report.line(), file=sys.stderr)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all zygotes and children so far."""
        return sum(lane.zygote.cpu_s for lane in self._lanes)

    def check_for_training(self) -> None:
        """Raise ``SandboxError`` unless a reward from this level can be trusted."""
        weak = self.level == "landlock-weak" and self.settings.allow_weak_training
        if self.level in TRAINING_LEVELS or weak:
            return
        reasons = (
            "; ".join(f"{level}: {reason}" for level, reason in self.report.refused.items()) or "by choice"
        )
        ways = "set sandbox.level=auto; `python -m gagar_core.sandbox check` shows what the machine lacks"
        if self.level == "landlock-weak":
            ways += ", or set sandbox.allow_weak_training=true"
        raise SandboxError(f"sandbox level {self.level} is not good enough to train with ({reasons}); {ways}")

    def open(self, program: Program) -> ProgramSession:
        """Load a program."""
        session = ProgramSession(self, program)
        self._sessions.append(session)
        return session

    def end_step(self) -> None:
        """Close every session opened since the last call; shared children are replaced."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        self._drive([self._end_children()])

    def _end_children(self) -> Task[None]:
        while self._warm:
            yield from _quietly(self._warm.popitem()[1].close())
        for lane in self._lanes:
            yield from _quietly(lane.end_shared())

    def close(self) -> None:
        """Stop all processes."""
        for session in self._sessions:
            session.close()
        self._warm.clear()
        for lane in self._lanes:
            lane.stop()
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> ProcessSandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def calls_batch(self, requests: Sequence[Request]) -> list[list[CallResult]]:
        """For each (program, argument tuples) the results of its calls, in order.

        Equal calls are executed once. Raises ``InputError`` for arguments that are not built from exact
        builtin types.
        """
        return self._run("calls", requests)

    def scripts_batch(self, requests: Sequence[tuple[Program, Sequence[str]]]) -> list[list[CallResult]]:
        """For each (main program, texts for its stdin) what it wrote on stdout; entry points are not used."""
        return self._run("script", requests)

    def operations_batch(self, requests: Sequence[Request]) -> list[list[CallResult]]:
        """For each (program whose entry point is a class, lists of operations) the values of the operations.

        One list of operations is ``[(class name, arguments), (method, arguments), ...]``: it makes one object
        and calls its methods in order. The value is the list of what they returned, None for the first.
        """
        return self._run("operations", requests)

    def judge_batch(self, requests: Sequence[tuple[Program, Sequence[str]]]) -> list[list[CallResult]]:
        """For each (program, test programs) one result per test program: ``ok``, ``wrong`` or a verdict.

        A test program is Python with assertions. It finds the candidate as ``candidate`` and under the name
        of its entry point; if it defines ``check``, ``check(candidate)`` is called.
        """
        return self._run("judge", requests)

    def warm_calls(self, program: Program, many: Sequence[tuple[Any, ...]]) -> list[CallResult]:
        """Like ``calls_batch`` for one program, whose child stays for the next time."""
        planned = jobs.plan("calls", [(program, many)], self._cache)
        if planned.jobs and not self._is_closed(program):
            (job,) = planned.jobs
            self._drive([self._ask_warm(job)])
            if not job.done:
                self._execute([job])
        else:
            self._execute(planned.jobs)
        return self._settled(planned)[0]

    def _ask_warm(self, job: Job) -> Task[None]:
        name = (job.program.source, job.program.entry_point)
        child = self._warm.pop(name, None)
        if child is None:
            lane = self._lanes[self._turn % len(self._lanes)]
            self._turn += 1
            child = Isolated(lane.zygote, job.program, "calls", self.settings)
        again: list[Job] = []
        try:
            yield from self._lanes[0].ask_all(child, job, again)
            yield from child.rest()
        except ZygoteLostError:
            return
        if child.alive:
            self._warm[name] = child
        while len(self._warm) > self.settings.live_sessions:
            yield from _quietly(self._warm.popitem(last=False)[1].close())

    def _run(self, mode: str, requests: Sequence[Request]) -> list[list[CallResult]]:
        planned = jobs.plan(mode, requests, self._cache)
        self._execute(planned.jobs)
        return self._settled(planned)

    def _settled(self, planned: jobs.Plan) -> list[list[CallResult]]:
        counters, results = self.counters, [r for job in planned.jobs for r in job.results]
        counters.calls += planned.calls
        counters.cache_hits += planned.calls - planned.executions
        counters.timeouts += sum(result.status == "timeout" for result in results)
        counters.infra += sum(result.status == "infra" for result in results)
        counters.programs += len(planned.jobs)
        counters.tampering += sum(job.suspicious for job in planned.jobs)
        if self._journal is not None:
            self._journal.write(planned.jobs)
        return planned.settle(self._cache)

    def _execute(self, jobs_to_run: list[Job]) -> None:
        """Run jobs spread over the lanes; those that idled too long or lost their zygote once more, alone."""
        todo = [job for job in jobs_to_run if not self._ended_by_syntax(job)]
        closed = [job for job in todo if job.mode == "calls" and self._is_closed(job.program)]
        isolated = deque(job for job in todo if not (job.mode == "calls" and self._is_closed(job.program)))
        again: list[Job] = []
        count = len(self._lanes)
        tasks = [lane.run(closed[k::count], isolated, again) for k, lane in enumerate(self._lanes)]
        if todo:
            self._drive(tasks)
        for job in again:
            self._drive([self._lanes[0].run_isolated(job, None)])

    def _drive(self, tasks: list[Task[None]]) -> None:
        run_together(tasks)

    def _ended_by_syntax(self, job: Job) -> bool:
        """End a job whose program does not parse: no child is needed to say so, and policies write many.

        Only where the caller hints at a closed vocabulary: elsewhere the child's interpreter has the word.
        """
        if job.mode != "calls" or not job.program.closed_vocabulary or self._is_closed(job.program):
            return False
        fault = syntax_fault(job.program.source)
        if fault:
            job.results = [CallResult("error", None, fault)] * len(job.inputs)
        return bool(fault)

    def _is_closed(self, program: Program) -> bool:
        """The caller's word is only a hint: the allow-list decides, here in the trusted process."""
        if not program.closed_vocabulary:
            return False
        known = self._proofs.get(program.source)
        if known is None:
            if len(self._proofs) > 10_000:
                self._proofs.clear()
            known = self._proofs[program.source] = is_closed(program.source)
        return known


def _quietly(task: Task[Any]) -> Task[None]:
    """Finish a clean-up even if its zygote has just gone: then there is nothing left to clean."""
    try:
        yield from task
    except ZygoteLostError:
        return
