"""Demonstrations for the SFT warm start: generated, really executed, and of mixed quality.

The demonstrator writes a program in a random style, often with a mistake; it may run the tests, and after a
failure gives up, patches the failing case, or rewrites. Observations come from running the program. Files to
repair are walked through line by line (``gagar_core.agent.walkthrough``); questions are answered at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gagar_core.agent.actions import (
    Clear,
    Next,
    Replace,
    RunTests,
    TestReport,
    Top,
    Write,
    workspace_of,
)
from gagar_core.agent.codec import Codec
from gagar_core.agent.rollouts import report_of
from gagar_core.agent.walkthrough import walk
from gagar_core.protocols import Sandbox
from gagar_core.tasks.execution import run_tests
from gagar_core.tasks.program_styles import draw_style, write_program
from gagar_core.types import Task

AGAIN_AFTER_OK = 0.2
"""Chance that tests are run once more after they have passed."""


@dataclass(frozen=True)
class Habits:
    """What a demonstrator does with tests."""

    run: float
    """Chance that the tests are run after writing."""
    after_fail: dict[str, float]
    """Chance of each reaction to a failing test."""


USUAL = Habits(0.5, {"give_up": 0.25, "patch": 0.35, "rewrite": 0.40})
PATCHING = Habits(0.85, {"give_up": 0.15, "patch": 0.70, "rewrite": 0.15})
"""For functions of one number, where a special case is easily written."""


@dataclass
class Demonstration:
    """Tokens of one demonstration and which of them the agent wrote."""

    task: Task
    tokens: list[int]
    is_agent: list[bool]


def error_probability(difficulty: float) -> float:
    """Chance that a demonstrated program has a mistake: .25 to .70 with prior difficulty."""
    return min(0.85, 0.25 + 0.45 * difficulty)


def habits(task: Task) -> Habits:
    """The demonstrator's habits on a task."""
    return PATCHING if task.spec[0] == "@guard" else USUAL


class Demonstrator:
    """Writes demonstrations in rounds, so that each round's programs run in one sandbox batch."""

    def __init__(self, codec: Codec, sandbox: Sandbox, rng: np.random.Generator) -> None:
        self._codec = codec
        self._sandbox = sandbox
        self._rng = rng

    def demonstrations(self, tasks: Sequence[Task], count: int, longest: int) -> list[Demonstration]:
        """``count`` demonstrations over tasks drawn with replacement, cut after ``longest`` tokens."""
        chosen = [tasks[int(i)] for i in self._rng.integers(len(tasks), size=count)]
        drafts = [Draft(task, self._codec) for task in chosen]
        for draft in drafts:
            self._write(draft)
        running = [d for d in drafts if self._rng.random() < habits(d.task).run and d.task.kind == "code"]
        for _ in range(3):
            reports = self._run(running)
            running = [d for d, report in zip(running, reports, strict=True) if self._react(d, report)]
        return [draft.finish(longest) for draft in drafts]

    def _write(self, draft: Draft) -> None:
        task, rng = draft.task, self._rng
        wrong = bool(rng.random() < error_probability(task.difficulty))
        if task.kind == "answer":
            (case,) = task.reward
            draft.line(str(case.expected + (int(rng.choice([-2, -1, 1, 2])) if wrong else 0)))
        elif task.files:
            walk(draft, wrong, rng)
        else:
            for line in write_program(task.spec, draw_style(rng), wrong, rng):
                draft.line(line)

    def _run(self, drafts: list[Draft]) -> list[TestReport]:
        results = run_tests(
            self._sandbox, [(draft.workspace.files, draft.task) for draft in drafts], "public"
        )
        reports = [report_of(d.task, r) for d, r in zip(drafts, results, strict=True)]
        for draft, report in zip(drafts, reports, strict=True):
            draft.observe(report)
        return reports

    def _react(self, draft: Draft, report: TestReport) -> bool:
        """Continue after a report; return whether the tests are run again."""
        if report.ok:
            return bool(self._rng.random() < AGAIN_AFTER_OK)
        shares = habits(draft.task).after_fail
        reaction = str(self._rng.choice(list(shares), p=list(shares.values())))
        if reaction == "give_up":
            return False
        if reaction == "patch" and draft.can_patch(report):
            draft.patch(report)
        elif draft.task.files:
            walk(draft, bool(self._rng.random() < error_probability(draft.task.difficulty)), self._rng)
        else:
            draft.clear()
            self._write(draft)
        return bool(self._rng.random() < habits(draft.task).run)


class Draft:
    """A demonstration being written: the workspace and its tokens side by side."""

    def __init__(self, task: Task, codec: Codec) -> None:
        self.task = task
        self.workspace = workspace_of(task)
        self._codec = codec
        self._tokens: list[int] = []
        self._is_agent: list[bool] = []
        if self.workspace.lines:
            self._say(codec.encode_view(self.workspace.view), agent=False)

    def line(self, text: str) -> None:
        """Write a line."""
        self.workspace.apply(Write(text))
        self._say([*self._codec.encode(text), self._codec.newline])

    def next(self) -> None:
        """Look at the next line."""
        self.workspace.apply(Next())
        self._say([self._codec.next])
        self._say(self._codec.encode_view(self.workspace.view), agent=False)

    def replace(self, text: str) -> None:
        """Put a line in the place of the one looked at."""
        self.workspace.apply(Replace())
        self._say([self._codec.replace])
        self.line(text)

    def observe(self, report: TestReport) -> None:
        """Run the tests and be told this."""
        self.workspace.apply(RunTests())
        self.workspace.observe(report)
        self._say([self._codec.run])
        self._say(self._codec.encode_report(report), agent=False)

    def clear(self) -> None:
        """Throw everything away."""
        self.workspace.apply(Clear())
        self._say([self._codec.clear])

    def can_patch(self, report: TestReport) -> bool:
        """Whether the failing case can be written down in known tokens, below the first line."""
        return not self.task.files and report.case is not None and -20 <= report.case.expected <= 60

    def patch(self, report: TestReport) -> None:
        """Special-case the failing input at the top of the function."""
        assert report.case is not None
        self.workspace.apply(Top())
        self._say([self._codec.top])
        names = {"@list": ("xs",), "@scalar2": ("a", "b")}.get(self.task.spec[0], ("n",))
        tests = [f"{name} == {value}" for name, value in zip(names, report.case.args, strict=True)]
        self.line(f"    if {' and '.join(tests)}:")
        self.line(f"        return {report.case.expected}")

    def finish(self, longest: int) -> Demonstration:
        """Submit."""
        self._say([self._codec.submit])
        return Demonstration(self.task, self._tokens[:longest], self._is_agent[:longest])

    def _say(self, tokens: list[int], agent: bool = True) -> None:
        self._tokens += tokens
        self._is_agent += [agent] * len(tokens)
