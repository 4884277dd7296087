"""The judge's side of an assert-style test: test code runs here, the candidate is a function far away.

The test program (HumanEval's ``check``, MBPP's assert lines) is data of the task. It runs in a sandboxed
process of its own; calling the candidate sends the arguments through the broker into the candidate's process
and brings an answer back by value. Patching ``unittest``, overriding ``==`` or walking frames over there
changes nothing here.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

from gagar_core.sandbox import wire
from gagar_core.sandbox.framing import receive, send
from gagar_core.sandbox.runner import Sink


class CandidateError(Exception):
    """The candidate failed in a way that no builtin exception stands for."""


class _CandidateStoppedError(BaseException):
    """The candidate ran into a limit; test code must not catch this by accident."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Remote:
    """The candidate as the test program sees it."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self.token = ""
        self.last_failure = ("", "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError("the candidate takes positional arguments only")
        send(self._answers, [self.token, "call", [wire.encode(value) for value in args]])
        reply = receive(self._requests)
        if reply is None:
            raise _CandidateStoppedError("infra", "the broker is gone")
        self.token, (status, value, message) = reply
        if status == "ok":
            return wire.decode(value)
        self.last_failure = (status, message)
        if status == "error":
            raise _exception_named(message)
        raise _CandidateStoppedError(status, message)


def _exception_named(message: str) -> Exception:
    """Tests may expect a candidate to raise ``ValueError``: give them the builtin class of that name."""
    name = message.partition(":")[0]
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            pass
    return CandidateError(message)


def serve(requests: int, answers: int, output_bytes: int) -> None:
    """Read ``[test source, entry point]``, run the test when asked, and send ``[token, "verdict", ...]``."""
    program = receive(requests)
    begin = receive(requests)
    if program is None or begin is None:
        return
    remote = _Remote(requests, answers)
    remote.token = begin[0]
    sys.stdout = sys.stderr = Sink(output_bytes)
    status, message = _verdict(program[0], program[1], remote)
    send(answers, [remote.token, "verdict", status, message])


def _verdict(source: str, entry_point: str, remote: _Remote) -> tuple[str, str]:
    try:
        space: dict[str, Any] = {"__name__": "judge", "candidate": remote, entry_point: remote}
        exec(compile(source, "test", "exec", dont_inherit=True), space)
        if callable(space.get("check")):
            space["check"](remote)
    except _CandidateStoppedError as stop:
        return stop.status, str(stop)
    except AssertionError:
        return "wrong", "AssertionError"
    except BaseException as fault:
        if remote.last_failure[0]:
            return remote.last_failure
        return "error", f"test program: {type(fault).__name__}"
    return "pass", ""
