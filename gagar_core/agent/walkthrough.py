"""How a demonstrator repairs a file: line by line, not always rightly, and not always only what is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gagar_core.tasks.atoms import Composition
from gagar_core.tasks.program_styles import list_programs, mistaken
from gagar_core.tasks.repair import fault_of, respellings

if TYPE_CHECKING:
    from gagar_core.agent.demonstrations import Draft

REWRITE = 0.15
"""Share of walks that add a whole new function at the end instead of replacing a line."""
RESPELL = 0.25
"""Chance that a line which can be written in another way, and need not, is."""
STOP_AFTER_FIX = 0.6
"""Chance that a walk ends with the replaced line instead of going on to the end of the file."""
MISS = 0.5
"""Of the walks with a mistake, the share that overlook the fault; the others replace it by a wrong line."""


def walk(draft: Draft, wrong: bool, rng: np.random.Generator) -> None:
    """Go through the file from where the agent looks and repair it, or fail to; ``wrong`` makes a mistake."""
    if rng.random() < REWRITE:
        for line in _whole_function(draft, wrong, rng):
            draft.line(line)
        return
    place, right = fault_of(draft.task)
    for _ in range(len(draft.workspace.lines) + 1):
        at = draft.workspace.looking_at
        if at == place:
            fixed = _at_fault(draft, right, wrong, rng)
            if fixed and rng.random() < STOP_AFTER_FIX:
                return
        elif at < len(draft.workspace.lines):
            _elsewhere(draft, rng)
        if at == len(draft.workspace.lines) - 1:
            return
        draft.next()


def _at_fault(draft: Draft, right: str, wrong: bool, rng: np.random.Generator) -> bool:
    """Replace the faulty line, or overlook it; returns whether it was replaced."""
    if wrong and rng.random() < MISS:
        return False
    if wrong:
        others = [line for line in _wrong_lines(draft, rng) if line != right]
        draft.replace(others[0] if others else draft.workspace.lines[draft.workspace.looking_at])
    elif draft.workspace.lines[draft.workspace.looking_at] != right:
        draft.replace(right)
    return True


def _wrong_lines(draft: Draft, rng: np.random.Generator) -> list[str]:
    """What might stand there if the task were another one."""
    place, right = fault_of(draft.task)
    offset = place - draft.task.files["f.py"].splitlines().index("def f(xs):")
    found = []
    for _ in range(8):
        for program in list_programs(mistaken(_composition(draft), rng)):
            same_place = program[offset] if offset < len(program) else right
            if same_place.split(" ")[:6] == right.split(" ")[:6]:
                found.append(same_place)
    return found


def _elsewhere(draft: Draft, rng: np.random.Generator) -> None:
    """Leave a line that is right as it is, or write the same in another way."""
    ways = list(respellings(draft.workspace.lines[draft.workspace.looking_at]))
    if ways and rng.random() < RESPELL:
        draft.replace(ways[int(rng.integers(len(ways)))])


def _whole_function(draft: Draft, wrong: bool, rng: np.random.Generator) -> list[str]:
    composition = _composition(draft)
    programs = list_programs(mistaken(composition, rng) if wrong else composition)
    return programs[int(rng.integers(len(programs)))]


def _composition(draft: Draft) -> Composition:
    return Composition(*(word[3:] for word in draft.task.spec[1:]))
