"""Removes what nobody needs any more. Says what and how much first; results and records are never touched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.liveness import STALE_S, age, file_time
from gagar_core.errors import LaunchError, RecordsError, gather
from sweeps.ledger import Ledger
from sweeps.status import Status, look_at

_LEFT_BEHIND = (".*.tmp", ".*.probe", ".*.broken")
"""Files of writers that were killed between writing aside and renaming."""


@dataclass(frozen=True)
class Item:
    """Something to remove, and why that loses nothing."""

    path: Path
    why: str

    def size(self) -> int:
        """Bytes."""
        files = self.path.rglob("*") if self.path.is_dir() and not self.path.is_symlink() else [self.path]
        return sum(file.lstat().st_size for file in files if file.is_symlink() or file.is_file())


def clean(ledger: Ledger, selection: Sequence[str], *, yes: bool) -> int:
    """Print the plan; with ``yes`` carry it out."""
    status = look_at(ledger)
    if status.at_work:
        msg = f"{ledger.name} is being worked on; wait, or `python -m sweeps cancel {ledger.path}`"
        raise LaunchError(msg)
    items = selected(status, selection) if selection else list(leftovers(status))
    for item in items:
        print(f"{item.size() / 1e6:9.2f} MB  {item.path.relative_to(ledger.path)}  ({item.why})")
    total = sum(item.size() for item in items) / 1e6
    print(
        f"{ledger.path}: {len(items)} to remove, {total:.2f} MB"
        + ("" if yes or not items else "; --yes does it")
    )
    if yes:
        faults = [fault for item in items for fault in _remove(item.path, ledger.path)]
        gather(faults, headline="not everything could be removed", error=RecordsError)
    return 0


def leftovers(status: Status) -> Iterator[Item]:
    """What remains of finished work and of killed writers."""
    ledger = status.ledger
    for row in status.runs:
        if row.state == "done" and (row.folder / "checkpoints").is_dir():
            yield Item(row.folder / "checkpoints", "the run is done")
    for submission in ledger.submissions():
        for path in sorted((submission.path / "slurm").glob("*.pkl")):
            yield Item(path, f"submission {submission.nonce} has ended")
    now = file_time(ledger.path)
    for pattern in _LEFT_BEHIND:
        for path in sorted(ledger.path.rglob(pattern)):
            if age(path, now) > STALE_S:
                yield Item(path, "left behind by a killed process")


def selected(status: Status, selection: Sequence[str]) -> list[Item]:
    """Folders of the selected runs: they will be begun anew. A done run among them is refused."""
    from sweeps.selection import select

    rows = [row for row in select(status.runs, selection) if row.folder.exists()]
    done = [
        f"{row.line['run_id']} ({row.line['variant']}:{row.line['seed']}) is done"
        for row in rows
        if row.state == "done"
    ]
    gather(
        [f"{fault}: results are never removed; add state=failed" for fault in done], headline="cannot clean"
    )
    return [Item(row.folder, f"{row.state}; it will be begun anew") for row in rows]


def _remove(path: Path, within: Path) -> list[str]:
    if not path.parent.resolve().is_relative_to(within.resolve()):
        return [f"{path} lies outside the sweep folder"]  # a link inside it leads elsewhere
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as err:
        return [f"{path}: {err.strerror or err}"]
    return []
