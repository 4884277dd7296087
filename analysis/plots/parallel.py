"""Figures of large sweeps, drawn by two processes: each figure is one's own work, and the bytes are the same.

matplotlib draws on one core only. The other process is an interpreter of its own (``python -m
analysis.plots.parallel``) that is handed the section and the curves through a pipe: forking would copy the
threads that read the tables, and the spawning of ``multiprocessing`` would run a caller's script again.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from analysis.curves import Curve
from analysis.plots.drawing import Drawing, Section
from analysis.plots.figures import FIGURES, draw_all

LARGE = 300
"""Runs of a sweep from which a second process is worth the second that its start takes."""


def draw(sweep: Section, curves: Mapping[str, Curve]) -> list[Drawing]:
    """Every figure of a sweep's section that has something to show, in the order of the page."""
    if len(sweep["runs"]) < LARGE or (os.cpu_count() or 1) < 2:
        return draw_all(sweep, curves)
    mine, others = list(FIGURES)[::2], list(FIGURES)[1::2]
    with ThreadPoolExecutor(1) as waiting:
        elsewhere = waiting.submit(_ask, sweep, curves, others)
        found = draw_all(sweep, curves, mine)
        found += elsewhere.result() or draw_all(sweep, curves, others)
    order = {key: position for position, key in enumerate(FIGURES)}
    return sorted(found, key=lambda drawing: order[drawing.key])


def _ask(sweep: Section, curves: Mapping[str, Curve], keys: list[str]) -> list[Drawing]:
    """What another process draws; nothing if it fails: the caller then draws them and meets the fault."""
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=pickle.dumps((sweep, dict(curves), keys)),
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    answer: list[Drawing] = pickle.loads(done.stdout) if done.returncode == 0 else []  # our own process
    return answer


def _answer() -> None:
    """Draw what the other end of standard input asks for."""
    sweep, curves, keys = pickle.loads(sys.stdin.buffer.read())  # written by ``_ask`` alone
    sys.stdout.buffer.write(pickle.dumps(draw_all(sweep, curves, keys)))


if __name__ == "__main__":
    _answer()
