"""Works off the jobs of a source in a number of slots; the same for local processes and Slurm elements."""

from __future__ import annotations

import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from experiments.liveness import BEAT_S
from sweeps.jobs import Job, JobResult, Source, Wait
from sweeps.process import JobProcess, Perform
from sweeps.state import CANCEL

_LOOK_S = 0.5
"""Longest time between looks at the stop sign and at what others have built, seconds."""


@dataclass
class Puller:
    """``slots`` jobs at a time, each a process of its own.

    ``prepare`` is called once before the first job (a worker that finds nothing to do loads nothing).
    ``stop`` returns "" or the reason to end at once (cancelled, time limit): children are then terminated and
    their attempts recorded as killed for that reason. A single job is ended likewise when a file in its
    attempt asks for it (``sweeps.cancel``). ``gpus`` are the visible devices, shared out by slot;
    ``beat`` is called about twice a second. ``grace_s`` is the time that a child has between SIGTERM and
    SIGKILL, to finish its step and write a checkpoint.
    """

    source: Source
    slots: int
    perform: Perform
    prepare: Callable[[], None] = lambda: None
    stop: Callable[[], str] = lambda: ""
    spawn: bool = False
    gpus: tuple[str, ...] = ()
    beat: Callable[[], None] = lambda: None
    grace_s: float = 20.0
    say: Callable[[str], None] = print
    _busy: dict[int, JobProcess] = field(default_factory=dict)
    _ending: dict[int, float] = field(default_factory=dict)
    """Slots whose job was cancelled, and when it will be killed if it has not ended."""
    _drained: bool = False
    _prepared: bool = False
    _last_beat: float = 0.0

    def work(self) -> Counter[str]:
        """Run until the source has no more; return how many jobs ended how."""
        ended: Counter[str] = Counter()
        while True:
            reason = self.stop()
            if reason:
                return ended + self._stop_all(reason)
            waiting = self._fill()
            if not self._busy and not waiting:
                return ended
            self.beat()
            self._beat()
            self._end_cancelled()
            for slot in self._wait():
                ended[self._finish(slot).status] += 1

    def _fill(self) -> bool:
        """Start jobs in free slots; True if the source wants to be asked again."""
        for slot in range(self.slots):
            if slot in self._busy or self._drained:
                continue
            job = self.source.next()
            if isinstance(job, Wait):
                return True
            if job is None:
                # what a running job leaves behind may open further work, so ask again when one ends
                self._drained = True
                return False
            self._start(slot, job)
        return False

    def _start(self, slot: int, job: Job) -> None:
        if not self._prepared:
            self.prepare()
            self._prepared = True
        env = {"CUDA_VISIBLE_DEVICES": self.gpus[slot % len(self.gpus)]} if self.gpus else {}
        self._busy[slot] = JobProcess(job, self.perform, spawn=self.spawn, env=env)
        self.say(
            f"{job.kind} {job.identity} attempt {job.attempt.number} started (process {self._busy[slot].pid})"
        )

    def _wait(self) -> list[int]:
        """Slots whose process has ended, after waiting a little for one to end."""
        poll = select.poll()
        slots = {process.handle: slot for slot, process in self._busy.items()}
        for handle in slots:
            poll.register(handle, select.POLLIN)
        return [slots[handle] for handle, _ in poll.poll(_LOOK_S * 1000)]

    def _finish(self, slot: int) -> JobResult:
        process = self._busy.pop(slot)
        cancelled = self._ending.pop(slot, None) is not None
        result = process.finish(self.stop() or ("cancelled" if cancelled else ""))
        self._drained = False
        job = process.job
        self.say(
            f"{job.kind} {job.identity} attempt {job.attempt.number} {result.status} {result.reason}".rstrip()
        )
        self.source.report(job, result)
        return result

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._last_beat >= BEAT_S:
            self._last_beat = now
            for process in self._busy.values():
                process.job.attempt.beat()

    def _end_cancelled(self) -> None:
        now = time.monotonic()
        for slot, process in self._busy.items():
            if slot in self._ending:
                if now >= self._ending[slot]:
                    process.terminate(signal.SIGKILL)
            elif (process.job.attempt.path / CANCEL).exists():
                self._ending[slot] = now + self.grace_s
                process.terminate()

    def _stop_all(self, reason: str) -> Counter[str]:
        self.say(f"stopping: {reason}")
        stopped = Counter(killed=len(self._busy))
        for process in self._busy.values():
            # told before they die, so that the reason is ours and not "ended by SIGTERM"
            process.job.attempt.exit("killed", reason)
            process.terminate()
        deadline = time.monotonic() + self.grace_s
        while self._busy and time.monotonic() < deadline:
            for slot in self._wait():
                self._finish(slot)
        for process in self._busy.values():
            process.terminate(signal.SIGKILL)
        for slot in list(self._busy):
            self._finish(slot)
        return stopped


def cores() -> int:
    """Cores that this process may use: affinity, and the quota of its control group."""
    count = len(os.sched_getaffinity(0))
    quota = _quota()
    return max(1, min(count, int(quota))) if quota else count


def _quota() -> float:
    """CPU quota in cores, 0 if there is none."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as stream:  # noqa: PTH123
            limit, period = stream.read().split()
    except (OSError, ValueError):
        return 0.0
    return 0.0 if limit == "max" else float(limit) / float(period)
