"""Watching a sweep: a live table on a terminal, plain waiting elsewhere. Leaving stops nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweeps.status import Row, Status, summary

_PERIOD_S = 1.0

_STYLES = {"done": "green", "running": "cyan", "failed": "red", "killed": "yellow", "lost": "yellow"}


def wait(look: Callable[[], Status], say: Callable[[str], None] = lambda text: None) -> Status:
    """Return the status once nobody works on the sweep any more; ``say`` hears every change of counts."""
    told = ""
    while True:
        status = look()
        if summary(status) != told:
            told = summary(status)
            say(told)
        if not status.at_work:
            return status
        time.sleep(_PERIOD_S)


def watch(look: Callable[[], Status], show: Callable[[Status], None]) -> Status:
    """Show the status at every change of a state, until nobody works on the sweep any more or Ctrl-C."""
    told: Any = None
    try:
        while True:
            status = look()
            now = [(row.state, row.look.attempt) for row in status.rows]
            if now != told:
                told = now
                show(status)
            if not status.at_work:
                return status
            time.sleep(_PERIOD_S)
    except KeyboardInterrupt:
        return status


def follow(look: Callable[[], Status]) -> Status:
    """Show a live table until nobody works on the sweep any more, or until Ctrl-C (stops watching only)."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    status = look()
    with Live(render(status), console=console, auto_refresh=False) as live:
        try:
            while status.at_work:
                time.sleep(_PERIOD_S)
                status = look()
                live.update(render(status), refresh=True)
        except KeyboardInterrupt:
            pass
    if status.at_work:
        path = status.ledger.path
        console.print(f"still at work. `python -m sweeps status {path}` looks, `cancel {path}` stops it")
    return status


def render(status: Status) -> Any:
    """The table: a row for each run that is not just waiting, as far as the screen allows; then counts."""
    from rich.console import Group
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("variant", "seed", "state", "step", "pass", "tokens", "s/step", ""):
        table.add_column(column, justify="left" if column in ("variant", "state", "") else "right")
    shown = [row for row in status.rows if row.state not in ("todo", "pending")]
    shown = [row for row in shown if row.line["kind"] == "run" or row.state != "done"]
    shown.sort(key=lambda row: row.state == "done")  # what happens now stays in sight
    for row in shown[: _rows_that_fit()]:
        table.add_row(*_cells(row), style=_STYLES.get(row.state, ""))
    return Group(table, summary(status))


def _rows_that_fit() -> int:
    import shutil

    return max(4, shutil.get_terminal_size().lines - 4)


def _cells(row: Row) -> list[str]:
    said = row.said
    step = f"{said['step']}/{said.get('steps', '?')}" if "step" in said else ""
    figures = [
        _figure(said, name, form)
        for name, form in (("pass_rate", ".2f"), ("tokens", ".0f"), ("seconds", ".2f"))
    ]
    evidence = row.look.evidence.splitlines()[0][:60] if row.state not in ("done", "running") else ""
    return [
        row.line["variant"] or row.line["artifact"],
        str(row.line["seed"]),
        row.state,
        step,
        *figures,
        evidence,
    ]


def _figure(said: Any, name: str, form: str) -> str:
    value = said.get(name)
    return format(value, form) if isinstance(value, int | float) else ""


def show_log(path: Path, ended: Callable[[], bool], *, keep: bool) -> None:
    """Print a log file; with ``keep``, go on printing until ``ended()``."""
    position = 0
    while True:
        last = not keep or ended()  # asked before reading, so that the last lines are not missed
        if path.exists():
            with path.open("rb") as stream:
                stream.seek(position)
                text = stream.read()
            position += len(text)
            sys.stdout.write(text.decode(errors="replace"))
            sys.stdout.flush()
        if last:
            return
        time.sleep(_PERIOD_S / 2)
