"""Assert-style tests as data: ``assert f(1, [2]) == 3`` becomes a case, anything else stays a program."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from gagar_core.sandbox import wire
from gagar_core.syntax import parse
from gagar_core.tasks.checks import atol_for
from gagar_core.types import Case

_LITERAL_FAULTS = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, wire.TooDeepError)
_SETUP = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def split_program(source: str, names: Sequence[str]) -> tuple[list[Case], list[str]]:
    """Cases of a test program, and one test program per assertion that is none.

    ``names`` are those under which the program may call the candidate. The body of ``check`` counts where
    there is one. A table of literal ``inputs`` and ``results`` gives one case per entry. If anything else
    stands beside assertions (loops, set-up values), the whole program stays one test. Raises ``SyntaxError``.
    """
    tree = parse(source)
    check = next((s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "check"), None)
    body = tree.body if check is None else check.body
    table = _table(body) or _table(tree.body)
    if table:
        return table, []
    outside = [s for s in tree.body if check is not None and s is not check]
    setup = [s for s in (*outside, *body) if not isinstance(s, ast.Assert) and not _says_nothing(s)]
    known = check is None or (len(check.args.args) == 1 and check.args.args[0].arg in names)
    if not known or not all(isinstance(s, _SETUP) for s in setup):
        return [], [source]
    head = "".join(ast.unparse(s) + "\n" for s in setup)
    cases, programs = [], []
    for statement in body:
        if isinstance(statement, ast.Assert) and not _says_nothing(statement):
            case = case_of(statement, names)
            if case is None:
                programs.append(head + ast.unparse(statement))
            else:
                cases.append(case)
    return cases, programs


def case_of(statement: ast.Assert, names: Sequence[str]) -> Case | None:
    """The case that an assertion states, or None.

    Understood is ``==`` (or ``is`` with True, False and None) between a call of a function in ``names`` with
    literal arguments and a literal, either way round.
    """
    test = statement.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    call, expected = test.left, test.comparators[0]
    if not isinstance(call, ast.Call):
        call, expected = expected, call
    identity = isinstance(test.ops[0], ast.Is) and isinstance(expected, ast.Constant)
    if not (isinstance(test.ops[0], ast.Eq) or (identity and expected.value in (True, False, None))):  # type: ignore[attr-defined]
        return None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names):
        return None
    if call.keywords:
        return None
    try:
        return _case([ast.literal_eval(argument) for argument in call.args], ast.literal_eval(expected))
    except (*_LITERAL_FAULTS, wire.UnsupportedTypeError):
        return None


def _case(args: Sequence[Any], expected: Any) -> Case:
    wire.encode([*args, expected])  # raises for what no candidate could be sent or return
    return Case(tuple(args), expected, atol_for(expected))


def _table(body: Sequence[ast.stmt]) -> list[Case]:
    """Cases of the lists ``inputs`` and ``results``, as the Plus benchmarks write them; [] without them."""
    found: dict[str, Any] = {}
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in ("inputs", "results"):
                try:
                    found[name] = ast.literal_eval(statement.value)
                except _LITERAL_FAULTS:
                    return []
    inputs, results = found.get("inputs"), found.get("results")
    if not isinstance(inputs, list) or not isinstance(results, list) or len(inputs) != len(results):
        return []
    try:
        return [_case(args, expected) for args, expected in zip(inputs, results, strict=True)]
    except (TypeError, wire.TooDeepError):  # what no candidate could be sent or return
        return []


def _says_nothing(statement: ast.stmt) -> bool:
    """Docstrings, ``pass``, ``METADATA = ...`` and ``assert True``."""
    if isinstance(statement, ast.Assign):
        return all(isinstance(t, ast.Name) and t.id == "METADATA" for t in statement.targets)
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and bool(statement.test.value)
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )
