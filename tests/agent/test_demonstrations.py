"""Programs in every style are right when they should be, and demonstrations say what really happened."""

from __future__ import annotations

import numpy as np
import pytest

from gagar_core.agent.codec import Codec
from gagar_core.agent.demonstrations import Demonstrator, error_probability
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import stream
from gagar_core.tasks.checks import verdict
from gagar_core.tasks.program_styles import STYLES, write_program
from gagar_core.tasks.suite import Suite
from gagar_core.types import Program

CODEC = Codec()


@pytest.mark.parametrize("style", STYLES)
def test_right_programs_pass_every_audit_test(style: str, suite: Suite, sandbox: ProcessSandbox) -> None:
    rng = np.random.default_rng(0)
    tasks = [*suite.train, *suite.held_out]
    sources = ["\n".join(write_program(task.spec, style, False, rng)) + "\n" for task in tasks]
    requests = [
        (Program(s, "f"), [c.args for c in task.audit]) for s, task in zip(sources, tasks, strict=True)
    ]
    verdicts = [verdict(t.audit, r) for t, r in zip(tasks, sandbox.calls_batch(requests), strict=True)]
    assert [(t.id, v) for t, v in zip(tasks, verdicts, strict=True) if v != "pass"] == []
    assert all(CODEC.decode(CODEC.encode(source)) == source for source in sources)


def test_most_mistakes_are_caught_by_audit_tests(suite: Suite, sandbox: ProcessSandbox) -> None:
    rng = np.random.default_rng(1)
    tasks = list(suite.train)
    requests = [
        (Program("\n".join(write_program(t.spec, "terse", True, rng)), "f"), [c.args for c in t.audit])
        for t in tasks
    ]
    wrong = [verdict(t.audit, r) != "pass" for t, r in zip(tasks, sandbox.calls_batch(requests), strict=True)]
    assert np.mean(wrong) > 0.85


def test_error_probability_by_hand() -> None:
    assert error_probability(0.0) == 0.25
    assert error_probability(1.0) == pytest.approx(0.7)


def test_demonstrations_are_executed_and_reproducible(suite: Suite, sandbox: ProcessSandbox) -> None:
    def draw(seed: int) -> list[tuple[list[int], list[bool]]]:
        demos = Demonstrator(CODEC, sandbox, stream(seed, "d")).demonstrations(suite.sft, 150, 500)
        return [(demo.tokens, demo.is_agent) for demo in demos]

    demos = draw(0)
    assert demos == draw(0)
    assert demos != draw(1)
    ok, run = CODEC.ids["<ok>"], CODEC.run
    texts = [CODEC.decode(tokens) for tokens, _ in demos]
    assert all(text.endswith("<submit>") for text in texts)
    assert any("<ok>" in text for text in texts)
    assert any("<fail>" in text for text in texts)
    assert any("<top>" in text for text in texts)
    for tokens, agent in demos:
        for i, token in enumerate(tokens):
            observed = CODEC.size > token and not agent[i]
            assert observed == (not agent[i])
            if token == ok:
                assert not agent[i]
                assert tokens[i - 1] == run
                assert agent[i - 1]


def test_demonstrations_fit_the_token_budget(suite: Suite, sandbox: ProcessSandbox) -> None:
    demos = Demonstrator(CODEC, sandbox, stream(0, "d")).demonstrations(suite.sft, 60, 40)
    lengths = [len(demo.tokens) for demo in demos]
    assert max(lengths) == 40
    assert lengths == [len(demo.is_agent) for demo in demos]
