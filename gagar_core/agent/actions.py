"""What an agent can do to its one file, as text; every policy, tiny or large, speaks in these actions."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from gagar_core.syntax import parse
from gagar_core.tasks.checks import spelled
from gagar_core.types import MAIN_FILE, Case, Task


@dataclass(frozen=True, slots=True)
class Write:
    """Insert one line at the cursor."""

    line: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove every line."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the last line."""


@dataclass(frozen=True, slots=True)
class Top:
    """Move the cursor below the first line, so that the next lines run before the rest."""


@dataclass(frozen=True, slots=True)
class Next:
    """Look at the next line; after the last one the end is shown, and then the first line again."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Let the next line that is written take the place of the line looked at."""


@dataclass(frozen=True, slots=True)
class RunTests:
    """Run the public tests and be told the first failing one."""


@dataclass(frozen=True, slots=True)
class Submit:
    """End the trajectory with the file as it is."""


Action = Write | Clear | Delete | Top | Next | Replace | RunTests | Submit


@dataclass(frozen=True, slots=True)
class TestReport:
    """What a run of the public tests tells the agent: the first failing case, nothing about the others."""

    __test__ = False  # not a pytest class

    failed: int
    case: Case | None = None
    got: Any = None
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether every public test passes."""
        return self.failed == 0

    def text(self) -> str:
        """The report as a text agent reads it."""
        if self.ok:
            return "OK"
        if self.error or self.case is None:
            return f"ERR {self.error}"
        arguments = ", ".join(map(spelled, self.case.args))
        told = f"f({arguments}) gave {spelled(self.got)}, expected {spelled(self.case.expected)}"
        return f"FAIL {self.failed}: {told}"


@dataclass(frozen=True, slots=True)
class View:
    """What looking at a line tells the agent; None = the end of the file."""

    line: str | None

    def text(self) -> str:
        """The view as a text agent reads it."""
        return "(end of file)" if self.line is None else self.line


@dataclass
class Workspace:
    """One file under edit, with the counts that a trajectory reports."""

    lines: list[str] = field(default_factory=list)
    cursor: int | None = None
    """Where the next line goes; None = at the end."""
    looking_at: int = 0
    """Line that the agent looks at; the number of lines = the end."""
    replacing: bool = False
    """Whether the next line takes the place of the one looked at."""
    edits: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    test_runs: int = 0
    redundant_test_runs: int = 0
    _ok_since_change: bool = False

    def apply(self, action: Action) -> None:
        """Carry out an action; the caller runs tests and ends trajectories."""
        match action:
            case Write(line):
                self._write(line)
            case Clear():
                self._edit(bool(self.lines))
                self.lines.clear()
            case Delete():
                self._edit(bool(self.lines))
                del self.lines[-1:]
            case Top():
                self._edit(bool(self.lines))
                self.cursor = min(1, len(self.lines))
            case Next():
                self.tool_calls += 1
                self.tool_errors += not self.lines
                self.looking_at = 0 if self.looking_at >= len(self.lines) else self.looking_at + 1
                self.cursor, self.replacing = None, False
            case Replace():
                self._edit(self.looking_at < len(self.lines))
                self.replacing = self.looking_at < len(self.lines)
            case RunTests():
                self.tool_calls += 1
                self.test_runs += 1
                self.redundant_test_runs += self._ok_since_change
                self.cursor, self.replacing = None, False
            case Submit():
                self.tool_calls += 1

    def observe(self, report: TestReport) -> None:
        """Remember whether the file is known to pass."""
        self._ok_since_change = report.ok

    @property
    def view(self) -> View:
        """What is to be seen where the agent looks."""
        return View(self.lines[self.looking_at] if self.looking_at < len(self.lines) else None)

    def _write(self, line: str) -> None:
        self._ok_since_change = False
        if self.replacing:
            self.lines[self.looking_at] = line
            self.replacing = False
        elif self.cursor is None:
            self.lines.append(line)
        else:
            self.lines.insert(self.cursor, line)
            self.cursor += 1

    def _edit(self, possible: bool) -> None:
        self._ok_since_change = False
        self.cursor, self.replacing = None, False
        self.edits += 1
        self.tool_calls += 1
        self.tool_errors += not possible

    @property
    def source(self) -> str:
        """The file's text."""
        return "\n".join(self.lines) + "\n" if self.lines else ""

    @property
    def files(self) -> dict[str, str]:
        """The workspace as a trajectory reports it."""
        return {MAIN_FILE: self.source}


def workspace_of(task: Task) -> Workspace:
    """The workspace in which a task begins."""
    return Workspace(lines=task.files.get(MAIN_FILE, "").splitlines())


def syntax_nodes(source: str) -> int:
    """Number of syntax-tree nodes of a program, without contexts and operators' singletons; 0 if invalid."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return 0
    return sum(isinstance(node, ast.stmt | ast.expr | ast.comprehension | ast.arg) for node in ast.walk(tree))
