"""Short and good: which variants no other one beats in both, and how much of the plane they cover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Point = tuple[float, float]
"""(length, pass rate): shorter is better, higher is better."""


def front(points: Sequence[Point]) -> list[bool]:
    """Whether each point is undominated: no other is as short and as good, and better in one of the two."""
    return [not any(_dominates(other, point) for other in points) for point in points]


def _dominates(one: Point, other: Point) -> bool:
    return one[0] <= other[0] and one[1] >= other[1] and one != other


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """Area that the points dominate inside the box of a reference (longest length, lowest pass rate).

    In length x share; points outside the box add nothing. Only comparable at one reference.
    """
    inside = sorted(p for p in points if p[0] < reference[0] and p[1] > reference[1])
    if not inside:
        return 0.0
    area, best = 0.0, reference[1]
    ends = [p[0] for p in inside[1:]] + [reference[0]]
    for (length, value), end in zip(inside, ends, strict=True):
        best = max(best, value)
        area += (end - length) * (best - reference[1])
    return float(area)


def reference_point(lengths: Sequence[float]) -> Point:
    """The default reference: a tenth beyond the longest length, at a pass rate of 0."""
    return (1.1 * float(np.max(lengths)), 0.0)
