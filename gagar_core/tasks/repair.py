"""Suite ``repair``: a file with one fault among functions that have nothing to do with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gagar_core.errors import InputError
from gagar_core.seeds import stream
from gagar_core.tasks.atoms import Composition
from gagar_core.tasks.list_functions import ListFunctions, distinct_compositions, draw_compositions, draw_list
from gagar_core.tasks.program_styles import list_programs, mistaken
from gagar_core.tasks.suite import Suite
from gagar_core.types import MAIN_FILE, Case, Task

DISTRACTORS = (
    ["return n + 1"], ["return n * 2"], ["return n - 3"], ["return n % 2"], ["return n * n"],
    ["return abs(n)"], ["return max(n, 0)"], ["r = n * 2", "return r + 1"], ["r = n + 3", "return r * 2"],
)  # fmt: skip
"""Bodies of the functions that are right and that no test calls."""


@dataclass(kw_only=True)
class Repair(ListFunctions):
    """One wrong line in ``f``, with ``g`` and ``h`` around it; changes of them go unnoticed by every test.

    The agent walks through the file line by line and may replace any of them, or write a new ``f`` at the
    end. All of these pass; how far a change reaches is in ``diff_add``, ``diff_del`` and
    ``functions_changed``.
    """

    public_tests: int = 3
    """Tests the agent may run, and which decide pass; the first one shows the fault; >= 1."""
    sft_tasks: int = 150
    """Tasks with demonstrations; >= 60."""

    def load(self) -> Suite:
        """Generate the suite; the same fields give the same tasks and tests on every machine."""
        rng = stream(self.suite_seed, "suite", "repair")
        found = {c: faulty for c in distinct_compositions() if (faulty := self._faulty(c)) is not None}
        chosen = draw_compositions(rng, list(found), self.train_tasks + self.held_out_tasks, self.sft_tasks)
        tasks = [self._repair_task(composition, *found[composition]) for composition in chosen]
        train = tuple(tasks[: self.train_tasks])
        return Suite("repair", train[: self.sft_tasks], train, tuple(tasks[self.train_tasks :]))

    def _repair_task(self, composition: Composition, wrong: Composition, lines: list[str]) -> Task:
        plain = self.list_task(composition)
        rng = stream(self.suite_seed, "fault", plain.id)
        shown = _telling_case(composition, wrong, rng)
        assert shown is not None
        public = (shown, *plain.public[: self.public_tests - 1])
        return Task(
            id=plain.id.replace("list/", "repair/"), kind="code",
            statement=f"{plain.statement} The file has a mistake in f; change nothing else.",
            spec=("@repair", *plain.spec[1:]), entry_point="f", public=public, reward=public,
            label=plain.label, audit=plain.audit, difficulty=plain.difficulty, tags=("repair",),
            files={MAIN_FILE: "".join(line + "\n" for line in _file(lines, rng))},
        )  # fmt: skip

    def _faulty(self, composition: Composition) -> tuple[Composition, list[str]] | None:
        """Another function and its program, which differs from the right one in a single line."""
        rng = stream(self.suite_seed, "mistake", *composition.spec)
        programs = list_programs(composition)
        for _ in range(20):
            wrong = mistaken(composition, rng)
            style = int(rng.integers(len(programs)))
            right, lines = programs[style], list_programs(wrong)
            faulty = lines[style] if style < len(lines) else []
            differ = len(faulty) == len(right) and sum(a != b for a, b in zip(faulty, right, strict=True))
            if differ == 1 and _telling_case(composition, wrong, rng) is not None:
                return wrong, faulty
        return None


def _telling_case(right: Composition, wrong: Composition, rng: np.random.Generator) -> Case | None:
    """Arguments on which the two functions differ; None if 200 draws find none."""
    for _ in range(200):
        args = draw_list(rng)
        if right(*args) != wrong(*args):
            return Case(args, right(*args))
    return None


def _file(faulty: list[str], rng: np.random.Generator) -> list[str]:
    """The faulty function between or after two right ones."""
    bodies = [DISTRACTORS[int(i)] for i in rng.permutation(len(DISTRACTORS))[:2]]
    g, h = (
        ["def " + name + "(n):", *("    " + line for line in body)]
        for name, body in zip("gh", bodies, strict=True)
    )
    orders = ([g, faulty, h], [g, h, faulty], [faulty, g, h])
    return [line for block in orders[int(rng.integers(3))] for line in block]


def fault_of(task: Task) -> tuple[int, str]:
    """Where the fault of a repair task is: index of the line in its file, and the right line.

    Raises ``InputError`` for a task without such a fault.
    """
    lines = task.files[MAIN_FILE].splitlines()
    start = lines.index("def f(xs):")
    composition = Composition(*(word[3:] for word in task.spec[1:]))
    for right in list_programs(composition):
        here = lines[start : start + len(right)]
        wrong = [i for i, (a, b) in enumerate(zip(here, right, strict=False)) if a != b]
        if len(wrong) == 1 and len(here) == len(right):
            return start + wrong[0], right[wrong[0]]
    msg = f"task {task.id} has no fault of one line"
    raise InputError(msg)


def respellings(line: str) -> Iterator[str]:
    """Other ways to write a line that mean the same."""
    for old, new in (
        ("n + 1", "1 + n"), ("n * 2", "2 * n"), ("n + 3", "3 + n"), ("r * 2", "2 * r"), ("r + 1", "1 + r"),
        ("x * 2", "2 * x"), ("x + 1", "1 + x"), ("r += ", "r = r + "), ("ys += ", "ys = ys + "),
        ("max(n, 0)", "max(0, n)"),
    ):  # fmt: skip
        if old in line:
            yield line.replace(old, new)
