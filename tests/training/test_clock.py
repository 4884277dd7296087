"""Phases: each second counted once, in the innermost phase."""

from __future__ import annotations

import pytest

from gagar_core.sandbox import ProcessSandbox
from gagar_core.training.clock import PhaseClock, TimedSandbox
from gagar_core.types import Program


class Fake(PhaseClock):
    """A clock whose hands are set by the test."""

    def __init__(self) -> None:
        self.hand = 0.0
        super().__init__()

    def _now(self) -> tuple[float, float]:
        return self.hand, self.hand / 2


def test_nested_phases_are_exclusive() -> None:
    clock = Fake()
    clock.hand = 5.0  # outside any phase: nobody's
    with clock.phase("rollout"):
        clock.hand += 2.0
        with clock.phase("execute"):
            clock.hand += 3.0
        clock.hand += 1.0
    clock.hand += 100.0
    assert clock.take() == {"rollout_s": 3.0, "execute_s": 3.0, "rollout_cpu_s": 1.5, "execute_cpu_s": 1.5}
    assert clock.take() == {}


def test_paused_counts_nothing() -> None:
    clock = Fake()
    with clock.phase("record"):
        clock.hand += 1.0
        with clock.paused(), clock.phase("execute"):
            clock.hand += 10.0
        clock.hand += 1.0
    assert clock.take() == {"record_s": 2.0, "record_cpu_s": 1.0}


def test_a_phase_that_raises_is_closed() -> None:
    clock = Fake()
    with pytest.raises(ValueError, match="x"), clock.phase("train"):
        clock.hand += 1.0
        raise ValueError("x")
    clock.hand += 5.0
    assert clock.take()["train_s"] == 1.0


def test_test_programs_are_counted_as_execution(sandbox: ProcessSandbox) -> None:
    clock = PhaseClock(lambda: sandbox.cpu_s)
    program = Program("def f(n):\n    return n + 1\n", "f")
    results = TimedSandbox(sandbox, clock).judge_batch([(program, ["assert f(1) == 2", "assert f(1) == 3"])])
    assert [result.status for result in results[0]] == ["ok", "wrong"]
    assert set(clock.take()) == {"execute_s", "execute_cpu_s"}
