"""The workspace: what each action does to the file and to the counts of a trajectory."""

from __future__ import annotations

from gagar_core.agent.actions import (
    Action,
    Clear,
    Delete,
    RunTests,
    Submit,
    TestReport,
    Top,
    Workspace,
    Write,
    syntax_nodes,
)
from gagar_core.types import Case

FAIL = TestReport(1, Case((1,), 2), 3)


def after(*actions: Action | TestReport) -> Workspace:
    workspace = Workspace()
    for action in actions:
        if isinstance(action, TestReport):
            workspace.observe(action)
        else:
            workspace.apply(action)
    return workspace


def test_lines_go_to_the_end_or_below_the_first_line() -> None:
    workspace = after(
        Write("def f(n):"), Write("    return n"), Top(), Write("    if n == 1:"), Write("        return 2")
    )
    assert workspace.source == "def f(n):\n    if n == 1:\n        return 2\n    return n\n"
    workspace.apply(RunTests())
    workspace.apply(Write("    pass"))
    assert workspace.lines[-1] == "    pass"


def test_delete_and_clear() -> None:
    assert after(Write("a"), Write("b"), Delete()).lines == ["a"]
    assert after(Write("a"), Write("b"), Clear()).source == ""


def test_counts() -> None:
    workspace = after(Write("a"), RunTests(), FAIL, Clear(), Write("b"), RunTests(), TestReport(0), Submit())
    assert (workspace.test_runs, workspace.edits, workspace.tool_calls, workspace.tool_errors) == (2, 1, 4, 0)
    assert after(Clear(), Delete(), Top()).tool_errors == 3


def test_a_run_is_redundant_only_after_ok_with_nothing_changed() -> None:
    ok = TestReport(0)
    assert after(Write("a"), RunTests(), ok, RunTests(), ok, RunTests(), ok).redundant_test_runs == 2
    assert after(Write("a"), RunTests(), FAIL, RunTests(), FAIL).redundant_test_runs == 0
    assert after(Write("a"), RunTests(), ok, Write("b"), RunTests(), ok).redundant_test_runs == 0
    assert after(Write("a"), RunTests(), ok, Delete(), RunTests(), ok).redundant_test_runs == 0


def test_syntax_nodes() -> None:
    # FunctionDef, its argument, Return, BinOp, Name, Constant
    assert syntax_nodes("def f(n):\n    return n + 1\n") == 6
    assert syntax_nodes("def f(n:\n") == 0
    assert syntax_nodes("") == 0


def test_a_report_can_tell_of_integers_that_python_does_not_print() -> None:
    """A program may return one: its run of the tests must not end the run of everything."""
    told = TestReport(1, Case((3,), 9), [10**5000]).text()
    assert told == "FAIL 1: f(3) gave a value with an integer too long to print, expected 9"
    assert FAIL.text() == "FAIL 1: f(1) gave 3, expected 2"
