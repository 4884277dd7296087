"""Proof by allow-list that a program can do nothing but compute, so that many may share one process.

The proof reads the syntax tree: no import, attribute, exception handling, class or double underscore, and of
the builtins only those that neither open nor inspect anything. Such a program cannot name an object that
leads out of its own values. It still runs behind the wall like any other.
"""

from __future__ import annotations

import ast
import builtins

from gagar_core.syntax import parse

BUILTINS = frozenset(
    (
        *("abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "int"),
        *("isinstance", "len", "list", "map", "max", "min", "pow", "range", "repr", "reversed", "round"),
        *("set", "sorted", "str", "sum", "tuple", "zip"),
    )
)
"""All that a closed program finds as builtins."""
MAX_SOURCE = 8000
"""Characters; longer programs are not worth the trusted process's time."""
_FORBIDDEN_NAMES = frozenset(dir(builtins)) - BUILTINS
_PLAIN = (
    *(ast.Module, ast.arguments, ast.Return, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Pass),
    *(
        ast.Break,
        ast.Continue,
        ast.Expr,
        ast.BoolOp,
        ast.BinOp,
        ast.UnaryOp,
        ast.IfExp,
        ast.Compare,
        ast.Lambda,
    ),
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Subscript, ast.Slice, ast.Starred),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.Load, ast.Store, ast.And, ast.Or, ast.Not, ast.Invert, ast.UAdd, ast.USub),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift),
    *(ast.BitOr, ast.BitXor, ast.BitAnd, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    *(ast.Is, ast.IsNot, ast.In, ast.NotIn),
)
_ALLOWED = frozenset(_PLAIN)
_ITERATORS = frozenset(("map", "filter", "zip", "reversed", "enumerate"))
_CONSUMERS = _ITERATORS | {
    *("all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple")
}
_CONSTANTS = frozenset((int, float, str, bool, type(None)))


def is_closed(source: str) -> bool:
    """Whether the allow-list proves ``source`` harmless. Never raises; doubt is False."""
    if len(source) > MAX_SOURCE or not source.isascii() or "\0" in source:
        return False
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = list(ast.walk(tree))
    return all(_harmless(node) for node in nodes) and not _may_show_addresses(nodes)


def syntax_fault(source: str) -> str:
    """Name of the exception that loading ``source`` would raise because it does not parse, or ""."""
    if len(source) > MAX_SOURCE or "\0" in source:
        return ""
    try:
        parse(source)
    except SyntaxError as err:
        return type(err).__name__
    except (ValueError, RecursionError, MemoryError):
        return ""
    return ""


def _harmless(node: ast.AST) -> bool:
    kind = type(node)
    if kind in _ALLOWED:
        return True
    if isinstance(node, ast.Name):
        return _plain_name(node.id)
    if isinstance(node, ast.Constant):
        return type(node.value) in _CONSTANTS
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name | ast.Lambda | ast.Call | ast.Subscript)
    if isinstance(node, ast.keyword):
        return node.arg is not None and _plain_name(node.arg)
    if isinstance(node, ast.arg):
        return node.annotation is None and _plain_name(node.arg)
    if isinstance(node, ast.FunctionDef):
        return not node.decorator_list and node.returns is None and _plain_name(node.name)
    return isinstance(node, ast.comprehension) and not node.is_async


def _may_show_addresses(nodes: list[ast.AST]) -> bool:
    """Whether text of a function or an iterator (``repr(lambda: 0)``), which differs per run, could be made.

    True if the program makes text of values at all, and a function or iterator goes anywhere but straight to
    what calls or consumes it. Sets of functions, whose order differs per run too, count as well.
    """
    if not any(_makes_text(node) for node in nodes):
        return False
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)} | defined
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bool(bound & BUILTINS) or any(
        _is_opaque(child, defined) and not _is_used_up(node, child)
        for node in nodes
        for child in ast.iter_child_nodes(node)
    )


def _makes_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and "%" in node.value
    if isinstance(node, ast.Name):
        return node.id in ("str", "repr", "set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


def _is_opaque(node: ast.AST, defined: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in defined
    makes_iterator = isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ITERATORS
    return makes_iterator or isinstance(node, ast.Lambda | ast.GeneratorExp)


def _is_used_up(parent: ast.AST, child: ast.AST) -> bool:
    """Whether ``parent`` calls the function, or walks the iterator, ``child``."""
    if isinstance(parent, ast.For | ast.comprehension):
        return child is parent.iter
    if isinstance(parent, ast.keyword):
        return parent.arg == "key"
    if not isinstance(parent, ast.Call):
        return isinstance(parent, ast.Starred)
    if child is parent.func:
        return True
    name = getattr(parent.func, "id", "")
    if isinstance(child, ast.Lambda | ast.Name):
        return name in ("map", "filter") and child is parent.args[0]
    return name in _CONSUMERS


def _plain_name(name: str) -> bool:
    return "__" not in name and name not in _FORBIDDEN_NAMES
