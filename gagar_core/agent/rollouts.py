"""One batched sampler over all rollouts of a step: recurrent state carried, observations forced as tokens.

Every row has its own random numbers, one per position, so what a row samples does not depend on which other
rows are still alive.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from gagar_core.agent.actions import (
    Action,
    Clear,
    Delete,
    Next,
    Replace,
    RunTests,
    Submit,
    TestReport,
    Top,
    View,
    Workspace,
    Write,
    syntax_nodes,
    workspace_of,
)
from gagar_core.agent.codec import Codec
from gagar_core.errors import DivergedError
from gagar_core.protocols import Sandbox
from gagar_core.tasks.checks import num_tests, num_tests_passed, passes, verdict_of
from gagar_core.tasks.execution import run_tests
from gagar_core.types import CallResult, Segment, Task, Trajectory


class TokenModel(Protocol):
    """A policy as the sampler sees it."""

    def start(self, specs: torch.Tensor) -> Any:
        """Recurrent state for (B, SPEC_LENGTH) spec word ids."""
        ...

    def step(self, state: Any, tokens: torch.Tensor) -> torch.Tensor:
        """Feed (B,) tokens; return (B, V) log-probabilities of the next one. Changes ``state``."""
        ...

    def keep(self, state: Any, rows: torch.Tensor) -> Any:
        """State of these rows only."""
        ...


@dataclass(frozen=True)
class Rules:
    """Rules of the environment that a suite sets."""

    token_budget: int
    fail_on_truncation: bool


@dataclass
class _Row:
    """A trajectory being written."""

    task: Task
    workspace: Workspace
    pending: list[int] = field(default_factory=list)
    """Observation tokens still to be forced, last first."""
    line_start: int = 0
    told: dict[int, TestReport | View] = field(default_factory=dict)
    """Position of the first observation token -> what was told."""

    def tell(self, observation: TestReport | View, tokens: list[int], at: int) -> None:
        """Let ``tokens`` follow from position ``at`` on."""
        self.pending = tokens[::-1]
        self.told[at] = observation
        self.line_start = at + len(tokens)


class Sampler:
    """Samples trajectories of an embedded policy."""

    def __init__(self, model: TokenModel, codec: Codec, sandbox: Sandbox, rules: Rules) -> None:
        self._model = model
        self._codec = codec
        self._sandbox = sandbox
        self._rules = rules
        self._control = torch.from_numpy(codec.control)

    @torch.no_grad()
    def rollouts(self, tasks: Sequence[Task], generator: torch.Generator) -> list[Trajectory]:
        """One trajectory per entry of ``tasks``."""
        count, budget = len(tasks), self._rules.token_budget
        rows = [self._row(task) for task in tasks]
        specs = torch.tensor([self._codec.encode_spec(task.spec) for task in tasks])
        uniforms = torch.rand(budget, count, generator=generator)
        tokens = np.full((count, budget), self._codec.pad, dtype=np.int64)
        logprobs = np.full((count, budget), np.nan)
        lengths = np.zeros(count, dtype=np.int64)
        active = np.arange(count)
        state = self._model.start(specs)
        last = torch.full((count,), self._codec.bos)
        for t in range(budget):
            choice, logp = _sample(self._model.step(state, last), uniforms[t, active])
            forced = self._force(rows, active, choice)
            tokens[active, t] = choice.numpy()
            logprobs[active, t] = np.where(forced, np.nan, logp.numpy())
            lengths[active] = t + 1
            acting = active[self._control[choice].numpy() & ~forced]
            done = self._act(rows, acting, tokens, t)
            last = choice
            if done:
                alive = ~np.isin(active, list(done))
                active = active[alive]
                if not active.size:
                    break
                kept = torch.from_numpy(np.flatnonzero(alive))
                state, last = self._model.keep(state, kept), last[kept]
        self._commit_open_lines(rows, active, tokens, lengths)
        return self._finish(rows, tokens, logprobs, lengths, set(active.tolist()))

    def _row(self, task: Task) -> _Row:
        """A trajectory before its first token; starter files are opened at their first line."""
        row = _Row(task, workspace_of(task))
        if row.workspace.lines:
            row.tell(row.workspace.view, self._codec.encode_view(row.workspace.view), 0)
        return row

    def _force(self, rows: list[_Row], active: Any, choice: torch.Tensor) -> Any:
        """Replace sampled tokens by pending observations; return the mask of forced rows."""
        forced = np.zeros(len(active), dtype=bool)
        for position, index in enumerate(active):
            pending = rows[index].pending
            if pending:
                choice[position] = pending.pop()
                forced[position] = True
        return forced

    def _act(self, rows: list[_Row], acting: Any, tokens: Any, t: int) -> set[int]:
        """Let the environment answer; return the rows that submitted."""
        codec, done, testing = self._codec, set(), []
        for index in acting:
            row, token = rows[index], int(tokens[index, t])
            self._commit_line(row, tokens[index, row.line_start : t])
            row.line_start = t + 1
            if token == codec.newline:
                continue
            row.workspace.apply(self._action(token))
            if token == codec.submit:
                done.add(int(index))
            elif token == codec.run:
                testing.append(row)
            elif token == codec.next:
                row.tell(row.workspace.view, codec.encode_view(row.workspace.view), t + 1)
        self._run_tests(testing, t)
        return done

    def _action(self, token: int) -> Action:
        codec = self._codec
        table: dict[int, Action] = {
            codec.run: RunTests(), codec.submit: Submit(), codec.clear: Clear(),
            codec.delete: Delete(), codec.top: Top(), codec.next: Next(), codec.replace: Replace(),
        }  # fmt: skip
        return table[token]

    def _commit_line(self, row: _Row, line: Any) -> None:
        # a sampled observation token stays in the text and makes it invalid: nothing is repaired silently
        text = self._codec.decode(line)
        if text.strip():
            row.workspace.apply(Write(text))

    def _commit_open_lines(self, rows: list[_Row], active: Any, tokens: Any, lengths: Any) -> None:
        for index in active:
            row = rows[index]
            self._commit_line(row, tokens[index, row.line_start : lengths[index]])

    def _run_tests(self, testing: list[_Row], t: int) -> None:
        if not testing:
            return
        attempts = [(row.workspace.files, row.task) for row in testing]
        for row, results in zip(testing, run_tests(self._sandbox, attempts, "public"), strict=True):
            report = report_of(row.task, results)
            row.workspace.observe(report)
            row.tell(report, self._codec.encode_report(report), t + 1)

    def _finish(
        self, rows: list[_Row], tokens: Any, logprobs: Any, lengths: Any, truncated: set[int]
    ) -> list[Trajectory]:
        attempts = [(row.workspace.files, row.task) for row in rows]
        results = run_tests(self._sandbox, attempts, "reward")
        trajectories = []
        for index, (row, outcome) in enumerate(zip(rows, results, strict=True)):
            decided = verdict_of(row.task, "reward", outcome)
            if index in truncated and self._rules.fail_on_truncation and decided == "pass":
                decided = "wrong"
            segments = self._segments(row, tokens[index], logprobs[index], int(lengths[index]))
            stop = "token_budget" if index in truncated else "submit"
            share = num_tests_passed(row.task, "reward", outcome) / num_tests(row.task, "reward")
            shares = _turn_shares(row, segments, share)
            trajectories.append(_trajectory(row, segments, decided, stop, shares))
        return trajectories

    def _segments(self, row: _Row, tokens: Any, logprobs: Any, length: int) -> tuple[Segment, ...]:
        agent = ~np.isnan(logprobs[:length])
        bounds = [0, *(np.flatnonzero(agent[1:] != agent[:-1]) + 1).tolist(), length]
        segments = []
        for first, last in itertools.pairwise(bounds):
            ids = tuple(tokens[first:last].tolist())
            if agent[first]:
                values = tuple(logprobs[first:last].tolist())
                segments.append(Segment("agent", self._codec.decode(ids), ids, values, (1,) * len(ids)))
            else:
                segments.append(Segment("env", row.told[first].text(), ids, (), (0,) * len(ids)))
        return tuple(segments)


def report_of(task: Task, results: Sequence[CallResult]) -> TestReport:
    """What a run of the public tests says: how many fail, and the first of them."""
    if not results:
        return TestReport(1, error="there are no tests to run")
    cases = task.public
    failing = [i for i, case in enumerate(cases) if not passes(case, results[i])]
    asserted = [result for result in results[len(cases) :] if result.status != "ok"]
    failed = len(failing) + len(asserted)
    if not failing:
        return (
            TestReport(failed, error=asserted[0].message or asserted[0].status) if asserted else TestReport(0)
        )
    case, result = cases[failing[0]], results[failing[0]]
    error = "" if result.status == "ok" else (result.message or result.status)
    return TestReport(failed, case, result.value, error)


def _sample(logprobs: torch.Tensor, uniforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse-CDF draw per row: token ids (B,) and their log-probabilities (B,)."""
    cumulative = logprobs.exp().cumsum(1)
    if not bool(torch.isfinite(cumulative[:, -1]).all()):
        msg = "the policy's log-probabilities are not finite"
        raise DivergedError(msg)
    # the last cumulative value is 1 up to rounding: scaling the draw by it keeps every index valid
    choice = torch.searchsorted(cumulative, (uniforms * cumulative[:, -1]).unsqueeze(1), right=True).squeeze(
        1
    )
    choice = choice.clamp_(max=logprobs.shape[1] - 1)
    return choice, logprobs.gather(1, choice.unsqueeze(1)).squeeze(1)


