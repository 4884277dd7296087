"""Files that appear whole: written aside in the same folder, flushed to disk, then renamed or linked."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from gagar_core.errors import RecordsError


def publish(path: Path, data: bytes) -> None:
    """Write ``data`` so that ``path`` holds either its old content or all of the new one."""
    aside = _write_aside(path, data)
    aside.replace(path)
    sync_folder(path.parent)


def publish_once(path: Path, data: bytes) -> bool:
    """Create ``path`` with ``data`` unless it exists; return whether this call created it.

    ``link`` is atomic on local disks and on NFS, and never replaces: of two racers exactly one wins.
    """
    aside = _write_aside(path, data)
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        aside.unlink()
    sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_json(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no NaN, one trailing newline."""
    return (json.dumps(value, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Parse a JSON file, or raise ``RecordsError`` naming it."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as err:
        msg = f"{path} does not exist"
        raise RecordsError(msg) from err
    except (json.JSONDecodeError, UnicodeDecodeError) as err:
        msg = f"{path} is not valid JSON ({err}); it was damaged or cut off: restore it or remove the folder"
        raise RecordsError(msg) from err


def aside_name(path: Path) -> Path:
    """A fresh hidden name in the same folder; its suffix keeps it out of every reader's pattern."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


def _write_aside(path: Path, data: bytes) -> Path:
    aside = aside_name(path)
    try:
        with aside.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:  # a full disk needs no torn files beside
        aside.unlink(missing_ok=True)
        raise
    return aside
