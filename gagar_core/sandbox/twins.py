"""Must-fail twins: copies of a test file that no honest implementation can pass.

A run in which twins pass was tampered with: the reports were patched, tests are not run, or answers equal
everything. ``twin_of`` breaks every test at once. ``twins_of`` breaks one assertion at a time: an expected
value becomes another one *of the same type*, so that an answer cannot tell the twin by its shape.

Not caught, because no changed value is known to be wrong: answers of a class with its own order (``>``,
``<=``), with its own ``!=`` or its own truth value, and, where an assertion is reached more than once (loops,
helpers, branches), answers that are honest the first time only. Of files with more than ``MAX_TWINS``
assertions, some have no twin of their own and are covered by ``twin_of`` alone.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_TWINS = 40
"""Assertions of one file that get a twin of their own; of more, evenly spread ones do."""
MAX_ELEMENTS = 8
"""Elements of one expected literal that are changed one by one; of more, evenly spread ones are."""
_EQUAL = {
    *("assertEqual", "assertEquals", "assertListEqual", "assertTupleEqual", "assertDictEqual"),
    *("assertSetEqual", "assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual"),
}
_OPPOSITES = {
    "assertIsNone": "assertIsNotNone",
    "assertIs": "assertIsNot",
    "assertNotEqual": "assertEqual",
    "assertNotIn": "assertIn",
    "assertGreater": "assertLessEqual",
    "assertGreaterEqual": "assertLess",
    "assertIsInstance": "assertNotIsInstance",
    "assertRegex": "assertNotRegex",
}
_OPPOSITES |= {
    value: key for key, value in _OPPOSITES.items() if key not in ("assertNotEqual", "assertNotIn")
}
_RAISES = ("raises", "assertRaises", "assertRaisesRegex")
_BRANCHES = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match, ast.IfExp, ast.Lambda),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)


def other(value, far=False):  # type: ignore[no-untyped-def]
    """A value of the same type that is not equal to ``value``; ``far``: nor near it, nor any part of it."""
    kind = type(value)
    if kind is bool:
        return not value
    if kind is int or kind is complex:
        return value + (7919 if far else 1)
    if kind is float:
        return value + abs(value) + (7919 if far else 1) if value - value == 0 else 0.0
    if kind is str or kind is bytes:
        more = "~7919" if far else "x"
        return value + (more if kind is str else more.encode())
    if kind is list or kind is tuple:
        changed = [other(item, far) for item in (value if far else value[-1:])] or [0]
        return kind([*(() if far else value[:-1]), *changed])
    if kind is dict:
        last = list(value)[-1:]
        return {**value, **{key: other(value[key]) for key in last}} if last and not far else {"~7919": 0}
    if kind is set or kind is frozenset:
        return kind([other(item, True) for item in value] if far else [*value, "~7919"])
    return 0 if value is None else [value]


_other: Callable[[Any, bool], Any] = other


@dataclass(frozen=True, slots=True)
class Twin:
    """A test file in which one assertion must fail."""

    source: str
    line: int
    """Where the assertion stands in the original."""
    test: str
    """``test_x`` or ``TestY::test_z`` if it stands in a test; "" for helpers: any test may reach it."""
    is_sure: bool
    """Whether every run of that test reaches it."""


@dataclass(frozen=True, slots=True)
class _Site:
    line: int
    test: str
    is_sure: bool
    change: Callable[[], None]


class _Slot:
    """A place in the tree that holds an expression."""

    def __init__(self, owner: Any, name: str | int) -> None:
        self._owner, self._name = owner, name

    def get(self) -> Any:
        return self._owner[self._name] if isinstance(self._name, int) else getattr(self._owner, self._name)

    def put(self, node: ast.expr) -> None:
        if isinstance(self._name, int):
            self._owner[self._name] = node
        else:
            setattr(self._owner, self._name, node)


def twin_of(source: str) -> str:
    """The test file with every assertion turned into one that must fail.

    ``assert left == right`` becomes ``assert left == [right]``; any other ``assert x`` becomes
    ``assert not (x)``; a test function without assertions gets one that fails at its end.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            _turn(node)
    for node in ast.walk(tree):
        is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
        if is_test and not any(isinstance(inner, ast.Assert) for inner in ast.walk(node)):
            node.body.append(ast.Assert(ast.Constant(False)))  # type: ignore[attr-defined]
    return ast.unparse(ast.fix_missing_locations(tree))


def _turn(node: ast.Assert) -> None:
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        test.comparators[0] = ast.List([test.comparators[0]], ast.Load())
    else:
        node.test = ast.UnaryOp(ast.Not(), test)