def _turn_shares(row: _Row, segments: tuple[Segment, ...], share_at_end: float) -> tuple[float, ...]:
    """What is known to pass after every agent turn, from test reports; at the end, from the reward tests."""
    tests, known = max(num_tests(row.task, "public"), 1), 0.0
    told = []
    for at in sorted(row.told):
        observation = row.told[at]
        if isinstance(observation, TestReport):
            known = 1.0 - observation.failed / tests
        if at:  # what is shown before the first turn follows no turn
            told.append(known)
    turns = sum(segment.role == "agent" for segment in segments)
    return (*told[: turns - 1], share_at_end)


def _trajectory(
    row: _Row, segments: tuple[Segment, ...], decided: str, stop: str, turn_shares: tuple[float, ...]
) -> Trajectory:
    workspace = row.workspace
    agent = [segment for segment in segments if segment.role == "agent"]
    return Trajectory(
        task_id=row.task.id,
        segments=segments,
        files=workspace.files,
        verdict=decided,
        stop_reason=stop,
        gen_tokens=sum(len(segment.token_ids) for segment in agent),
        obs_tokens=sum(len(segment.token_ids) for segment in segments) - sum(len(s.token_ids) for s in agent),
        turns=len(agent),
        tool_calls=workspace.tool_calls,
        tool_errors=workspace.tool_errors,
        test_runs=workspace.test_runs,
        redundant_test_runs=workspace.redundant_test_runs,
        edits=workspace.edits,
        program_lines=len(workspace.lines),
        program_nodes=syntax_nodes(workspace.source),
        turn_shares=turn_shares,
    )
