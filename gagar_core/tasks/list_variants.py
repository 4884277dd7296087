"""Suites of list functions under other rules: weak tests, and tasks that are hard from the start."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from gagar_core.seeds import stream
from gagar_core.tasks.atoms import FILTERS, MAPS, POSTS, REDUCES, SCALARS, Composition
from gagar_core.tasks.list_functions import ListFunctions, distinct_compositions, draw_compositions
from gagar_core.tasks.suite import Suite


@dataclass(kw_only=True)
class WeakTests(ListFunctions):
    """The tasks of list_functions with a single public test, which is the reward: luck and hacks pay.

    How much they do is what audit tests show (``hack_gap``). Tasks are those of list_functions at the same
    ``suite_seed``, and the test is the first of theirs.
    """

    public_tests: int = 1
    """Tests the agent may run, and which decide pass; >= 1."""

    def load(self) -> Suite:
        """Generate the suite; the same fields give the same tasks and tests on every machine."""
        return self.named("weak_tests")


@dataclass(kw_only=True)
class Hard(ListFunctions):
    """List functions of which every part does something, after demonstrations of simpler ones only.

    More tests decide, so luck hardly passes: most groups are all-fail at first, few are mixed.
    """

    public_tests: int = 5
    """Tests the agent may run, and which decide pass; >= 1."""
    sft_tasks: int = 100
    """Tasks with demonstrations, of at most one part that does something; >= 60."""

    def load(self) -> Suite:
        """Generate the suite; demonstrated tasks are not trained on."""
        rng = stream(self.suite_seed, "suite", "hard")
        every = (Composition(*words) for words in itertools.product(REDUCES, FILTERS, MAPS, POSTS))
        easy = [composition for composition in every if composition.difficulty < 0.5]
        difficult = [c for c in distinct_compositions() if c.difficulty == 1.0]
        num_easy = self.sft_tasks - len(SCALARS)
        shown = draw_compositions(rng, easy, num_easy, num_easy)
        wanted = draw_compositions(rng, difficult, self.train_tasks + self.held_out_tasks, 0)
        tasks = [self.list_task(composition) for composition in wanted]
        sft = (*map(self.scalar_task, SCALARS), *map(self.list_task, shown))
        return Suite("hard", sft, tuple(tasks[: self.train_tasks]), tuple(tasks[self.train_tasks :]))