@functools.lru_cache(maxsize=256)
def twins_of(source: str) -> tuple[Twin, ...]:
    """One twin per assertion, ``MAX_TWINS`` at most.

    Covers ``assert`` (the parts of ``a and b`` and ``all(...)`` one by one), the ``assertEqual`` family and
    its like, and ``raises``. Where neither side of ``==`` is a literal, each side gets a twin.
    """
    count = len(list(_sites(ast.parse(source), "", is_sure=False)))
    wanted = sorted({k * count // MAX_TWINS for k in range(MAX_TWINS)}) if count > MAX_TWINS else range(count)
    return tuple(_twin(source, k) for k in wanted)


def _twin(source: str, number: int) -> Twin:
    tree = ast.parse(source)
    site = list(_sites(tree, "", is_sure=False))[number]
    site.change()
    _add_other(tree)
    return Twin(ast.unparse(ast.fix_missing_locations(tree)), site.line, site.test, site.is_sure)


def _add_other(tree: ast.Module) -> None:
    """Give the file the function that changes values at run time, below what must stand first."""
    place = 0
    for node in tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        place += 1
    tree.body[place:place] = ast.parse(inspect.getsource(other)).body


def _sites(node: ast.AST, test: str, *, is_sure: bool) -> Iterator[_Site]:
    """All single changes, in the order of the file."""
    changes: Iterator[Callable[[], None]] = iter(())
    if isinstance(node, ast.Assert):
        changes = _expression(_Slot(node, "test"))
    elif isinstance(node, ast.Call):
        changes = _call(node)
    for change in changes:
        yield _Site(getattr(node, "lineno", 0), test, is_sure, change)
    for child in ast.iter_child_nodes(node):
        yield from _sites_below(node, child, test, is_sure)


def _sites_below(node: ast.AST, child: ast.AST, test: str, is_sure: bool) -> Iterator[_Site]:
    outer = isinstance(node, ast.Module) or (isinstance(node, ast.ClassDef) and test.endswith("::"))
    if outer and isinstance(child, ast.ClassDef):
        yield from _sites(child, f"{test}{child.name}::", is_sure=False)
    elif outer and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
        is_test = child.name.startswith("test")
        yield from _sites(child, f"{test}{child.name}" if is_test else "", is_sure=is_test)
    else:
        yield from _sites(child, test, is_sure=is_sure and not isinstance(child, _BRANCHES))


def _expression(slot: _Slot) -> Iterator[Callable[[], None]]:
    """Changes after which a true expression is false."""
    node = slot.get()
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for k in range(len(node.values)):
            yield from _expression(_Slot(node.values, k))
    elif _name_of(node) == "all" and len(node.args) == 1 and hasattr(node.args[0], "elt"):
        yield from _expression(_Slot(node.args[0], "elt"))
    elif isinstance(node, ast.Compare) and all(isinstance(op, ast.Eq | ast.In) for op in node.ops):
        for k, op in enumerate(node.ops):
            left = _Slot(node.comparators, k - 1) if k else _Slot(node, "left")
            yield from _sides(left, _Slot(node.comparators, k), far=isinstance(op, ast.In))
    else:
        yield lambda: slot.put(ast.UnaryOp(ast.Not(), node))


def _sides(left: _Slot, right: _Slot, *, far: bool) -> Iterator[Callable[[], None]]:
    if _is_literal(right.get()):
        yield from _each(right, far)
    elif _is_literal(left.get()) or far:
        yield from _each(left, far)
    else:
        yield lambda: _change(right, far)
        yield lambda: _change(left, far)


def _each(slot: _Slot, far: bool) -> Iterator[Callable[[], None]]:
    """Changes of a literal, one element at a time where it must be equal as a whole."""
    leaves = [slot] if far else list(_leaves(slot))
    for leaf in leaves[:: 1 + (len(leaves) - 1) // MAX_ELEMENTS]:
        yield functools.partial(_change, leaf, far)


def _leaves(slot: _Slot) -> Iterator[_Slot]:
    node = slot.get()
    inner = node.elts if isinstance(node, ast.List | ast.Tuple) else getattr(node, "values", None)
    if not inner:
        yield slot
        return
    for k in range(len(inner)):
        yield from _leaves(_Slot(inner, k))


def _change(slot: _Slot, far: bool) -> None:
    node = slot.get()
    if _name_of(node) == "approx" and node.args:
        _change(_Slot(node.args, 0), True)
    elif _is_literal(node) and _is_literal(changed := _changed(node, far)):
        slot.put(changed)
    else:
        slot.put(ast.Call(ast.Name("other", ast.Load()), [node, ast.Constant(far)], []))


def _changed(literal: ast.expr, far: bool) -> ast.expr:
    return ast.parse(repr(_other(ast.literal_eval(literal), far)), mode="eval").body


def _call(node: ast.Call) -> Iterator[Callable[[], None]]:
    """Changes of one of unittest's assertions, or of an expected exception."""
    name, arguments = _name_of(node), node.args
    if name in _RAISES and arguments:
        unseen = ast.parse("type('Unseen', (Exception,), {})", mode="eval").body
        yield lambda: arguments.__setitem__(0, unseen)
    elif not isinstance(node.func, ast.Attribute) or not arguments:
        return
    elif name == "assertTrue":
        yield from _expression(_Slot(arguments, 0))
    elif name == "assertFalse":
        yield lambda: arguments.__setitem__(0, ast.UnaryOp(ast.Not(), arguments[0]))
    elif (name in _EQUAL or name in ("assertIn", "assertAlmostEqual")) and len(arguments) > 1:
        yield from _sides(_Slot(arguments, 0), _Slot(arguments, 1), far=name not in _EQUAL)
    elif name in _OPPOSITES:
        yield lambda: setattr(node.func, "attr", _OPPOSITES[name])


def _name_of(node: ast.AST) -> str:
    """Name of the function that ``node`` calls, or ""."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_literal(node: ast.AST) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
