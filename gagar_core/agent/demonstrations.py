"""Demonstrations for the SFT warm start: generated, really executed, and of mixed quality.

The demonstrator writes a program in a random style, often with a mistake; it may run the tests, and after a
failure gives up, patches the failing case, or rewrites. Observations come from running the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gagar_core.agent.actions import Clear, RunTests, TestReport, Top, Workspace, Write
from gagar_core.agent.codec import Codec
from gagar_core.agent.program_styles import draw_style, write_program
from gagar_core.agent.rollouts import report_of
from gagar_core.protocols import Sandbox
from gagar_core.types import Task

RUN_FIRST = 0.5
"""Share of demonstrations that run the tests after writing."""
AFTER_FAIL = {"give_up": 0.25, "patch": 0.35, "rewrite": 0.40}
AGAIN_AFTER_OK = 0.2


@dataclass
class Demonstration:
    """Tokens of one demonstration and which of them the agent wrote."""

    task: Task
    tokens: list[int]
    is_agent: list[bool]


def error_probability(difficulty: float) -> float:
    """Chance that a demonstrated program has a mistake: .25 to .70 with prior difficulty."""
    return min(0.85, 0.25 + 0.45 * difficulty)


class Demonstrator:
    """Writes demonstrations in rounds, so that each round's programs run in one sandbox batch."""

    def __init__(self, codec: Codec, sandbox: Sandbox, rng: np.random.Generator) -> None:
        self._codec = codec
        self._sandbox = sandbox
        self._rng = rng

    def demonstrations(self, tasks: Sequence[Task], count: int, longest: int) -> list[Demonstration]:
        """``count`` demonstrations over tasks drawn with replacement, cut after ``longest`` tokens."""
        chosen = [tasks[int(i)] for i in self._rng.integers(len(tasks), size=count)]
        drafts = [_Draft(task, self._codec) for task in chosen]
        for draft in drafts:
            self._write(draft)
        running = [draft for draft in drafts if self._rng.random() < RUN_FIRST]
        for _ in range(3):
            reports = self._run(running)
            running = [d for d, report in zip(running, reports, strict=True) if self._react(d, report)]
        return [draft.finish(longest) for draft in drafts]

    def _write(self, draft: _Draft) -> None:
        wrong = bool(self._rng.random() < error_probability(draft.task.difficulty))
        for line in write_program(draft.task.spec, draw_style(self._rng), wrong, self._rng):
            draft.line(line)

    def _run(self, drafts: list[_Draft]) -> list[TestReport]:
        requests = [
            (draft.workspace.program(draft.task.entry_point), [case.args for case in draft.task.public])
            for draft in drafts
        ]
        results = self._sandbox.calls_batch(requests)
        reports = [report_of(d.task.public, r) for d, r in zip(drafts, results, strict=True)]
        for draft, report in zip(drafts, reports, strict=True):
            draft.observe(report)
        return reports

    def _react(self, draft: _Draft, report: TestReport) -> bool:
        """Continue after a report; return whether the tests are run again."""
        if report.ok:
            return bool(self._rng.random() < AGAIN_AFTER_OK)
        reaction = str(self._rng.choice(list(AFTER_FAIL), p=list(AFTER_FAIL.values())))
        if reaction == "give_up":
            return False
        if reaction == "patch" and draft.can_patch(report):
            draft.patch(report)
        else:
            draft.clear()
            self._write(draft)
        return bool(self._rng.random() < RUN_FIRST)


class _Draft:
    """A demonstration being written: the workspace and its tokens side by side."""

    def __init__(self, task: Task, codec: Codec) -> None:
        self.task = task
        self.workspace = Workspace()
        self._codec = codec
        self._tokens: list[int] = []
        self._is_agent: list[bool] = []

    def line(self, text: str) -> None:
        self.workspace.apply(Write(text))
        self._say([*self._codec.encode(text), self._codec.newline])

    def observe(self, report: TestReport) -> None:
        self.workspace.apply(RunTests())
        self.workspace.observe(report)
        self._say([self._codec.run])
        self._say(self._codec.encode_report(report), agent=False)

    def clear(self) -> None:
        self.workspace.apply(Clear())
        self._say([self._codec.clear])

    def can_patch(self, report: TestReport) -> bool:
        """Whether the failing case can be written down in known tokens."""
        return report.case is not None and -20 <= report.case.expected <= 60

    def patch(self, report: TestReport) -> None:
        """Special-case the failing input at the top of the function."""
        assert report.case is not None
        self.workspace.apply(Top())
        self._say([self._codec.top])
        names = (
            ("xs",)
            if self.task.spec[0] == "@list"
            else ("a", "b")
            if self.task.spec[0] == "@scalar2"
            else ("n",)
        )
        tests = [f"{name} == {value}" for name, value in zip(names, report.case.args, strict=True)]
        self.line(f"    if {' and '.join(tests)}:")
        self.line(f"        return {report.case.expected}")

    def finish(self, longest: int) -> Demonstration:
        self._say([self._codec.submit])
        return Demonstration(self.task, self._tokens[:longest], self._is_agent[:longest])

    def _say(self, tokens: list[int], agent: bool = True) -> None:
        self._tokens += tokens
        self._is_agent += [agent] * len(tokens)
