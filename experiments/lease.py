"""A lease: one holder at a time, taken by atomic create, broken when its holder is provably or long dead.

Everything done under a lease must stay correct if two hold it for a moment: a lease saves work, it does not
carry the proof.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from experiments.liveness import STALE_S, age, alive, file_time, whoami
from gagar_core.errors import RecordsError
from gagar_core.records import publish_once, read_json, to_json


class LeaseHeldError(RecordsError):
    """Somebody else holds the lease, and waiting was not wanted or took too long."""


@contextmanager
def lease(path: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold ``path`` during the block; raise ``LeaseHeldError`` after ``wait_s`` seconds of waiting."""
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = to_json(whoami())
    deadline = time.monotonic() + wait_s
    while not publish_once(path, facts):
        if not break_if_dead(path):
            if time.monotonic() >= deadline:
                msg = f"{path} is held by {describe(path)}; try again when it has ended"
                raise LeaseHeldError(msg)
            time.sleep(0.05)
    try:
        yield
    finally:
        with suppress(RecordsError):
            if to_json(read_json(path)) == facts:  # not one that was broken and taken while we were silent
                path.unlink(missing_ok=True)


def break_if_dead(path: Path) -> bool:
    """Remove a lease whose holder is dead; True if the lease is worth another try."""
    try:
        owner = read_json(path)
    except RecordsError:
        return True  # given back between our looks
    known = alive(owner)
    if known or (known is None and age(path, file_time(path.parent)) <= STALE_S):
        return False
    broken = path.with_name(f".{path.name}.{os.getpid()}.broken")
    try:
        path.replace(broken)  # of two breakers one moves it, the other finds nothing
    except FileNotFoundError:
        return True
    if read_json(broken) != owner:  # a third one had broken and taken it since we looked: give it back
        with suppress(FileExistsError):
            os.link(broken, path)
    broken.unlink(missing_ok=True)
    return True


def describe(path: Path) -> str:
    """Who holds a lease, for a message."""
    try:
        owner = read_json(path)
    except RecordsError:
        return "a process that is just ending"
    return f"process {owner.get('pid')} on {owner.get('host')}"
