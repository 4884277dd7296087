"""One job as a process of its own: forked from a warm worker, or spawned where CUDA forbids a fork.

The child writes to the attempt's ``log.txt`` and sends the reason of a failure through a pipe; the parent
waits for it, whatever its end, and writes the exit file. A child does not outlive its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from gagar_core.errors import GagarError, StoppedError
from sweeps.jobs import Job, JobResult

_PR_SET_PDEATHSIG = 1
_REASON_BYTES = 4000
_STOPPED = 75
"""Exit code of a run that was asked to stop and left a checkpoint: to be gone on with, not failed."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Read by numerical libraries when they load: set to 1 before a worker starts."""

Perform = Callable[[Job], None]
"""Does a job in the calling process."""


def perform(job: Job) -> None:
    """Execute a run, or build an artifact."""
    if job.kind == "run":
        from experiments.execute import execute

        execute(job.attempt.folder, job.attempt.number, _print_step)
        return
    from experiments.artifacts import ArtifactSpec, ensure
    from experiments.schema import from_record

    config = from_record({**job.spec["config"], "root": job.spec["root"], "name": "artifacts"})
    ensure(ArtifactSpec(job.spec["artifact"], job.identity, job.spec["seed"], config), beat=job.attempt.beat)


def _print_step(line: dict[str, Any]) -> None:
    from experiments.progress import figures

    print(f"step {line['step']}/{line['steps']}  {figures(line)}")


def warm(records: Iterable[Mapping[str, Any]] = ()) -> None:
    """Load what every run needs before the first fork, on one thread; but no Polars: it survives no fork.

    ``records`` are configurations about to be run: a choice that has a method ``preload`` prepares what its
    runs share.
    """
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(
        True
    )  # every run does; the first call imports torch's compiler, 0.8 CPU s
    for module in ("experiments.execute", "experiments.progress"):
        importlib.import_module(module)
    for axis, settings in ((axis, part) for record in records for axis, part in record.items()):
        if isinstance(settings, Mapping):
            _preload(axis, settings)
    gc.collect()
    gc.freeze()  # children then share these pages instead of copying them when the collector marks


def _preload(axis: str, settings: Mapping[str, Any]) -> None:
    from experiments.schema import CHOICES

    cls = CHOICES.get(axis, {}).get(str(settings.get("kind")))
    if cls is not None and hasattr(cls, "preload"):
        cls(**{name: value for name, value in settings.items() if name != "kind"}).preload()


def must_spawn() -> bool:
    """Whether a CUDA build meets a GPU: its runtime cannot be used after a fork."""
    if not Path("/dev/nvidiactl").exists():
        return False
    return bool(importlib.import_module("torch.version").cuda)


class JobProcess:
    """A job in the hands of a child process."""

    def __init__(
        self, job: Job, perform: Perform, *, spawn: bool = False, env: Mapping[str, str] | None = None
    ):
        self.job = job
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _child(job, perform, parent, writer, spawn=spawn, env=dict(env or {}))
        os.close(writer)
        self._reader = reader
        self.handle = os.pidfd_open(self.pid)

    def finish(self, stopped: str = "") -> JobResult:
        """Wait for the end, write the exit file, and sweep away what the child left running.

        ``stopped`` is why the worker itself is being stopped: a scheduler signals workers and runs alike.
        """
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.terminate(signal.SIGKILL)  # the group, while its number is still taken
        _, status, usage = os.wait4(self.pid, 0)
        reason = _read_all(self._reader)
        os.close(self.handle)
        cpu_s = round(usage.ru_utime + usage.ru_stime, 3)
        result = _judge(os.waitstatus_to_exitcode(status), reason, cpu_s, round(usage.ru_maxrss / 1024, 1))
        if stopped and result.status == "killed":
            result = replace(result, reason=stopped)
        facts = {"cpu_s": result.cpu_s, "max_rss_mb": result.max_rss_mb}
        self.job.attempt.exit(result.status, result.reason, **facts)
        return result

    def terminate(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the child and everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def _judge(code: int, reason: str, cpu_s: float, max_rss_mb: float) -> JobResult:
    if code == 0:
        return JobResult("ok", "", cpu_s, max_rss_mb)
    if code < 0:
        name = signal.Signals(-code).name
        own_fault = -code in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
        return JobResult("failed" if own_fault else "killed", f"ended by {name}", cpu_s, max_rss_mb)
    if code == _STOPPED:
        return JobResult("killed", reason, cpu_s, max_rss_mb)
    return JobResult("failed", reason or f"exit code {code}", cpu_s, max_rss_mb)


def _read_all(descriptor: int) -> str:
    # grandchildren may still hold the other end: read what is there, do not wait for the end of file
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, _REASON_BYTES).decode(errors="replace")
    except BlockingIOError:
        return ""
    finally:
        os.close(descriptor)


def _child(
    job: Job, perform: Perform, parent: int, writer: int, *, spawn: bool, env: dict[str, str]
) -> NoReturn:
    code = 1
    try:
        _settle(job, parent)
        os.environ.update(env)
        if spawn:
            _become_python(job, writer)
        os.set_inheritable(writer, False)
        code = run_guarded(job, perform, writer)
    finally:
        os._exit(code)  # never back into the parent's stack, never its exit handlers


def _settle(job: Job, parent: int) -> None:
    """Own process group, own log, default signals, and death together with the parent."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(
        signal.SIGUSR2, signal.SIG_IGN
    )  # Slurm's warning goes to the whole step; the worker acts on it
    log = os.open(job.attempt.path / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    sys.stdin = os.fdopen(0)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    faulthandler.enable()


def run_guarded(job: Job, perform: Perform, writer: int) -> int:
    """Do the job; a failure's traceback goes to the log, its reason to ``writer``. Returns the exit code."""
    try:
        perform(job)
    except StoppedError as err:
        print(err)
        _tell(writer, err)
        return _STOPPED
    except GagarError as err:
        print(f"{type(err).__name__}: {err}", file=sys.stderr)
        return _tell(writer, err)
    except BaseException as err:
        traceback.print_exc()
        return _tell(writer, err)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _tell(writer: int, err: BaseException) -> int:
    text = f"{type(err).__name__}: {err}".encode(errors="replace")
    os.write(writer, text[:_REASON_BYTES])
    return 1


def _become_python(job: Job, writer: int) -> NoReturn:
    os.set_inheritable(writer, True)
    data = {"kind": job.kind, "identity": job.identity, "spec": dict(job.spec)}
    place = {"folder": str(job.attempt.folder), "attempt": job.attempt.number, "writer": writer}
    arguments = [sys.executable, "-m", "sweeps.process", json.dumps({**data, **place})]
    os.execv(sys.executable, arguments)


def main() -> None:
    """Entry of a spawned child."""
    from experiments.attempts import Attempt

    data = json.loads(sys.argv[1])
    attempt = Attempt(Path(data["folder"]), data["attempt"])
    job = Job(data["kind"], data["identity"], attempt, data["spec"])
    sys.exit(run_guarded(job, perform, data["writer"]))


if __name__ == "__main__":
    main()
