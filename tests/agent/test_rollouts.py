"""The batched sampler, driven by a scripted model whose every token is known."""

from __future__ import annotations

import math

import torch

from gagar_core.agent.codec import Codec
from gagar_core.agent.rollouts import Rules, Sampler
from gagar_core.sandbox import ProcessSandbox
from gagar_core.types import Case, Task, Trajectory

CODEC = Codec()
SURE = 1.0 - 1e-6
TASK = Task(
    id="t/inc", kind="code", statement="n plus 1", spec=("@scalar1", "@s_half", "@pad", "@pad", "@pad"),
    entry_point="f", public=(Case((1,), 2), Case((4,), 5)), reward=(Case((1,), 2), Case((4,), 5)),
    label=(), audit=(),
)  # fmt: skip
RIGHT = ["def f(n):", "\n", "    ", "return ", "n", " + ", "1", "\n"]
WRONG = ["def f(n):", "\n", "    ", "return ", "n", " + ", "2", "\n"]


class Script:
    """Gives nearly all probability to the next scripted token of a row; waits while tokens are forced."""

    def __init__(self, rows: list[list[str]]) -> None:
        self.rows = [[CODEC.ids[piece] for piece in row] for row in rows]
        self.seen: list[list[int]] = [[] for _ in rows]

    def start(self, specs: torch.Tensor) -> list[tuple[int, int]]:
        return [(row, 0) for row in range(len(specs))]

    def step(self, state: list[tuple[int, int]], tokens: torch.Tensor) -> torch.Tensor:
        out = torch.full((len(state), CODEC.size), math.log((1.0 - SURE) / (CODEC.size - 1)))
        for i, (row, at) in enumerate(state):
            self.seen[row].append(int(tokens[i]))
            script = self.rows[row]
            if (at and int(tokens[i]) == script[at - 1]) or not at:
                wanted = script[min(at, len(script) - 1)]
                state[i] = (row, at + 1)
            else:  # an observation token was forced: the script waits
                wanted = script[min(at - 1, len(script) - 1)]
            out[i, wanted] = math.log(SURE)
        return out

    def keep(self, state: list[tuple[int, int]], rows: torch.Tensor) -> list[tuple[int, int]]:
        return [state[int(i)] for i in rows]


def sample(
    sandbox: ProcessSandbox, rows: list[list[str]], budget: int = 64, fail: bool = False
) -> list[Trajectory]:
    sampler = Sampler(Script(rows), CODEC, sandbox, Rules(budget, fail))
    return sampler.rollouts([TASK] * len(rows), torch.Generator().manual_seed(0))


def test_write_run_and_submit(sandbox: ProcessSandbox) -> None:
    (trajectory,) = sample(sandbox, [[*RIGHT, "<run>", "<submit>"]])
    assert trajectory.verdict == "pass"
    assert trajectory.stop_reason == "submit"
    assert [segment.role for segment in trajectory.segments] == ["agent", "env", "agent"]
    assert [segment.text for segment in trajectory.segments][1:] == ["OK", "<submit>"]
    assert trajectory.files["f.py"] == "def f(n):\n    return n + 1\n"
    assert (trajectory.gen_tokens, trajectory.obs_tokens, trajectory.turns) == (10, 1, 2)
    assert (trajectory.test_runs, trajectory.redundant_test_runs, trajectory.tool_calls) == (1, 0, 2)


def test_agent_tokens_carry_their_logprob_and_observations_are_masked(sandbox: ProcessSandbox) -> None:
    (trajectory,) = sample(sandbox, [[*WRONG, "<run>", "<submit>"]])
    agent, env, last = trajectory.segments
    assert trajectory.verdict == "wrong"
    assert env.text == "FAIL 2: f(1) gave 3, expected 2"
    assert CODEC.decode(env.token_ids) == "<fail>2<args>1<got>3<expected>2<end>"
    assert env.logprobs == ()
    assert set(env.mask) == {0}
    for segment in (agent, last):
        assert set(segment.mask) == {1}
        assert all(abs(value - math.log(SURE)) < 1e-6 for value in segment.logprobs)


def test_observation_tokens_are_fed_to_the_model(sandbox: ProcessSandbox) -> None:
    script = Script([[*RIGHT, "<run>", "<submit>"]])
    Sampler(script, CODEC, sandbox, Rules(64, False)).rollouts([TASK], torch.Generator().manual_seed(0))
    assert CODEC.decode(script.seen[0]) == "<bos>def f(n):\n    return n + 1\n<run><ok>"


def test_at_the_budget_the_file_is_submitted_or_fails(sandbox: ProcessSandbox) -> None:
    row = [*RIGHT, *RIGHT]  # never submits; the second copy redefines f
    (kept,) = sample(sandbox, [row], budget=8)
    assert (kept.verdict, kept.stop_reason, kept.gen_tokens) == ("pass", "token_budget", 8)
    (failed,) = sample(sandbox, [row], budget=8, fail=True)
    assert (failed.verdict, failed.stop_reason) == ("wrong", "token_budget")


def test_a_line_cut_by_the_budget_counts_as_written(sandbox: ProcessSandbox) -> None:
    (trajectory,) = sample(sandbox, [RIGHT], budget=7)
    assert trajectory.files["f.py"] == "def f(n):\n    return n + 1\n"


def test_a_sampled_observation_token_is_only_text(sandbox: ProcessSandbox) -> None:
    (trajectory,) = sample(sandbox, [["<ok>", "\n", *WRONG, "<submit>"]])
    assert trajectory.verdict == "error"
    assert trajectory.test_runs == 0


def test_rows_of_different_length_do_not_disturb_each_other(sandbox: ProcessSandbox) -> None:
    rows = [["<submit>"], [*RIGHT, "<submit>"], [*WRONG, "<run>", "<clear>", *RIGHT, "<submit>"]]
    done = sample(sandbox, rows)
    assert [t.verdict for t in done] == ["error", "pass", "pass"]
    assert [t.edits for t in done] == [0, 0, 1]
    assert [t.gen_tokens for t in done] == [1, 9, 19]
