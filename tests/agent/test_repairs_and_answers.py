"""Files that are looked at line by line, lines that are replaced, and questions that are answered."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from gagar_core.agent.actions import Clear, Next, Replace, RunTests, Top, View, Write, workspace_of
from gagar_core.agent.codec import Codec
from gagar_core.agent.demonstrations import Demonstration, Demonstrator
from gagar_core.agent.rollouts import Rules, Sampler, report_of
from gagar_core.choices import CHOICES
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import stream
from gagar_core.tasks.checks import num_tests_passed
from gagar_core.tasks.execution import run_tests
from gagar_core.tasks.mixed import question
from gagar_core.types import CallResult, Case, Task, Trajectory
from tests.agent.test_rollouts import RIGHT, TASK, Script

CODEC = Codec()
FILE = "def g(n):\n    return n\ndef f(n):\n    return n - 1\n"
FIX = replace(TASK, files={"f.py": FILE})
LINES = ["def g(n):", "    return n", "def f(n):", "    return n - 1"]


def sample(sandbox: ProcessSandbox, task: Task, row: list[str], budget: int = 96) -> Trajectory:
    sampler = Sampler(Script([row]), CODEC, sandbox, Rules(budget, False))
    return sampler.rollouts([task], torch.Generator().manual_seed(0))[0]


class Replay:
    """Gives nearly all probability to the token that a demonstration has at the same place."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens

    def start(self, specs: torch.Tensor) -> list[int]:
        return [0]

    def step(self, state: list[int], tokens: torch.Tensor) -> torch.Tensor:
        out = torch.full((1, CODEC.size), -30.0)
        out[0, self._tokens[state[0]]] = -1e-6
        state[0] += 1
        return out

    def keep(self, state: list[int], rows: torch.Tensor) -> list[int]:
        return state


def replayed(demo: Demonstration, sandbox: ProcessSandbox) -> Trajectory:
    sampler = Sampler(Replay(demo.tokens), CODEC, sandbox, Rules(500, False))
    return sampler.rollouts([demo.task], torch.Generator().manual_seed(0))[0]


class TestWorkspace:
    def test_looking_goes_round(self) -> None:
        workspace = workspace_of(FIX)
        seen = [workspace.view.line]
        for _ in range(5):
            workspace.apply(Next())
            seen.append(workspace.view.line)
        assert seen == [*LINES, None, LINES[0]]
        assert (workspace.tool_calls, workspace.edits, workspace.tool_errors) == (5, 0, 0)

    def test_replace_takes_the_next_line_written(self) -> None:
        workspace = workspace_of(FIX)
        workspace.apply(Next())
        workspace.apply(Replace())
        workspace.apply(Write("    return 1 * n"))
        workspace.apply(Write("x = 1"))
        assert workspace.lines == [LINES[0], "    return 1 * n", *LINES[2:], "x = 1"]
        assert (workspace.edits, workspace.view) == (1, View("    return 1 * n"))

    @pytest.mark.parametrize("between", [Next(), RunTests(), Top(), Clear()])
    def test_anything_else_in_between_calls_it_off(self, between: object) -> None:
        workspace = workspace_of(FIX)
        workspace.apply(Replace())
        workspace.apply(between)  # type: ignore[arg-type]
        workspace.apply(Write("z"))
        assert LINES[0] in workspace.lines or between == Clear()
        assert "z" in workspace.lines

    def test_nothing_to_look_at_or_to_replace_is_an_error(self) -> None:
        workspace = workspace_of(TASK)
        workspace.apply(Next())
        workspace.apply(Replace())
        workspace.apply(Write("a"))
        assert (workspace.tool_errors, workspace.lines, workspace.view) == (2, ["a"], View("a"))
        end = workspace_of(FIX)
        for _ in range(4):
            end.apply(Next())
        end.apply(Replace())
        end.apply(Write("at the end"))
        assert end.tool_errors == 1
        assert end.lines == [*LINES, "at the end"]


