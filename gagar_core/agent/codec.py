"""Tokens of the embedded policies: text pieces of Python, numbers, actions and observations.

The text of a program is the concatenation of its pieces, so decoding is exact; encoding takes the longest
piece that fits. Nothing forces a policy to write valid Python.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np

from gagar_core.agent.actions import TestReport, View
from gagar_core.errors import InputError
from gagar_core.tasks.atoms import FILTERS, MAPS, OPERANDS, POSTS, REDUCES, SCALARS, SUMS

_SPECIAL = ("<pad>", "<bos>")
_ACTIONS = ("<run>", "<submit>", "<clear>", "<delete>", "<top>", "<next>", "<replace>")
_OBSERVATION = (
    "<ok>", "<fail>", "<err>", "<args>", "<got>", "<expected>", "<end>", "<big>", "<other>",
    "<line>",
)  # fmt: skip
_LINES = ("\n", "    ", "        ", "            ")
_PIECES = (
    "def f(xs):", "def f(n):", "def f(a, b):", "def g(n):", "def h(n):",
    "return ", "if ", "else:", "for ", "while ",
    " in ", " for ", " if ", " else ", " and ", " or ", "not ", "None", "pass",
    "xs", "ys", "x", "y", "n", "a", "b", "r", "t", "i",
    "sum(", "len(", "max(", "min(", "abs(", "set(", "range(", ", default=0",
    "(", ")", "[", "]", ":", ", ", "[0]", "[-1]", "-",
    " = ", " += ", " == ", " != ", " > ", " < ", " >= ", " <= ", " + ", " - ", " * ", " // ", " % ",
)  # fmt: skip
_NUMBERS = range(-20, 61)

SPEC_LENGTH = 5
SPEC_WORDS: tuple[str, ...] = (
    "@pad", "@list", "@scalar1", "@scalar2", "@guard", "@repair", "@answer",
    *(f"@r_{w}" for w in REDUCES), *(f"@f_{w}" for w in FILTERS), *(f"@m_{w}" for w in MAPS),
    *(f"@p_{w}" for w in POSTS), *(f"@s_{w}" for w in SCALARS), *(f"@a_{w}" for w in SUMS),
    *(f"@x_{n}" for n in OPERANDS), *(f"@y_{n}" for n in OPERANDS),
)  # fmt: skip


class Codec:
    """Token ids <-> text; ``vocabulary`` is the tuple of pieces in order of id."""

    vocabulary: tuple[str, ...] = (
        *_SPECIAL, *_ACTIONS, *_OBSERVATION, *_LINES, *_PIECES, *(str(v) for v in _NUMBERS)
    )  # fmt: skip

    def __init__(self) -> None:
        self.ids = {piece: i for i, piece in enumerate(self.vocabulary)}
        self.pad, self.bos, self.newline = self.ids["<pad>"], self.ids["<bos>"], self.ids["\n"]
        self.run, self.submit = self.ids["<run>"], self.ids["<submit>"]
        self.clear, self.delete, self.top = self.ids["<clear>"], self.ids["<delete>"], self.ids["<top>"]
        self.next, self.replace = self.ids["<next>"], self.ids["<replace>"]
        self._spec_ids = {word: i for i, word in enumerate(SPEC_WORDS)}

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.vocabulary)

    @cached_property
    def control(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(V,) True for tokens after which the environment acts: line end and actions."""
        flags = np.zeros(self.size, dtype=bool)
        flags[[self.newline, *(self.ids[name] for name in _ACTIONS)]] = True
        return flags

    @cached_property
    def _by_length(self) -> list[str]:
        pieces = [*_LINES, *_PIECES, *(str(v) for v in _NUMBERS)]
        return sorted(pieces, key=len, reverse=True)

    @cached_property
    def _longest(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self._by_length)))

    def encode(self, text: str) -> list[int]:
        """Tokens of program text; raises ``InputError`` naming the first place that no piece fits."""
        tokens, at = [], 0
        while at < len(text):
            found = self._longest.match(text, at)
            if found is None:
                return self._looking_ahead(text, at)
            tokens.append(self.ids[found.group()])
            at = found.end()
        return tokens

    def _looking_ahead(self, text: str, stuck: int) -> list[int]:
        """The longest piece at each place from which the rest can be written: ``x set(``, not ``xs et(``."""
        pieces: list[str | None] = [None] * len(text) + [""]
        for at in range(len(text) - 1, -1, -1):
            fitting = (
                p for p in self._by_length if text.startswith(p, at) and pieces[at + len(p)] is not None
            )
            pieces[at] = next(fitting, None)
        tokens, at = [], 0
        while at < len(text):
            piece = pieces[at]
            if piece is None:
                msg = f"no token fits at {text[stuck : stuck + 20]!r}"
                raise InputError(msg)
            tokens.append(self.ids[piece])
            at += len(piece)
        return tokens

    def decode(self, tokens: Any) -> str:
        """Text of tokens, actions and observations in angle brackets."""
        return "".join(self.vocabulary[t] for t in tokens)

    def encode_spec(self, spec: tuple[str, ...]) -> list[int]:
        """(SPEC_LENGTH,) word ids; raises ``InputError`` for a word without an embedding."""
        unknown = [word for word in spec if word not in self._spec_ids]
        if unknown or len(spec) != SPEC_LENGTH:
            msg = f"spec {spec} must be {SPEC_LENGTH} known words; unknown: {unknown}"
            raise InputError(msg)
        return [self._spec_ids[word] for word in spec]

    def encode_report(self, report: TestReport) -> list[int]:
        """Tokens by which a run of the tests is told to the policy."""
        ids = self.ids
        if report.ok:
            return [ids["<ok>"]]
        if report.error or report.case is None:
            return [ids["<err>"]]
        return [
            ids["<fail>"], self._number(report.failed), ids["<args>"], *self._value(list(report.case.args)),
            ids["<got>"], *self._value(report.got), ids["<expected>"], *self._value(report.case.expected),
            ids["<end>"],
        ]  # fmt: skip

    def encode_view(self, view: View) -> list[int]:
        """Tokens by which a line is shown to the policy; text that has no tokens is shown as other."""
        if view.line is None:
            return [self.ids["<end>"]]
        try:
            text = self.encode(view.line)
        except InputError:
            text = [self.ids["<other>"]]
        return [self.ids["<line>"], *text, self.ids["<end>"]]

    def _number(self, value: int) -> int:
        return self.ids[str(value)] if value in _NUMBERS else self.ids["<big>"]

    def _value(self, value: Any) -> list[int]:
        if isinstance(value, bool) or not isinstance(value, int | list | tuple):
            return [self.ids["<other>"]]
        if isinstance(value, int):
            return [self._number(value)]
        if len(value) > 8:
            return [self.ids["<big>"]]
        return [token for item in value for token in self._value(item)]
