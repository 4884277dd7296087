"""Python programs for the built-in tasks in several styles, terse to bloated, right or with a mistake."""

from __future__ import annotations

import re

import numpy as np

from gagar_core.tasks.atoms import FILTERS, MAPS, POSTS, REDUCES, Composition, Guard

STYLES = ("terse", "loop", "bloat")
_STYLE_SHARES = (0.3, 0.4, 0.3)
_PADDING = (["t = xs"], ["t = 0"], ["if xs == []:", "    t = 0"], ["r = 0", "t = r"])
_LIST_PARTS = (list(REDUCES), list(FILTERS), list(MAPS), list(POSTS))
_GUARD_PARTS = ([word for word in FILTERS if word != "all"], list(MAPS), list(POSTS))

_SCALAR_PROGRAMS: dict[str, list[list[str]]] = {
    "max2": [["return max(a, b)"], ["if a > b:", "    return a", "return b"], ["return a if a > b else b"]],
    "min2": [["return min(a, b)"], ["if a < b:", "    return a", "return b"], ["return a if a < b else b"]],
    "absdiff": [["return abs(a - b)"], ["if a > b:", "    return a - b", "return b - a"]],
    "clamp": [
        ["return max(0, min(n, 5))"],
        ["if n < 0:", "    return 0", "if n > 5:", "    return 5", "return n"],
    ],
    "parity": [["return n % 2"], ["if n % 2 == 0:", "    return 0", "return 1"]],
    "sign": [["if n > 0:", "    return 1", "if n < 0:", "    return -1", "return 0"]],
    "tri": [["return sum(range(n + 1))"], ["r = 0", "for i in range(n + 1):", "    r += i", "return r"]],
    "divisors": [
        ["return len([i for i in range(1, n + 1) if n % i == 0])"],
        ["r = 0", "for i in range(1, n + 1):", "    if n % i == 0:", "        r += 1", "return r"],
    ],
    "cube": [["return n * n * n"], ["r = n * n", "return r * n"]],
    "dist3": [["return abs(n - 3)"], ["if n > 3:", "    return n - 3", "return 3 - n"]],
    "mulsum": [["return a * b + a"], ["r = a * b", "return r + a"]],
    "half": [["return n // 2"], ["r = n // 2", "return r"]],
}


def draw_style(rng: np.random.Generator) -> str:
    """A style with the shares 0.3 terse, 0.4 loop, 0.3 bloat."""
    return str(rng.choice(STYLES, p=_STYLE_SHARES))


def write_program(spec: tuple[str, ...], style: str, wrong: bool, rng: np.random.Generator) -> list[str]:
    """Lines of a program for a task's spec words; ``wrong`` puts one mistake into it."""
    if spec[0] == "@guard" and spec[1] == "@pad":
        return ["def f(n):", f"    return {('0', 'n')[int(rng.integers(2))]}"]
    if spec[0] == "@guard":
        words = [word[3:] for word in spec[1:4]]
        return guard_program(Guard(*(_mistaken(words, _GUARD_PARTS, rng) if wrong else words)), style)
    if spec[0] == "@list":
        words = [word[3:] for word in spec[1:]]
        composition = Composition(*(_mistaken(words, _LIST_PARTS, rng) if wrong else words))
        body = _list_body(composition, style, rng)
        return ["def f(xs):", *("    " + line for line in body)]
    name = spec[1].removeprefix("@s_")
    if wrong:
        same_arity = _same_arity(name)
        name = same_arity[int(rng.integers(len(same_arity)))]
    programs = _SCALAR_PROGRAMS[name]
    body = list(programs[int(rng.integers(len(programs)))])
    if style == "bloat":
        body = ["t = 0", *body]
    header = "def f(a, b):" if spec[0] == "@scalar2" else "def f(n):"
    return [header, *("    " + line for line in body)]


def _same_arity(name: str) -> list[str]:
    two = ("max2", "min2", "absdiff", "mulsum")
    return [other for other in _SCALAR_PROGRAMS if other != name and (other in two) == (name in two)]