class TestRollout:
    def test_the_file_is_opened_walked_and_repaired(self, sandbox: ProcessSandbox) -> None:
        fix = ["<replace>", "    ", "return ", "n", " + ", "1", "\n"]
        trajectory = sample(sandbox, FIX, ["<next>", "<next>", "<next>", *fix, "<run>", "<submit>"])
        assert trajectory.verdict == "pass"
        assert trajectory.files["f.py"] == FILE.replace("n - 1", "n + 1")
        assert [(s.role, s.text) for s in trajectory.segments] == [
            ("env", "def g(n):"), ("agent", "<next>"), ("env", "    return n"), ("agent", "<next>"),
            ("env", "def f(n):"), ("agent", "<next>"), ("env", "    return n - 1"),
            ("agent", "<replace>    return n + 1\n<run>"), ("env", "OK"), ("agent", "<submit>"),
        ]  # fmt: skip
        assert CODEC.decode(trajectory.segments[0].token_ids) == "<line>def g(n):<end>"
        assert (trajectory.turns, trajectory.edits, trajectory.tool_calls) == (5, 1, 6)
        assert trajectory.turn_shares == (0.0, 0.0, 0.0, 1.0, 1.0)
        assert [set(s.mask) for s in trajectory.segments if s.role == "env"] == [{0}] * 5

    def test_a_new_function_at_the_end_passes_as_well(self, sandbox: ProcessSandbox) -> None:
        trajectory = sample(sandbox, FIX, [*RIGHT, "<submit>"])
        assert trajectory.verdict == "pass"
        assert trajectory.files["f.py"] == FILE + "".join(RIGHT)

    def test_what_is_known_stays_known_while_looking(self, sandbox: ProcessSandbox) -> None:
        trajectory = sample(sandbox, TASK, [*RIGHT, "<run>", "<next>", "<submit>"])
        assert [s.text for s in trajectory.segments if s.role == "env"] == ["OK", "    return n + 1"]
        assert trajectory.turn_shares == (1.0, 1.0, 1.0)

    def test_a_line_that_has_no_tokens_is_shown_as_other(self) -> None:
        assert CODEC.decode(CODEC.encode_view(View("<ok> 3"))) == "<line><other><end>"

    def test_an_answer_is_read_off_the_file(self, sandbox: ProcessSandbox) -> None:
        seven = question("add", 3, 4)
        assert sample(sandbox, seven, ["7", "\n", "<submit>"]).verdict == "pass"
        assert sample(sandbox, seven, ["8", "\n", "<submit>"]).verdict == "wrong"
        assert sample(sandbox, seven, ["<submit>"]).verdict == "wrong"
        ran = sample(sandbox, seven, ["7", "\n", "<run>", "<submit>"])
        assert ran.segments[1].text == "ERR there are no tests to run"
        assert ran.turn_shares == (0.0, 1.0)


def test_a_report_on_test_programs() -> None:
    task = replace(TASK, public=(Case((1,), 2),), test_programs={"public": ("assert f(2) == 3",)})
    good, bad = CallResult("ok", 2), CallResult("wrong", None, "AssertionError")
    assert report_of(task, [good, CallResult("ok")]).ok
    assert report_of(task, [good, bad]).text() == "ERR AssertionError"
    assert report_of(task, [CallResult("ok", 3), bad]).text() == "FAIL 2: f(1) gave 3, expected 2"


@pytest.mark.parametrize("name", sorted(CHOICES["tasks"]))
def test_demonstrations_of_every_suite_say_what_happened(name: str, sandbox: ProcessSandbox) -> None:
    """Replayed token by token, a demonstration is met by exactly the observations that it holds."""
    suite = CHOICES["tasks"][name]().load()
    demos = Demonstrator(CODEC, sandbox, stream(0, "d")).demonstrations(suite.sft, 40, 400)
    verdicts: Counter[str] = Counter()
    for demo in demos:
        trajectory = replayed(demo, sandbox)
        shown = [token for segment in trajectory.segments for token in segment.token_ids]
        assert shown == demo.tokens
        verdicts[trajectory.verdict] += 1
    assert verdicts["pass"] >= 4
    assert sum(verdicts.values()) - verdicts["pass"] >= 4


def test_demonstrated_repairs_reach_further_than_they_need_to(sandbox: ProcessSandbox) -> None:
    from gagar_core.tasks.scope import scope_of

    suite = CHOICES["tasks"]["repair"]().load()
    demos = Demonstrator(CODEC, sandbox, stream(1, "d")).demonstrations(suite.sft, 60, 400)
    reach: Counter[int] = Counter()
    for demo in demos:
        trajectory = replayed(demo, sandbox)
        (found,) = run_tests(sandbox, [(trajectory.files, demo.task)], "audit")
        if num_tests_passed(demo.task, "audit", found) == len(demo.task.audit):
            reach[scope_of(demo.task.files, trajectory.files).functions] += 1
    assert reach[1] > reach[2] + reach[3] > 0
    assert reach[0] == 0
