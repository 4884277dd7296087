"""What runs in a child: read a program and then one request at a time, answer each. Untrusted from then on.

The first frame out is ``["ready"]`` or ``["fault", text]``, written before any untrusted byte is read. Modes:

- ``shared``: batches of programs that an allow-list has proved harmless; one answer frame per program;
- ``calls``, ``script``, ``operations``: one program, then requests ``[token, input]`` in lockstep;
- ``repository``: pytest on a patched tree (see ``repository_child``);
- ``judge``: test code that calls the candidate through the broker (see ``judge``).
"""

# ruff: noqa: PTH109
from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from gagar_core.sandbox import judging, repository_child, wire
from gagar_core.sandbox.confinement import Limits
from gagar_core.sandbox.framing import receive, send, write
from gagar_core.sandbox.runner import Outcome, Runner

MODES = ("shared", "calls", "script", "operations", "judge", "repository")
FLUSH_S = 0.005
"""Answers of a batch are gathered for this long before they are written: fewer wake-ups of the reader."""


class Runners:
    """Made once in the zygote, so that no child spends time on it; they hold nothing of any program."""

    def __init__(self, limits: Limits) -> None:
        def runner(closed: bool) -> Runner:
            return Runner(
                ticks=limits.fuel,
                memory_bytes=limits.memory_bytes,
                output_bytes=limits.output_bytes,
                closed=closed,
            )

        self.output_bytes = limits.output_bytes
        self.closed, self.open = runner(closed=True), runner(closed=False)
        for runner_of_kind in (self.closed, self.open):
            self._warm_up(runner_of_kind)

    @staticmethod
    def _warm_up(runner: Runner) -> None:
        """Let the interpreter specialise our own code now: it writes into code objects, and every page that a
        child writes to is copied first."""
        for count in range(40):
            source = _WARM_UP.format(count)
            wire.dump(["0" * 16, runner.call(source, "f", json.loads(wire.dump([wire.encode([1, 2]), "a"])))])
        runner.forget()


_WARM_UP = """
def f(xs, text, more=None):
    total = {}
    for x in xs:
        if x % 2 == 0 and text:
            total += x * 2
    while total > 99:
        total -= 1
    return [{{str(v): (v, text + "b") for v in sorted(xs)}}, total, [v for v in xs if v in xs][:1], 1.5, None]
"""
_READY = wire.frame(wire.dump(["ready"]))


def run_child(seal: Callable[[], None], runners: Runners, mode: str, ends: tuple[int, int, int]) -> None:
    """Confine this process, then serve until the other side closes.

    ``ends``: where requests come from, where answers go, and where the packed tree of a repository lies.
    """
    requests, answers, archive = ends
    try:
        seal()
    except BaseException as fault:
        send(answers, ["fault", f"{type(fault).__name__}: {fault}"])
        return
    _leave_zygote(archive)
    write(answers, _READY)
    if mode == "shared":
        _serve_batches(runners.closed, requests, answers)
    elif mode == "judge":
        judging.serve(requests, answers, runners.output_bytes)
    elif mode == "repository":
        repository_child.serve(requests, answers, archive, runners.output_bytes)
    else:
        _serve_lockstep(runners.open, mode, requests, answers)


def _leave_zygote(last: int) -> None:
    """Nothing of the zygote stays open but the two pipe ends; its standard error was the user's terminal."""
    os.dup2(0, 2)
    os.environ["HOME"] = os.environ["TMPDIR"] = os.getcwd()
    os.closerange(last + 1, 1024)


def _serve_lockstep(runner: Runner, mode: str, requests: int, answers: int) -> None:
    program = receive(requests)
    if program is None:
        return
    source, entry_point = program
    answers_of: dict[str, Callable[[str, str, Any], Outcome]] = {
        "calls": runner.call,
        "script": runner.script,
        "operations": runner.operations,
    }
    while (request := receive(requests)) is not None:
        token, given = request
        payload = wire.dump([token, answers_of[mode](source, entry_point, given)])
        if len(payload) > runner.output_bytes + wire.ENVELOPE_BYTES:
            payload = wire.dump([token, ["output", None, "answer too large"]])
        write(answers, wire.frame(payload))


def _serve_batches(runner: Runner, requests: int, answers: int) -> None:
    """A request is ``[[source, entry point, [arguments, ...]], ...]``."""
    while (batch := receive(requests)) is not None:
        waiting, since = bytearray(), time.monotonic()
        for source, entry_point, many in batch:
            outcomes = [runner.call(source, entry_point, arguments) for arguments in many]
            waiting += wire.frame(wire.dump(outcomes))
            if time.monotonic() - since > FLUSH_S:
                write(answers, waiting)
                waiting, since = bytearray(), time.monotonic()
        write(answers, waiting)
