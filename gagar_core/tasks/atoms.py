"""The pieces that list tasks are composed of: each word with its meaning and its Python text.

A task is ``post(reduce([map(x) for x in xs if filter(x)]))``; the reduction of an empty list is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Atom:
    """One word: what it computes, how it is written (``{}`` is the operand), how it reads in a statement."""

    run: Callable[..., int]
    source: str
    words: str


FILTERS = {
    "all": Atom(lambda x: 1, "", "all numbers"),
    "even": Atom(lambda x: int(x % 2 == 0), "x % 2 == 0", "the even numbers"),
    "odd": Atom(lambda x: int(x % 2 == 1), "x % 2 == 1", "the odd numbers"),
    "pos": Atom(lambda x: int(x > 0), "x > 0", "the positive numbers"),
    "neg": Atom(lambda x: int(x < 0), "x < 0", "the negative numbers"),
    "gt3": Atom(lambda x: int(x > 3), "x > 3", "the numbers above 3"),
    "lt4": Atom(lambda x: int(x < 4), "x < 4", "the numbers below 4"),
    "nz": Atom(lambda x: int(x != 0), "x != 0", "the numbers other than 0"),
}

MAPS = {
    "id": Atom(lambda x: x, "x", "as they are"),
    "dbl": Atom(lambda x: x * 2, "x * 2", "doubled"),
    "sq": Atom(lambda x: x * x, "x * x", "squared"),
    "minus": Atom(lambda x: -x, "-x", "negated"),
    "inc": Atom(lambda x: x + 1, "x + 1", "plus 1"),
    "abs": Atom(abs, "abs(x)", "without sign"),
}

REDUCES = {
    "sum": Atom(sum, "sum({})", "the sum"),
    "count": Atom(len, "len({})", "how many there are"),
    "max": Atom(lambda ys: max(ys, default=0), "max({}, default=0)", "the largest"),
    "min": Atom(lambda ys: min(ys, default=0), "min({}, default=0)", "the smallest"),
    "first": Atom(lambda ys: ys[0] if ys else 0, "({0}[0] if {0} else 0)", "the first"),
    "last": Atom(lambda ys: ys[-1] if ys else 0, "({0}[-1] if {0} else 0)", "the last"),
    "uniq": Atom(lambda ys: len(set(ys)), "len(set({}))", "how many different ones there are"),
}

POSTS = {
    "id": Atom(lambda r: r, "{}", ""),
    "minus": Atom(lambda r: -r, "-{}", ", negated"),
    "dbl": Atom(lambda r: r * 2, "{} * 2", ", doubled"),
    "inc": Atom(lambda r: r + 1, "{} + 1", ", plus 1"),
    "abs": Atom(abs, "abs({})", ", without sign"),
    "mod3": Atom(lambda r: r % 3, "{} % 3", ", modulo 3"),
}


@dataclass(frozen=True)
class Composition:
    """One list function by its four words."""

    reduce: str
    filter: str
    map: str
    post: str

    def __call__(self, xs: list[int]) -> int:
        """The value on a list of integers."""
        chosen = self.choose(self.filter, self.map, xs)
        return POSTS[self.post].run(REDUCES[self.reduce].run(chosen))

    @staticmethod
    def choose(filter_: str, map_: str, xs: list[int]) -> list[int]:
        """What is reduced: the numbers that pass the filter, mapped."""
        keep, change = FILTERS[filter_].run, MAPS[map_].run
        return [change(x) for x in xs if keep(x)]

    @property
    def spec(self) -> tuple[str, ...]:
        """Words of the embedded policy."""
        return ("@list", f"@r_{self.reduce}", f"@f_{self.filter}", f"@m_{self.map}", f"@p_{self.post}")

    @property
    def statement(self) -> str:
        """The task in words."""
        return (
            f"Write f(xs) for a list of integers: take {FILTERS[self.filter].words}, {MAPS[self.map].words}, "
            f"and return {REDUCES[self.reduce].words}{POSTS[self.post].words}. Of nothing, the result before "
            "the last change is 0."
        )

    @property
    def difficulty(self) -> float:
        """Share of the three optional parts that do something, in [0, 1]."""
        return sum(part not in ("all", "id") for part in (self.filter, self.map, self.post)) / 3


@dataclass(frozen=True)
class Guard:
    """One scalar function by its three words: ``post(map(n))`` where the filter holds, else 0."""

    filter: str
    map: str
    post: str

    def __call__(self, n: int) -> int:
        """The value at n."""
        return POSTS[self.post].run(MAPS[self.map].run(n)) if FILTERS[self.filter].run(n) else 0

    @property
    def spec(self) -> tuple[str, ...]:
        """Words of the embedded policy."""
        return ("@guard", f"@f_{self.filter}", f"@m_{self.map}", f"@p_{self.post}", "@pad")

    @property
    def statement(self) -> str:
        """The task in words."""
        return (
            f"Write f(n): if n is one of {FILTERS[self.filter].words}, return it {MAPS[self.map].words}"
            f"{POSTS[self.post].words}; otherwise return 0."
        )

    @property
    def difficulty(self) -> float:
        """Share of the two optional parts that do something, in [0, 1]."""
        return sum(part != "id" for part in (self.map, self.post)) / 2


SUMS: dict[str, tuple[Callable[[int, int], int], str]] = {
    "add": (lambda x, y: x + y, "{} plus {}"),
    "sub": (lambda x, y: x - y, "{} minus {}"),
    "mul": (lambda x, y: x * y, "{} times {}"),
    "max": (max, "the larger of {} and {}"),
    "dist": (lambda x, y: abs(x - y), "the distance between {} and {}"),
}
"""Questions with a number as answer: what is to be computed of two operands, and its words."""

OPERANDS = range(8)
"""Operands of ``SUMS``."""

SCALARS: dict[str, tuple[int, Callable[..., int], str]] = {
    "max2": (2, max, "the larger of a and b"),
    "min2": (2, min, "the smaller of a and b"),
    "absdiff": (2, lambda a, b: abs(a - b), "the distance between a and b"),
    "clamp": (1, lambda n: max(0, min(n, 5)), "n, but at least 0 and at most 5"),
    "parity": (1, lambda n: n % 2, "n modulo 2"),
    "sign": (1, lambda n: (n > 0) - (n < 0), "-1, 0 or 1 as n is negative, 0 or positive"),
    "tri": (1, lambda n: sum(range(n + 1)), "the sum of the numbers from 0 to n, 0 if n is negative"),
    "divisors": (1, lambda n: sum(n % i == 0 for i in range(1, n + 1)), "how many of 1 to n divide n"),
    "cube": (1, lambda n: n * n * n, "the cube of n"),
    "dist3": (1, lambda n: abs(n - 3), "the distance between n and 3"),
    "mulsum": (2, lambda a, b: a * b + a, "a times b plus a"),
    "half": (1, lambda n: n // 2, "n divided by 2, rounded down"),
}
"""Scalar tasks: number of arguments, reference, words."""
