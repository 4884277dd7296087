"""One lane per zygote: takes programs through children, and finds out what stopped those that stop.

Programs that an allow-list has proved harmless share one child per step and go there as one batch. All others
get a child of their own and one request at a time.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from gagar_core.sandbox.channel import Channel, StoppedError
from gagar_core.sandbox.isolated import Isolated, verdict
from gagar_core.sandbox.jobs import Job, results_of
from gagar_core.sandbox.judge import Judged
from gagar_core.sandbox.scheduling import Task
from gagar_core.sandbox.settings import SandboxSettings
from gagar_core.sandbox.zygotes import Zygote, ZygoteLostError
from gagar_core.types import CallResult, Program


def _infra(loss: ZygoteLostError) -> CallResult:
    return CallResult("infra", None, f"the sandbox could not run the program: {loss}"[:200])


class Lane:
    """A zygote with its shared child."""

    def __init__(self, settings: SandboxSettings, level: str) -> None:
        self._settings = settings
        self.zygote = Zygote(settings, level)
        self._shared: Channel | None = None

    def run(self, closed: list[Job], isolated: deque[Job], again: list[Job]) -> Task[None]:
        """Run a share of proven programs, then isolated ones as long as there are any.

        A program that sat idle for too long is put on ``again``.
        """
        if closed:
            yield from self._run_shared(closed)
        while isolated:
            yield from self.run_isolated(isolated.popleft(), again)

    def run_isolated(self, job: Job, again: list[Job] | None) -> Task[None]:
        """All remaining calls of one program in one child. ``again`` None: this is the second try, alone."""
        child = self._child(job)
        try:
            yield from self._ready()
            yield from self.ask_all(child, job, again)
            yield from child.close()
        except ZygoteLostError as loss:
            self._lose()
            if again is not None:
                again.append(job)
            else:
                job.stop((yield from self._blame(loss)))

    def _child(self, job: Job) -> Isolated | Judged:
        if job.mode == "judge":
            return Judged(self.zygote, job.program, self._settings)
        return Isolated(self.zygote, job.program, job.mode, self._settings)

    def ask_all(self, child: Isolated | Judged, job: Job, again: list[Job] | None) -> Task[None]:
        """Put all remaining calls to ``child``; whatever stops it ends the job."""
        while not job.done:
            try:
                job.results.append((yield from child.ask(job.inputs[len(job.results)])))
            except StoppedError as stop:
                if stop.reason == "wall" and again is not None:
                    again.append(job)
                    return
                job.stop(verdict(stop, child.usage))

    def _blame(self, loss: ZygoteLostError) -> Task[CallResult]:
        """The zygote was lost twice under a program: whose fault is it?"""
        probe = Job(Program("def f():\n    return 1\n", "f"), "calls", inputs=[[]])
        try:
            yield from self._ready()
            child = Isolated(self.zygote, probe.program, "calls", self._settings)
            result = yield from child.ask([])
            yield from child.close()
        except (StoppedError, ZygoteLostError):
            self._lose()
            return _infra(loss)
        return CallResult("violation", None, "ended the zygote") if result.value == 1 else _infra(loss)

    def _ready(self) -> Task[None]:
        """Start the zygote, or replace one that has made many children."""
        if self.zygote.made >= self._settings.recycle:
            yield from self.end_shared()
            self._lose()
        self.zygote.ensure()

    def _lose(self) -> None:
        self._shared = None
        self.zygote.stop()

    def _run_shared(self, jobs: list[Job]) -> Task[None]:
        position, losses = 0, 0
        while position < len(jobs):
            try:
                channel = yield from self._shared_child()
                yield from channel.send([job.message() for job in jobs[position:]])
                while position < len(jobs):
                    job = jobs[position]
                    cpu_s = self._settings.call_cpu_s(len(job.inputs))
                    outcomes = yield from channel.receive(cpu_s, self._settings.wall_s)
                    job.results = results_of(outcomes, len(job.inputs))
                    position += 1
            except StoppedError:
                yield from self.end_shared()
                position = yield from self._past_suspect(jobs, position)
            except ZygoteLostError as loss:
                self._lose()
                losses += 1
                if losses > 2:
                    for job in jobs[position:]:
                        job.stop(_infra(loss))
                    return

    def _past_suspect(self, jobs: list[Job], position: int) -> Task[int]:
        """Run unanswered programs call by call until one stops the child again; returns where to go on."""
        while position < len(jobs):
            job = jobs[position]
            job.results = []
            position += 1
            try:
                for given in job.inputs:
                    job.results += yield from self._alone(job.program, given)
            except StoppedError as stop:
                yield from self.end_shared()
                job.stop(verdict(stop, {}))
                break
        return position

    def _alone(self, program: Program, given: Any) -> Task[list[CallResult]]:
        channel = yield from self._shared_child()
        yield from channel.send([[program.source, program.entry_point, [given]]])
        outcomes = yield from channel.receive(self._settings.call_cpu_s(), self._settings.wall_s)
        return results_of(outcomes, 1)

    def _shared_child(self) -> Task[Channel]:
        yield from self._ready()
        if self._shared is None or not self.zygote.owns(self._shared):
            channel = yield from self.zygote.spawn("shared")
            yield from self.zygote.greet(channel)
            self._shared = channel
        return self._shared

    def end_shared(self) -> Task[None]:
        """End the shared child; the next batch gets a fresh one."""
        channel, self._shared = self._shared, None
        if channel is not None and self.zygote.owns(channel):
            yield from self.zygote.end(channel)

    def stop(self) -> None:
        """End the zygote and all that runs under it."""
        self._lose()
