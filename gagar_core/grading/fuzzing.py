"""Differential fuzzing: inputs like those of the public tests, and a vote over what programs answer to them.

Nobody knows the right answer to a generated input. Programs that passed the same tests are compared with each
other: an answer that most others do not share is suspicious. The vote fails where most programs share one
mistake; nothing here can see that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gagar_core.types import CallResult, Case

MAX_INPUTS = 24
"""Most generated inputs that a group may be fuzzed with."""
SMALLEST_BOUND = 12
"""Numbers are drawn up to this size even where tests show only smaller ones."""
LONGEST_EXTRA = 2
"""By how many elements a drawn list or text may be longer than the longest seen."""
_LARGEST = 2**62
_BLOCK = 256
_TRIES = 60
"""Draws per wanted input: a function of one bool has two inputs, however long one draws."""
_STOPPING = frozenset(("timeout", "memory", "output", "violation"))

Answer = tuple[Hashable, ...] | None
"""What a program answered to an input, comparable; None = unknown, through no fault of the program."""


@dataclass
class Seen:
    """What the arguments of tests are made of."""

    numbers: list[int | float] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    elements: dict[int, list[Any]] = field(default_factory=dict)
    """Depth -> elements of the lists at that depth."""
    longest: int = 0

    def add(self, value: Any, depth: int = 0) -> None:
        """Take ``value`` apart."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            if math.isfinite(value) and abs(value) < _LARGEST:
                self.numbers.append(value)
        elif isinstance(value, str):
            self.letters += value
            self.longest = max(self.longest, len(value))
        elif isinstance(value, list | tuple | set | frozenset):
            items = _in_order(value)
            self.elements.setdefault(depth, []).extend(items)
            self.longest = max(self.longest, len(items))
            for item in items:
                self.add(item, depth + 1)
        elif isinstance(value, dict):
            for item in value.values():
                self.add(item, depth + 1)

    @property
    def bound(self) -> float:
        """Size up to which numbers are drawn: half beyond the largest seen."""
        return min(max([SMALLEST_BOUND, *(1.5 * abs(v) for v in self.numbers)]), _LARGEST)

    @property
    def negative_share(self) -> float:
        """Chance of a negative number, by Laplace's rule of succession from the signs seen."""
        return (sum(v < 0 for v in self.numbers) + 1) / (len(self.numbers) + 2)


class FuzzInputs:
    """Arguments of the same shapes as those of given tests; the first k are the same however many follow."""

    def __init__(self, cases: Sequence[Case], rng: np.random.Generator) -> None:
        """``rng`` belongs to these inputs alone: they are drawn when they are asked for."""
        self._rng = rng
        self._block: list[float] = []
        self._shapes = [case.args for case in cases if case.args]
        self._seen = Seen()
        for shape in self._shapes:
            for value in shape:
                self._seen.add(value)
        self._bound, self._negative = self._seen.bound, self._seen.negative_share
        self._drawn: list[tuple[Any, ...]] = []
        self._known = {canonical(case.args) for case in cases}
        self._given_up = not self._shapes

    def first(self, count: int) -> list[tuple[Any, ...]]:
        """The first ``count`` inputs, all different and none of them a test's; fewer if no more are found."""
        while len(self._drawn) < count and not self._given_up:
            self._given_up = not self._draw()
        return self._drawn[:count]

    def _draw(self) -> bool:
        for _ in range(_TRIES):
            shape = self._shapes[self._below(len(self._shapes))]
            drawn = tuple(self._vary(value, 0) for value in shape)
            key = canonical(drawn)
            if key not in self._known:
                self._known.add(key)
                self._drawn.append(drawn)
                return True
        return False

    def _uniform(self) -> float:
        """A number in [0, 1); drawn in blocks, as single draws would cost more than running the programs."""
        if not self._block:
            self._block = self._rng.random(_BLOCK).tolist()
        return self._block.pop()

    def _below(self, stop: int) -> int:
        return int(self._uniform() * stop)

    def _chance(self, share: float) -> bool:
        return self._uniform() < share

    def _vary(self, value: Any, depth: int) -> Any:
        """A value of the same shape; types that are not known here stay as they are."""
        match value:
            case bool():
                return self._chance(0.5)
            case int():
                return int(self._number(value))
            case float():
                return float(self._number(value)) if self._chance(0.5) else round(self._uniform() * 2, 3)
            case str():
                return self._text(value)
            case list():
                return self._list(value, depth)
            case set() | frozenset():
                return type(value)(self._list(_in_order(value), depth))
            case tuple():
                return tuple(self._vary(item, depth + 1) for item in value)
            case dict():
                return {key: self._vary(item, depth + 1) for key, item in value.items()}
        return value

    def _number(self, like: int | float) -> int | float:
        """Near a seen number, a boundary, or anything within the bound."""
        kind = self._uniform()
        if kind < 0.25:
            seen = self._seen.numbers or [like]
            return seen[self._below(len(seen))] + self._below(3) - 1
        sign = -1 if self._chance(self._negative) else 1
        if kind < 0.4:
            return sign * (0, 1, int(self._bound))[self._below(3)]
        return sign * self._below(int(self._bound) + 1)

    def _list(self, like: list[Any], depth: int) -> list[Any]:
        if like and self._chance(0.3):
            return self._edited(like, depth)
        elements = self._seen.elements.get(depth) or [0]
        length = self._below(min(self._seen.longest, 64) + LONGEST_EXTRA + 1)
        return [self._vary(elements[self._below(len(elements))], depth + 1) for _ in range(length)]

    def _edited(self, like: list[Any], depth: int) -> list[Any]:
        """A seen list with one change."""
        items, at = list(like), self._below(len(like))
        match self._below(4):
            case 0:
                del items[at]
            case 1:
                items.insert(at, items[at])
            case 2:
                items[at] = self._vary(items[at], depth + 1)
            case _:
                items.reverse()
        return items

    def _text(self, like: str) -> str:
        letters = self._seen.letters or ["a", "b"]
        if like and self._chance(0.3):
            at = self._below(len(like))
            middle = ("", like[at] * 2, letters[self._below(len(letters))])[self._below(3)]
            return like[:at] + middle + like[at + 1 :]
        length = self._below(min(self._seen.longest, 64) + LONGEST_EXTRA + 1)
        return "".join(letters[self._below(len(letters))] for _ in range(length))


