"""What can be said of a program by looking at its text; nothing here runs it.

Programs are data: they may hold words meant for whoever judges them. Texts quoted from them are short, on one
line and escaped.
"""

from __future__ import annotations

import ast
import re
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from gagar_core.syntax import parse
from gagar_core.types import MAIN_FILE, Case

LONGEST_PARSED = 100_000
"""Characters from which on a program is not parsed: it is a flood, not a solution."""
_MOST_REMEMBERED = 4000
"""Characters of a program up to which what was counted is remembered: policies repeat their programs."""
_MOST_COMPARED = 500
"""Lines from which on two programs are compared line by line without regard to order."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_ORDINARY = (0, 1, -1, True, False, None)

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlong = 24
_short.maxlevel = 4


def quoted(value: Any) -> str:
    """A value or text as evidence shows it: escaped, on one line, at most about 200 characters."""
    try:
        return _short.repr(value)[:200]
    except ValueError:  # Python refuses to write out very long integers
        return f"a very long {type(value).__name__}"


def tokens_of(source: str) -> list[str]:
    """Words, numbers and signs of a text, in order."""
    return _TOKEN.findall(source)


def read_numbers(source: str) -> dict[str, float]:
    """What a reader sees: tokens, lines, distinct words, the longest line in characters, comment lines."""
    tokens, lines = tokens_of(source), source.splitlines()
    return {
        "tokens": len(tokens),
        "lines": len(lines),
        "words": len({token for token in tokens if token[0].isalpha()}),
        "longest_line": max(map(len, lines), default=0),
        "comments": sum(line.lstrip().startswith("#") for line in lines),
    }


def diff_numbers(first: str, second: str) -> dict[str, float]:
    """Lines in which two programs differ and how alike their tokens are (0 to 1); symmetric."""
    first, second = sorted((first, second))
    return {"changed_lines": changed_lines(first, second), "similarity": _similarity(first, second)}


def changed_lines(before: str, after: str) -> int:
    """Lines that are removed or added."""
    left, right = before.splitlines(), after.splitlines()
    if max(len(left), len(right)) > _MOST_COMPARED:
        return sum(((Counter(left) - Counter(right)) + (Counter(right) - Counter(left))).values())
    kept = sum(b.size for b in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks())
    return len(left) + len(right) - 2 * kept


def _similarity(first: str, second: str) -> float:
    """Sørensen-Dice coefficient of the tokens, counted."""
    left, right = Counter(tokens_of(first)), Counter(tokens_of(second))
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0


def measure_numbers(source: str, starter: Mapping[str, str], cases: Sequence[Case]) -> dict[str, float]:
    """Size and shape of a program.

    ``special_cases`` are branches of the form "if the argument is this literal, give that literal" and
    entries of literal tables; ``hard_coded`` those that give exactly what a public test expects there.
    ``changed_lines`` counts against the starter file. A program that does not parse has only its lines.
    """
    counts, special = _remembered_shape(source) if len(source) <= _MOST_REMEMBERED else _shape(source)
    expected = {(_key(v), _key(case.expected)) for case in cases for v in (*case.args, case.args)}
    before = starter.get(MAIN_FILE, "")
    return {
        **counts,
        "special_cases": len(special),
        "hard_coded": len(set(special) & expected) if special else 0,
        "changed_lines": changed_lines(before, source) if before else counts["lines"],
    }


def _shape(source: str) -> tuple[Mapping[str, float], tuple[tuple[str, str], ...]]:
    """Counts over the syntax tree, and the special cases that it spells out."""
    tree = _tree(source)
    nodes = list(ast.walk(tree)) if tree else []
    counts = {
        "parses": float(tree is not None),
        "lines": len(source.splitlines()),
        "nodes": sum(isinstance(n, ast.stmt | ast.expr | ast.comprehension | ast.arg) for n in nodes),
        "functions": sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) for n in nodes),
        "branches": sum(isinstance(n, ast.If | ast.IfExp) for n in nodes),
        "loops": sum(isinstance(n, ast.For | ast.While | ast.comprehension) for n in nodes),
        "constants": sum(isinstance(n, ast.Constant) and n.value not in _ORDINARY for n in nodes),
    }
    return counts, tuple(pair for node in nodes for pair in _special_cases(node))


_remembered_shape = lru_cache(maxsize=4096)(_shape)


def _tree(source: str) -> ast.Module | None:
    if len(source) > LONGEST_PARSED:
        return None
    try:
        return parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _special_cases(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Pairs (argument, value) of literals that a branch or a table spells out."""
    if isinstance(node, ast.Dict) and len(node.keys) > 1:
        pairs = [(_literal(k), _literal(v)) for k, v in zip(node.keys, node.values, strict=True)]
        if all(k and v for k, v in pairs):
            yield from pairs
        return
    value = ""
    if isinstance(node, ast.If) and isinstance(node.body[0], ast.Return):
        value = _literal(node.body[0].value)
    elif isinstance(node, ast.IfExp):
        value = _literal(node.body)
    if value and isinstance(node, ast.If | ast.IfExp) and (compared := _compared(node.test)):
        yield compared, value


def _compared(test: ast.expr) -> str:
    """The literal that ``name == literal`` names; of ``a == 1 and b == 2`` both as a tuple; "" otherwise."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        parts = [_compared_value(part) for part in test.values]
        return _key(tuple(part[0] for part in parts if part)) if all(parts) else ""
    found = _compared_value(test)
    return _key(found[0]) if found else ""


def _compared_value(test: ast.expr) -> tuple[Any] | None:
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        return None
    sides = (test.left, test.comparators[0])
    literal = next((side for side in sides if _literal(side)), None)
    return (ast.literal_eval(literal),) if literal and any(isinstance(s, ast.Name) for s in sides) else None


def _literal(node: ast.expr | None) -> str:
    """The value of a literal as text, "" for anything else."""
    try:
        return "" if node is None else _key(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ""


def _key(value: Any) -> str:
    """Text that is the same for the same value of the same exact type; "" for integers too long to write."""
    try:
        return repr(value)
    except ValueError:
        return ""
