"""Whether the process that holds a claim or a lease still lives. Standard library only.

A process id means something only in one process table. *Place* names that table (boot of the kernel and
pid namespace), and the start time of the process tells a recycled id from the first owner. From any other
place one can only look at the age of the owner's last sign of life, in the file server's clock.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BEAT_S = 5.0
"""Seconds between signs of life of work in hand."""

STALE_S = 45.0
"""A sign of life older than this (several beats, plus what a network file system may cache) means death."""


def whoami(pid: int | None = None) -> dict[str, Any]:
    """Facts that let others tell whether a process of this place (default: this one) lives."""
    number = os.getpid() if pid is None else pid
    return {"host": socket.gethostname(), "pid": number, "place": place(), "pid_start": start_ticks(number)}


def place() -> str:
    """Name of the process table that this process is in."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def start_ticks(pid: int) -> int:
    """Start time of a living process in clock ticks since boot; 0 if there is none (or only its zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def alive(owner: Mapping[str, Any]) -> bool | None:
    """True or False where it can be proved from here, None for an owner in another place."""
    if owner.get("place") != place():
        return None
    return start_ticks(int(owner["pid"])) == owner.get("pid_start") != 0


def file_time(folder: Path) -> float:
    """The file server's "now": the time it gives a file touched in ``folder``.

    Hosts' clocks differ, so ages of files are taken against this and never against the local clock; a
    folder that cannot be written to (a copy, another user's) leaves only the local clock.
    """
    probe = folder / f".{socket.gethostname()}.{os.getpid()}.probe"
    try:
        probe.touch()
        moment = probe.stat().st_mtime
        probe.unlink()
    except OSError:
        return time.time()
    return moment


def age(path: Path, now: float) -> float:
    """Seconds since ``path`` was last touched; infinite if it does not exist."""
    try:
        return now - path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