def _in_order(values: Any) -> list[Any]:
    """Elements as a list; those of sets in an order that does not change from process to process."""
    return sorted(values, key=repr) if isinstance(values, set | frozenset) else list(values)


def settled(results: Sequence[CallResult]) -> list[CallResult]:
    """Results in the order of the inputs; a program that was stopped once counts as stopped from then on.

    Whether later calls still run depends on how the sandbox ran them and on what it remembers; an observation
    must not.
    """
    for position, result in enumerate(results):
        if result.status in _STOPPING:
            rest = replace(result, value=None)
            return [*results[:position], *[rest] * (len(results) - position)]
    return list(results)


def answer_of(result: CallResult) -> Answer:
    """What counts as the same answer: the value by exact type, or the status.

    As in tests a bool is the int it is. Floats are the same if their nine leading digits are.
    """
    if result.status == "infra":
        return None
    return ("ok", canonical(result.value)) if result.status == "ok" else (result.status,)


def canonical(value: Any) -> Hashable:
    """A hashable stand-in of a value of builtin types, equal for equal values of the same exact type only."""
    match value:
        case bool():
            return ("int", int(value))
        case float():
            return ("float", f"{value:.9g}")
        case list() | tuple():
            return (type(value).__name__, tuple(map(canonical, value)))
        case set() | frozenset():
            return (type(value).__name__, frozenset(map(canonical, value)))
        case dict():
            return ("dict", frozenset((canonical(k), canonical(v)) for k, v in value.items()))
    return (type(value).__name__, value)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one program's answers compare with those of the others."""

    inputs: int
    """Inputs to which its answer is known."""
    minority: tuple[int, ...]
    """Inputs to which another answer has more votes."""
    agreement: float
    """Mean share of the other candidates that answer the same; 1 if there are none."""
    distinct_agreement: float
    """The same with one vote per distinct program."""
    faults: int
    """Inputs that it did not answer with a value."""


def standings(answers: Sequence[Sequence[Answer]], copies: Sequence[int]) -> list[Standing]:
    """Compare distinct programs.

    Parameters
    ----------
    answers
        Per program one answer per input, all of the same length; None is no vote.
    copies
        How many candidates hold each program: each has one vote, on ties nobody is in the minority.
    """
    by_candidate = [_count(column, copies) for column in zip(*answers, strict=True)]
    by_program = [_count(column, [1] * len(copies)) for column in zip(*answers, strict=True)]
    return [_standing(row, by_candidate, by_program) for row in answers]


def _count(column: Sequence[Answer], weights: Sequence[int]) -> Counter[Answer]:
    votes: Counter[Answer] = Counter()
    for answer, weight in zip(column, weights, strict=True):
        if answer is not None:
            votes[answer] += weight
    return votes


def _standing(
    row: Sequence[Answer], by_candidate: list[Counter[Answer]], by_program: list[Counter[Answer]]
) -> Standing:
    known = [position for position, answer in enumerate(row) if answer is not None]
    minority = [p for p in known if by_candidate[p][row[p]] < max(by_candidate[p].values())]
    return Standing(
        len(known),
        tuple(minority),
        _mean([_share(by_candidate[p], row[p]) for p in known]),
        _mean([_share(by_program[p], row[p]) for p in known]),
        sum(answer is not None and answer[0] != "ok" for answer in row),
    )


def _share(votes: Counter[Answer], answer: Answer) -> float:
    """Share of the other votes that are for ``answer``."""
    others = votes.total() - 1
    return (votes[answer] - 1) / others if others else 1.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 1.0
