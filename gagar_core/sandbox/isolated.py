"""One program in a child of its own, asked in lockstep."""

from __future__ import annotations

import secrets
import signal
from typing import Any

from gagar_core.sandbox.channel import Channel, StoppedError
from gagar_core.sandbox.jobs import result_of
from gagar_core.sandbox.scheduling import Task
from gagar_core.sandbox.settings import SandboxSettings
from gagar_core.sandbox.zygotes import Zygote
from gagar_core.types import CallResult, Program


class Isolated:
    """One program in a child of its own, asked in lockstep."""

    def __init__(
        self,
        zygote: Zygote,
        program: Program,
        mode: str,
        settings: SandboxSettings,
        preamble: list[Any] | None = None,
        archive: int | None = None,
    ) -> None:
        self.zygote, self.program, self.mode = zygote, program, mode
        self._preamble = [program.source, program.entry_point] if preamble is None else preamble
        self._archive = archive
        self._settings = settings
        self._channel: Channel | None = None
        self.usage: dict[str, Any] = {}

    @property
    def alive(self) -> bool:
        """Whether there is a child to ask."""
        return self.zygote.owns(self._channel)

    def ask(self, given: Any) -> Task[CallResult]:
        """Run one call; raises ``StoppedError`` after which the child is gone, or ``ZygoteLostError``."""
        try:
            if not self.alive:
                yield from self._begin()
            assert self._channel is not None
            if not self._channel.is_quiet():
                raise StoppedError("violation", "wrote before it was asked")
            self._channel.thaw()
            token = secrets.token_hex(8)
            yield from self._channel.send([token, given])
            reply = yield from self._channel.receive(self._settings.call_cpu_s(), self._settings.wall_s)
            if type(reply) is not list or len(reply) != 2 or reply[0] != token:
                raise StoppedError("violation", "wrong token")
        except StoppedError:
            yield from self.close()
            raise
        return result_of(reply[1])

    def _begin(self) -> Task[None]:
        self.zygote.ensure()
        self._channel = yield from self.zygote.spawn(self.mode, self._archive)
        yield from self._channel.send(self._preamble)
        yield from self.zygote.greet(self._channel)

    def rest(self) -> Task[None]:
        """Keep the child stopped until it is asked again; end one that left threads or processes behind."""
        if self.alive and self._channel is not None and not self._channel.freeze():
            yield from self.close()

    def close(self) -> Task[None]:
        """End the child."""
        channel, self._channel = self._channel, None
        if channel is not None and self.zygote.owns(channel):
            self.usage = yield from self.zygote.end(channel)


def verdict(stop: StoppedError, usage: dict[str, Any]) -> CallResult:
    """What a program gets that stopped its child."""
    if stop.reason == "violation":
        return CallResult("violation", None, stop.detail)
    if stop.reason == "files":
        return CallResult("output", None, "wrote too many files")
    if stop.reason in ("cpu", "wall"):
        return CallResult("timeout", None, "no answer within the time limit")
    status = usage.get("status", 0)
    if status & 0x7F == signal.SIGXCPU:
        return CallResult("timeout", None, "no answer within the time limit")
    return CallResult("error", None, "process ended")
