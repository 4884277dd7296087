"""Whether folders can be written to: found out by writing, before anything depends on it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from gagar_core.errors import RecordsError, gather

_ROOM = b"\0" * 2**20
"""Written and removed again: a file system that is full, or over a quota, may still create empty files."""

_DISK = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EFBIG)


def check_room(*folders: Path) -> None:
    """Raise one ``RecordsError`` that names every folder that cannot take a megabyte more.

    A folder need not exist: then the nearest one above it is tried. Nothing is left behind.
    """
    nearest: dict[Path, Path] = {}
    for folder in folders:
        nearest.setdefault(_existing(folder.absolute()), folder)
    tried = [(folder, _fault(place)) for place, folder in nearest.items()]
    faults = [f"cannot write to {folder}: {why}" for folder, why in tried if why]
    advice = ["free some space or change its mode, or give another root="] if faults else []
    gather([*faults, *advice], headline="nothing was begun", error=RecordsError)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _fault(folder: Path) -> str:
    probe = folder / f".{os.getpid()}.room.probe"
    try:
        with probe.open("wb") as stream:
            stream.write(_ROOM)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as err:
        return err.strerror or str(err)
    finally:
        with suppress(OSError):
            probe.unlink()
    return ""


def disk_fault(err: OSError) -> str:
    """A sentence for an error that a disk gave (full, read-only, a quota, rights); "" for any other."""
    if err.errno not in _DISK:
        return ""
    where = err.filename2 or err.filename or "the disk"  # of a copy: what it was written to
    return f"cannot write to {where}: {err.strerror}; free some space, or give another root="