def _mistaken(words: list[str], parts: tuple[list[str], ...], rng: np.random.Generator) -> list[str]:
    """The same words with one of them replaced by another of its kind."""
    position = int(rng.integers(len(parts)))
    others = [word for word in parts[position] if word != words[position]]
    return [*words[:position], others[int(rng.integers(len(others)))], *words[position + 1 :]]


def _list_body(c: Composition, style: str, rng: np.random.Generator) -> list[str]:
    if style == "terse":
        return _terse(c)
    if style == "loop":
        return _accumulate(c) if c.reduce in ("sum", "count") else _collect(c, [])
    return _collect(c, _PADDING[int(rng.integers(len(_PADDING)))], extra_step=True)


def list_programs(c: Composition) -> list[list[str]]:
    """Every program of several lines that is written for a list function."""
    loop = _accumulate(c) if c.reduce in ("sum", "count") else _collect(c, [])
    bodies = [loop, *(_collect(c, padding, extra_step=True) for padding in _PADDING)]
    return [["def f(xs):", *("    " + line for line in body)] for body in bodies]


def mistaken(c: Composition, rng: np.random.Generator) -> Composition:
    """The same function with one of its four words replaced."""
    return Composition(*_mistaken([c.reduce, c.filter, c.map, c.post], _LIST_PARTS, rng))


def _comprehension(c: Composition) -> str:
    condition = FILTERS[c.filter].source
    return f"[{MAPS[c.map].source} for x in xs{' if ' + condition if condition else ''}]"


def _result(c: Composition, operand: str) -> str:
    value = REDUCES[c.reduce].source.format(operand)
    if c.post in ("id", "abs"):
        value = value.removeprefix("(").removesuffix(")") if value.startswith("(") else value
    return POSTS[c.post].source.format(value)


def _terse(c: Composition) -> list[str]:
    if c.reduce in ("first", "last"):
        return [f"ys = {_comprehension(c)}", f"return {_result(c, 'ys')}"]
    return [f"return {_result(c, _comprehension(c))}"]


def _accumulate(c: Composition) -> list[str]:
    step = f"r += {MAPS[c.map].source}" if c.reduce == "sum" else "r += 1"
    return ["r = 0", *_for_loop(c, step), f"return {POSTS[c.post].source.format('r')}"]


def _collect(c: Composition, padding: list[str], extra_step: bool = False) -> list[str]:
    lines = [*padding, "ys = []", *_for_loop(c, f"ys += [{MAPS[c.map].source}]")]
    if not extra_step:
        return [*lines, f"return {_result(c, 'ys')}"]
    plain = Composition(c.reduce, c.filter, c.map, "id")
    return [*lines, f"r = {_result(plain, 'ys')}", f"r = {POSTS[c.post].source.format('r')}", "return r"]


def _for_loop(c: Composition, step: str) -> list[str]:
    condition = FILTERS[c.filter].source
    if not condition:
        return ["for x in xs:", f"    {step}"]
    return ["for x in xs:", f"    if {condition}:", f"        {step}"]


def guard_program(guard: Guard, style: str) -> list[str]:
    """Lines of a program for a guarded scalar function."""
    condition, value = (
        re.sub(r"\bx\b", "n", text)
        for text in (FILTERS[guard.filter].source, POSTS[guard.post].source.format(_operand(guard)))
    )
    bodies = {
        "terse": [f"return {value} if {condition} else 0"],
        "loop": [f"if {condition}:", f"    return {value}", "return 0"],
        "bloat": ["r = 0", f"if {condition}:", f"    r = {value}", "return r"],
    }
    return ["def f(n):", *("    " + line for line in bodies[style])]


def _operand(guard: Guard) -> str:
    """The mapped argument, in brackets where what follows binds more tightly."""
    text = MAPS[guard.map].source
    return text if guard.post in ("id", "abs") or text in ("x", "abs(x)") else f"({text})"
