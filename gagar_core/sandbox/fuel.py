"""Deterministic fuel: counted ticks written into a program's syntax tree.

Every loop step, comprehension step and function entry takes one tick; operations whose cost grows with their
operands (big integers, repetition, slices, builtins that walk a whole iterable) take more. When the ticks are
used up, the tick itself raises, so a program cannot go on by catching the exception: the next loop step or
function entry raises again. Same program, same arguments, same verdict, whatever the load of the machine.

This measures; it is no wall. A program that is free to import can do work that no tick sees, which is what
the CPU and wall limits of the broker are for.
"""

from __future__ import annotations

import ast
import operator
from collections import deque
from collections.abc import Callable
from itertools import compress, islice, repeat
from types import CodeType
from typing import Any

TICK = "__fuel_tick__"
_SIZED = (list, tuple, str, set, dict, frozenset, bytes, bytearray)
_SMALL = 1 << 256
_WALKERS = frozenset(
    ("sum", "any", "all", "sorted", "list", "tuple", "set", "frozenset", "dict", "min", "max")
)


class OutOfFuelError(BaseException):
    """An operation costs more ticks than are left."""


class Meter:
    """The ticks of the call in progress, and the guarded operations that draw on them."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.refill(0)

    def refill(self, fuel: int) -> None:
        """Begin a call."""
        self.ticks = repeat(True, fuel)
        self.tick: Callable[[], bool] = self.ticks.__next__

    @property
    def empty(self) -> bool:
        """Whether the ticks are used up."""
        return operator.length_hint(self.ticks) == 0

    def spend(self, ticks: int) -> None:
        """Take ``ticks`` at once, or all that are left and raise."""
        if ticks >= operator.length_hint(self.ticks):
            deque(self.ticks, maxlen=0)
            raise OutOfFuelError
        next(islice(self.ticks, ticks, ticks), None)

    def walked(self, value: Any) -> Any:
        """Charge for a walk over ``value`` by C code: at once if it has a length, else step by step."""
        if type(value) in _SIZED:
            if len(value) > 64:
                self.spend(len(value) >> 3)
            return value
        if type(value) is range:
            self.spend(len(value) >> 3)
            return value
        return compress(value, self.ticks) if hasattr(value, "__next__") else value

    def made(self, value: Any) -> Any:
        """Charge for a value that one operation has just built by copying."""
        if type(value) in _SIZED and len(value) > 64:
            self.spend(len(value) >> 4)
        return value

    def multiply(self, left: Any, right: Any) -> Any:
        """``left * right``; the cost of big integers and repetition is charged before it arises."""
        self._check_product(left, right)
        return left * right

    def multiply_in_place(self, left: Any, right: Any) -> Any:
        """The value of ``left *= right``."""
        self._check_product(left, right)
        left *= right
        return left

    def _check_product(self, left: Any, right: Any) -> None:
        if type(left) is int and type(right) is int:
            if not (-_SMALL < left < _SMALL and -_SMALL < right < _SMALL):
                self.spend((left.bit_length() * right.bit_length() >> 16) + 1)
        elif type(right) is int and type(left) in _SIZED:
            self._check_repetition(left, right)
        elif type(left) is int and type(right) in _SIZED:
            self._check_repetition(right, left)

    def _check_repetition(self, sequence: Any, times: int) -> None:
        length = len(sequence) * times
        if length > 64:
            if length * (1 if isinstance(sequence, str | bytes | bytearray) else 8) > self.memory_bytes:
                raise MemoryError
            self.spend(length >> 6)

    def power(self, base: Any, exponent: Any, *modulus: Any) -> Any:
        """``base ** exponent`` or three-argument ``pow``."""
        if type(base) is int and type(exponent) is int and not modulus:
            bits = base.bit_length() * abs(exponent)
            if bits > 1024 and base not in (-1, 0, 1):
                self.spend((bits >> 8) ** 2 + 1)
        elif modulus and type(exponent) is int and type(modulus[0]) is int:
            self.spend((exponent.bit_length() * modulus[0].bit_length() ** 2 >> 18) + 1)
        return pow(base, exponent, *modulus)

    def power_in_place(self, base: Any, exponent: Any) -> Any:
        """The value of ``base **= exponent``."""
        if type(base) is int:
            return self.power(base, exponent)
        base **= exponent
        return base

    def shift(self, left: Any, right: Any) -> Any:
        """``left << right``."""
        if type(left) is int and type(right) is int and right > 1024 and left:
            self.spend((right >> 10) + 1)
            if right >> 3 > self.memory_bytes:
                raise MemoryError
        return left << right

    def namespace(self) -> dict[str, Any]:
        """The names that instrumented code refers to, for the call in progress."""
        return {
            TICK: self.tick,
            "__fuel_walked__": self.walked,
            "__fuel_made__": self.made,
            "__fuel_mul__": self.multiply,
            "__fuel_imul__": self.multiply_in_place,
            "__fuel_pow__": self.power,
            "__fuel_ipow__": self.power_in_place,
            "__fuel_shift__": self.shift,
        }


def _at_start(node: Any) -> Any:
    """Give a new node a position; one object may then stand at many places of a tree."""
    for child in ast.walk(node):
        if isinstance(child, ast.expr | ast.stmt):
            child.lineno = child.end_lineno = 1
            child.col_offset = child.end_col_offset = 0
    return node


_TICK_CALL: ast.expr = _at_start(ast.Call(ast.Name(TICK, ast.Load()), [], []))
_TICK_STATEMENT: ast.stmt = _at_start(ast.Expr(_TICK_CALL))


def _name(name: str) -> ast.expr:
    node: ast.expr = _at_start(ast.Name(name, ast.Load()))
    return node


_WALKED, _MADE = _name("__fuel_walked__"), _name("__fuel_made__")
_OPERATORS: dict[type[ast.operator], tuple[ast.expr, ast.expr]] = {
    ast.Mult: (_name("__fuel_mul__"), _name("__fuel_imul__")),
    ast.Pow: (_name("__fuel_pow__"), _name("__fuel_ipow__")),
    ast.LShift: (_name("__fuel_shift__"), _name("__fuel_shift__")),
}
_LITERALS = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict)
_POWER = _OPERATORS[ast.Pow][0]


def _call(function: ast.expr, arguments: list[ast.expr], like: ast.expr | ast.stmt) -> ast.Call:
    return ast.Call(
        function,
        arguments,
        [],
        lineno=like.lineno,
        col_offset=like.col_offset,
        end_lineno=like.end_lineno,
        end_col_offset=like.end_col_offset,
    )


def _tick_body(node: Any) -> Any:
    node.body.insert(0, _TICK_STATEMENT)
    return node


def _tick_function(node: Any) -> Any:
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    node.body.insert(1 if documented else 0, _TICK_STATEMENT)
    return node


def _tick_lambda(node: Any) -> Any:
    node.body = ast.BoolOp(
        ast.And(),
        [_TICK_CALL, node.body],
        lineno=node.lineno,
        col_offset=node.col_offset,
        end_lineno=node.end_lineno,
        end_col_offset=node.end_col_offset,
    )
    return node


def _tick_comprehension(node: Any) -> Any:
    node.ifs.insert(0, _TICK_CALL)
    return node


def _guard_operator(node: Any) -> Any:
    guards = _OPERATORS.get(type(node.op))
    if guards is not None:
        return _call(guards[0], [node.left, node.right], node)
    if type(node.op) is ast.Add and not (_is_number(node.left) or _is_number(node.right)):
        return _call(_MADE, [node], node)
    return node


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes)


def _guard_slice(node: Any) -> Any:
    loads_slice = isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load)
    return _call(_MADE, [node], node) if loads_slice else node


def _guard_membership(node: Any) -> Any:
    for i, op in enumerate(node.ops):
        right = node.comparators[i]
        if (
            isinstance(op, ast.In | ast.NotIn)
            and not isinstance(right, _LITERALS)
            and not _is_call_of(right, "range")
        ):
            node.comparators[i] = _call(_WALKED, [right], right)
    return node


def _is_call_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _guard_starred(node: Any) -> Any:
    if isinstance(node.ctx, ast.Load):
        node.value = _call(_WALKED, [node.value], node.value)
    return node


def _guard_call(node: Any, rebound: frozenset[str]) -> Any:
    """Meter the first argument of builtins that walk it, and ``x.join(...)``; guard ``pow``."""
    function, arguments = node.func, node.args
    if isinstance(function, ast.Name):
        if function.id in rebound or not arguments:
            return node
        if function.id == "pow" and len(arguments) >= 2 and not node.keywords:
            node.func = _POWER
        if function.id not in _WALKERS or (function.id in ("min", "max") and len(arguments) > 1):
            return node
    elif not (isinstance(function, ast.Attribute) and function.attr in ("join", "extend") and arguments):
        return node
    if not isinstance(arguments[0], ast.Starred):
        arguments[0] = _call(_WALKED, [arguments[0]], arguments[0])
    return node


def _guard_augmented(node: Any) -> Any:
    """``x *= y`` becomes ``x = imul(x, y)`` for plain names; other targets keep their one evaluation."""
    guards = _OPERATORS.get(type(node.op))
    if guards is None:
        if type(node.op) is ast.Add and not _is_number(node.value):
            node.value = _call(_WALKED, [node.value], node.value)
        return node
    if not isinstance(node.target, ast.Name):
        return _augmented_place(node, guards[1])
    current = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
    return ast.copy_location(ast.Assign([node.target], _call(guards[1], [current, node.value], node)), node)


def _augmented_place(node: Any, guard: ast.expr) -> Any:
    """``a.b[i] *= y`` with ``a.b`` and ``i`` evaluated once, through hidden names."""
    target = node.target
    steps: list[ast.stmt] = []

    def held(part: ast.expr, name: str) -> ast.expr:
        steps.append(ast.copy_location(ast.Assign([_stored(name)], part), node))
        return _name(name)

    def place(context: ast.expr_context) -> ast.expr:
        if isinstance(target, ast.Attribute):
            return ast.copy_location(ast.Attribute(owner, target.attr, context), node)
        return ast.copy_location(ast.Subscript(owner, index, context), node)

    owner = held(target.value, "__fuel_owner__")
    if isinstance(target, ast.Subscript):
        if isinstance(target.slice, ast.Slice):
            return node
        index = held(target.slice, "__fuel_index__")
    product = _call(guard, [place(ast.Load()), node.value], node)
    steps.append(ast.copy_location(ast.Assign([place(ast.Store())], product), node))
    always: ast.expr = _at_start(ast.Constant(True))
    return ast.copy_location(ast.If(always, steps, []), node)


def _stored(name: str) -> ast.expr:
    node: ast.expr = _at_start(ast.Name(name, ast.Store()))
    return node


_REWRITES: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.For: _tick_body,
    ast.AsyncFor: _tick_body,
    ast.While: _tick_body,
    ast.FunctionDef: _tick_function,
    ast.AsyncFunctionDef: _tick_function,
    ast.Lambda: _tick_lambda,
    ast.comprehension: _tick_comprehension,
    ast.BinOp: _guard_operator,
    ast.AugAssign: _guard_augmented,
    ast.Subscript: _guard_slice,
    ast.Compare: _guard_membership,
    ast.Starred: _guard_starred,
}


def _rebound_names(nodes: list[ast.AST]) -> frozenset[str]:
    """Names that the program binds itself, anywhere: calls of these are not calls of builtins."""
    found: set[str] = set()
    for node in nodes:
        kind = type(node)
        if kind is ast.Name and type(node.ctx) is ast.Store:  # type: ignore[attr-defined]
            found.add(node.id)  # type: ignore[attr-defined]
        elif kind is ast.arg:
            found.add(node.arg)  # type: ignore[attr-defined]
        elif kind in (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef):
            found.add(node.name)  # type: ignore[attr-defined]
        elif kind is ast.alias:
            found.add(node.asname or node.name)  # type: ignore[attr-defined]
    return frozenset(found)


def instrument(tree: ast.Module) -> ast.Module:
    """Write ticks and guards into ``tree`` (changed in place) and return it."""
    _instrument(tree, _rebound_names(list(ast.walk(tree))))
    return tree


def _instrument(node: ast.AST, rebound: frozenset[str]) -> Any:
    """Children first, so that what a rewrite adds is not itself rewritten."""
    for field in node._fields:
        value = getattr(node, field, None)
        if type(value) is list:
            for i, item in enumerate(value):
                if isinstance(item, ast.AST) and item._fields:
                    value[i] = _instrument(item, rebound)
        elif isinstance(value, ast.AST) and value._fields:
            setattr(node, field, _instrument(value, rebound))
    kind = type(node)
    if kind is ast.Call:
        return _guard_call(node, rebound)
    rewrite = _REWRITES.get(kind)
    return node if rewrite is None else rewrite(node)


def compile_metered(source: str) -> CodeType:
    """Compile ``source`` with ticks; raises what ``compile`` raises, the same on every Python."""
    if "\0" in source:  # a ValueError until Python 3.11.3
        raise SyntaxError("source code string cannot contain null bytes")
    code: CodeType = compile(instrument(ast.parse(source, "program")), "program", "exec", dont_inherit=True)
    return code
