"""``python -m sweeps doctor``: what a sweep would meet on this machine, checked and not guessed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments.liveness import place, start_ticks
from gagar_core.errors import GagarError
from gagar_core.records import publish_once
from sweeps.puller import cores
from sweeps.slurm_view import ask

_PACKAGES = ("torch", "polars", "hydra-core", "optuna", "mlflow", "submitit", "rich")
_DISK_GB = 1.0

Finding = tuple[str, str]
"""``ok``, ``note`` or ``FAIL``, and a sentence."""


def doctor(root: str) -> int:
    """Print every finding; exit code 1 if something must be mended."""
    failed = False
    for check in CHECKS:
        for level, text in check(Path(root)):
            print(f"{level:5s} {text}")
            failed |= level == "FAIL"
    return int(failed)


def _python(root: Path) -> Iterator[Finding]:
    level = "ok" if sys.version_info >= (3, 11) else "FAIL"
    yield level, f"Python {platform.python_version()} on {platform.machine()} (3.11 or newer is needed)"
    for name in _PACKAGES:
        try:
            yield "ok", f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield "FAIL", f"{name} is not installed: pip install -e . in the checkout"


def _machine(root: Path) -> Iterator[Finding]:
    yield (
        "ok",
        f"{cores()} cores may be used (runs at a time with launcher=local, unless workers= says otherwise)",
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    yield "ok", f"{memory:.1f} GB of memory"
    if start_ticks(os.getpid()) == 0:
        yield "FAIL", "/proc cannot be read: dead workers could not be told from living ones"
    else:
        yield "ok", f"process table {place()}"
    gpu = Path("/dev/nvidiactl").exists()
    yield "note", "a GPU is visible: runs are spawned, not forked" if gpu else "no GPU visible: runs on CPU"


def _root(root: Path) -> Iterator[Finding]:
    nearest = next(path for path in (root.resolve(), *root.resolve().parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        yield "FAIL", f"cannot write to {nearest}: give another root="
        return
    probe = nearest / f".doctor.{os.getpid()}"
    try:
        linked = publish_once(probe, b"") and not publish_once(probe, b"")
    except OSError as err:
        yield "FAIL", f"{nearest}: hard links do not work ({err}); claims need them: give another root="
        return
    finally:
        probe.unlink(missing_ok=True)
    yield ("ok", f"{nearest}: claims work") if linked else ("FAIL", f"{nearest}: atomic create does not work")
    free = shutil.disk_usage(nearest).free / 2**30
    yield ("ok" if free >= _DISK_GB else "FAIL"), f"{free:.1f} GB free at {nearest}"


def _sandbox(root: Path) -> Iterator[Finding]:
    try:
        from gagar_core.sandbox import open_sandbox

        sandbox = open_sandbox()
        level = sandbox.level
        sandbox.close()
    except (GagarError, ImportError, TypeError) as err:
        yield "FAIL", f"the sandbox does not start: {err}"
        return
    yield ("note" if level == "rlimits" else "ok"), f"sandbox level {level}"


def _slurm(root: Path) -> Iterator[Finding]:
    absent = [name for name in ("sbatch", "srun", "squeue", "scancel") if shutil.which(name) is None]
    if absent:
        yield "note", f"no Slurm here ({', '.join(absent)} not found): launcher=local only"
        return
    partitions = ask(["sinfo", "-h", "-o", "%P %a %D nodes, %c CPUs, %m MB, %G, limit %l"])
    if partitions.error:
        yield "note", f"Slurm does not answer, so launcher=local only: {partitions.error.splitlines()[0]}"
        return
    for line in partitions.lines:
        yield "ok", f"Slurm partition {line}"
    accounting = ask(["sacct", "-X", "-n", "-S", "now-1minutes"])
    words = f"no accounting ({accounting.error}): states come from files and squeue alone"
    yield ("note", words) if accounting.error else ("ok", "Slurm accounting answers")
    limits = ask(["scontrol", "show", "config"])
    for line in limits.lines:
        if line.split("=")[0].strip() in ("MaxArraySize", "MaxJobCount"):
            yield "ok", f"Slurm {' '.join(line.split())}"


CHECKS: tuple[Callable[[Path], Iterator[Finding]], ...] = (_python, _machine, _root, _sandbox, _slurm)
