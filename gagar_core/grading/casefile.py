"""What a grader that acts knows of a group so far: one row per different candidate, one slot per tool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gagar_core.grading.tools import TOOLS, Diff, Fuzz, Measure, Read, RunPublic, Tool, ToolBox, Trace
from gagar_core.grading.workspace import contents


@dataclass(frozen=True)
class Slot:
    """One thing that can be known of a candidate: the tool that tells, and what it costs."""

    name: str
    tool: str
    numbers: tuple[str, ...]
    """Names of the tool's numbers that are kept."""
    effort: float
    """Roughly tenths of a millisecond of CPU (12 fuzz inputs), for the price that is put on looking."""
    of_program: bool = True
    """Whether candidates with the same program share it."""


_FUZZED = ("minority_share", "agreement", "distinct_agreement", "fault_share")
SLOTS: tuple[Slot, ...] = (
    Slot("trace", "trace", Trace.numbers, 0.5, of_program=False),
    Slot("read", "read", Read.numbers, 0.5),
    Slot("measure", "measure", Measure.numbers, 1.0),
    Slot("diff", "diff", Diff.numbers, 1.0),
    Slot("run_public", "run_public", RunPublic.numbers, 1.5),
    Slot("fuzz_few", "fuzz", _FUZZED, 1.5),
    Slot("fuzz", "fuzz", _FUZZED, 4.0),
)
"""In this order where all are asked. ``fuzz_few`` takes a quarter of the inputs; ``diff`` is against the
shortest program of the group."""

_PLACES = np.cumsum([0, *(len(slot.numbers) for slot in SLOTS)])
NUM_FEATURES = int(_PLACES[-1])
SLOT_OF = np.repeat(np.arange(len(SLOTS)), [len(slot.numbers) for slot in SLOTS])
"""(NUM_FEATURES,) slot of each feature."""
NUM_CONTEXT = 6
"""What is known of each row before any action."""
FUZZ, FUZZ_FEW = 6, 5
"""Slots of which the first includes the second."""


class CaseFile:
    """The state of one group's grading. Rows are in an order that follows from contents, not from places."""

    def __init__(self, box: ToolBox, fuzz_inputs: int, context: str) -> None:
        self.box = box
        self._fuzz_inputs = fuzz_inputs
        places: dict[Any, list[int]] = {}
        for candidate in box.candidates:
            places.setdefault(_key(box, candidate), []).append(candidate)
        self.rows = [places[key] for key in sorted(places)]
        """Candidates of each row: equal ones share a row."""
        self.values = np.zeros((len(self.rows), NUM_FEATURES))
        self.known = np.zeros((len(self.rows), len(SLOTS)), dtype=bool)
        self.evidence: list[list[str]] = [[] for _ in self.rows]
        self.context = _context(box, self.rows, context)
        sources = [box.source(row[0]) for row in self.rows]
        self.same = [[j for j, other in enumerate(sources) if other == source] for source in sources]
        """Per row the rows with the same program."""
        self._shortest = min(range(len(sources)), key=lambda j: (len(sources[j]), sources[j]), default=0)

    def inputs(self, slot: int) -> int:
        """Generated inputs that a fuzz slot takes; 0 for the other slots."""
        return {FUZZ: self._fuzz_inputs, FUZZ_FEW: max(self._fuzz_inputs // 4, 1)}.get(slot, 0)

    def act(self, row: int, slot: int) -> None:
        """Carry out one action and write down what it shows."""
        seen = self.box.act(self._action(row, slot))
        rows = self.same[row] if SLOTS[slot].of_program else [row]
        numbers = seen.numbers[self.rows[row][0]]
        for j in rows:
            self.values[j, _PLACES[slot] : _PLACES[slot + 1]] = [
                _scaled(n, numbers[n]) for n in SLOTS[slot].numbers
            ]
            self.known[j, slot] = True
            self.evidence[j].append(f"{seen.tool}: {seen.evidence}")

    def _action(self, row: int, slot: int) -> Tool:
        candidate, tool = self.rows[row][0], SLOTS[slot].tool
        if tool == "fuzz":
            return Fuzz(candidate=candidate, inputs=self.inputs(slot))
        if tool == "diff":
            return Diff(first=candidate, second=self.rows[self._shortest][0])
        action: Tool = TOOLS[tool](candidate=candidate)
        return action


def _key(box: ToolBox, candidate: int) -> Any:
    """Everything that a tool could show of a candidate alone."""
    way = box.trajectory(candidate)
    counts = (way.turns, way.test_runs, way.redundant_test_runs, way.edits, way.tool_errors, way.stop_reason)
    return contents(box.group, candidate), counts


def _scaled(name: str, value: float) -> float:
    """Shares as they are, counts damped."""
    return value if name.endswith(("share", "agreement", "similarity")) else math.log1p(value) / 2


def _context(box: ToolBox, rows: Sequence[Sequence[int]], context: str) -> NDArray[np.float64]:
    """(rows, NUM_CONTEXT): copies of the candidate and of its program, different ones of both, what failed.

    Failing trajectories count only with ``context`` = all.
    """
    sources = [box.source(row[0]) for row in rows for _ in row]
    failing = [t for t in box.group.trajectories if t.valid and not t.passed] if context == "all" else []
    tokens = [t.gen_tokens + t.obs_tokens for t in failing]
    shared = (
        math.log(len(rows) or 1),
        math.log(len(set(sources)) or 1),
        len(failing) / max(len(failing) + len(sources), 1),
        math.log1p(sum(tokens) / len(tokens)) / 2 if tokens else 0.0,
    )
    found = [(math.log(len(row)), math.log(sources.count(box.source(row[0]))), *shared) for row in rows]
    return np.array(found).reshape(len(rows), NUM_CONTEXT)
