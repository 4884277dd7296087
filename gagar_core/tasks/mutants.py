"""Programs that ought to fail: what tests must tell apart from the reference."""

from __future__ import annotations

import ast
import copy
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gagar_core.syntax import parse
from gagar_core.types import Case

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
_CALLS = {
    "max": "min",
    "min": "max",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "sum": "max",
    "abs": "int",
}


def mutants(source: str, most: int) -> list[str]:
    """At most ``most`` programs that differ from ``source`` at one place, the places evenly spread over it.

    Comparisons, operators, small integers, conditions and a few builtins are changed (the usual operators of
    mutation testing). Some may mean the same as the original. Empty if the source does not
    parse, or is nested too deeply to be written out again.
    """
    try:
        return _mutants(source, most)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _mutants(source: str, most: int) -> list[str]:
    tree = parse(source)
    places = [position for position, node in enumerate(ast.walk(tree)) if _changeable(node)]
    if len(places) > most:
        places = [places[i * len(places) // most] for i in range(most)]
    original = ast.unparse(tree)
    texts = dict.fromkeys(_changed_at(tree, position) for position in places)
    return [text for text in texts if text != original]


def _changed_at(tree: ast.Module, position: int) -> str:
    copied = copy.deepcopy(tree)
    _change(next(itertools.islice(ast.walk(copied), position, None)))
    return ast.unparse(copied)


def _changeable(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _COMPARISONS
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return type(node.op) in _OPERATORS
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Name):
        return node.id in _CALLS and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.If | ast.IfExp)


def _change(node: ast.AST) -> None:
    if isinstance(node, ast.Compare):
        node.ops[0] = _COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = _OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Constant):
        node.value += 1  # type: ignore[operator]
    elif isinstance(node, ast.Name):
        node.id = _CALLS[node.id]
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)


def stubs(entry_point: str, cases: Sequence[Case]) -> dict[str, str]:
    """Programs that do not try, by what they do: raise, return nothing, a constant, or their argument.

    The constant is the value that the most of ``cases`` expect.
    """
    bodies = {
        "raises an error": "raise ValueError",
        "returns nothing": "return None",
        "returns its first argument": "return args[0] if args else None",
    }
    values = Counter(text for case in cases if (text := _literal(case.expected)))
    if values:
        ((common, _),) = values.most_common(1)
        bodies[f"always returns {common:.40}"] = f"return {common}"
    return {name: f"def {entry_point}(*args):\n    {body}\n" for name, body in bodies.items()}


def _literal(value: Any) -> str:
    """The value as Python writes it; "" for integers too long to be written."""
    try:
        return repr(value)
    except ValueError:
        return ""
