"""The broker's side of assert-style tests: two children that know nothing of each other, and a relay
between."""

from __future__ import annotations

import secrets
from typing import Any

from gagar_core.sandbox import wire
from gagar_core.sandbox.channel import Channel, StoppedError, cpu_clock
from gagar_core.sandbox.isolated import Isolated, verdict
from gagar_core.sandbox.scheduling import Task
from gagar_core.sandbox.settings import SandboxSettings
from gagar_core.sandbox.zygotes import Zygote
from gagar_core.types import CallResult, Program

_VERDICTS = frozenset(("wrong", "error", "timeout", "memory", "output", "violation"))


class Judged:
    """A candidate that test programs call; each test program gets a child of its own."""

    def __init__(self, zygote: Zygote, program: Program, settings: SandboxSettings) -> None:
        self.zygote, self.program = zygote, program
        self._settings = settings
        self._candidate = Isolated(zygote, program, "calls", settings)
        self._stopped: CallResult | None = None

    @property
    def usage(self) -> dict[str, Any]:
        """How the candidate's child ended."""
        return self._candidate.usage

    def ask(self, test: str) -> Task[CallResult]:
        """Run one test program against the candidate."""
        self.zygote.ensure()
        judge = yield from self.zygote.spawn("judge")
        try:
            yield from judge.send([test, self.program.entry_point])
            yield from self.zygote.greet(judge)
            return (yield from self._trial(judge))
        except StoppedError as stop:
            fate = verdict(stop, {})
            return CallResult(fate.status, None, f"test program: {fate.message}")
        finally:
            if self.zygote.owns(judge):
                yield from self.zygote.end(judge)

    def _trial(self, judge: Channel) -> Task[CallResult]:
        token = secrets.token_hex(8)
        yield from judge.send([token])
        deadline = cpu_clock(judge.pid) + self._settings.call_cpu_s()
        while True:
            left = max(0.0, deadline - cpu_clock(judge.pid))
            frame = yield from judge.receive(left, self._settings.wall_s)
            if type(frame) is not list or len(frame) < 3 or frame[0] != token:
                raise StoppedError("violation", "wrong token")
            if frame[1] == "verdict" and len(frame) == 4:
                return _judgement(frame[2], frame[3])
            if frame[1] != "call" or type(frame[2]) is not list:
                raise StoppedError("violation", "malformed call")
            result = yield from self._relayed(frame[2])
            token = secrets.token_hex(8)
            yield from judge.send([token, [result.status, wire.encode(result.value), result.message]])

    def _relayed(self, arguments: list[Any]) -> Task[CallResult]:
        """Call the candidate; one that has been stopped stays stopped for the rest of its tests."""
        if self._stopped is not None:
            return self._stopped
        try:
            return (yield from self._candidate.ask(arguments))
        except StoppedError as stop:
            self._stopped = verdict(stop, self._candidate.usage)
            return self._stopped

    def close(self) -> Task[None]:
        """End the candidate's child."""
        yield from self._candidate.close()


def _judgement(status: Any, message: Any) -> CallResult:
    if status == "pass":
        return CallResult("ok")
    if status in _VERDICTS and type(message) is str:
        return CallResult(status, None, message[:100])
    return CallResult("error", None, "test program: malformed verdict")
