"""Suite ``list_functions``: compositional list functions and a dozen scalar ones, all generated.

A small policy meets every word in demonstrations, and is trained and evaluated on combinations of words that
it has not seen together. Tests are drawn once from ``suite_seed``; the four kinds are separate draws, except
that reward tests are the public ones (an agent that sees OK passes; whether it is *right* is what audit tests
measure).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gagar_core.errors import ConfigError, check_choice, check_range, gather
from gagar_core.seeds import stream
from gagar_core.tasks.atoms import FILTERS, MAPS, POSTS, REDUCES, SCALARS, Composition
from gagar_core.tasks.suite import Suite
from gagar_core.types import Case, Task

TRUNCATIONS = ("auto_submit", "fail")


@dataclass(kw_only=True)
class ListFunctions:
    """Compositional list functions and scalar functions; the default suite."""

    public_tests: int = 2
    """Tests the agent may run, and which decide pass; >= 1."""
    label_tests: int = 12
    """Tests for training and judging graders; >= 1."""
    audit_tests: int = 24
    """Tests that only measure; >= 1."""
    sft_tasks: int = 120
    """Tasks with demonstrations, the scalar ones included; >= 60."""
    train_tasks: int = 200
    """Tasks trained on, those with demonstrations included; >= sft_tasks."""
    held_out_tasks: int = 98
    """Tasks of the evaluation; >= 1."""
    token_budget: int = 192
    """Tokens of a trajectory, observations included; >= 32."""
    truncation: str = "auto_submit"
    """At the budget: auto_submit = the file is submitted as it is, fail = the trajectory fails."""
    suite_seed: int = 0
    """Seed of the suite itself, equal for all seed blocks; >= 0."""

    def __post_init__(self) -> None:
        gather(
            [
                *check_range("public_tests", self.public_tests, 1, 20),
                *check_range("label_tests", self.label_tests, 1, 1000),
                *check_range("audit_tests", self.audit_tests, 1, 1000),
                *check_range("sft_tasks", self.sft_tasks, 60, 600),
                *check_range("train_tasks", self.train_tasks, self.sft_tasks, 800),
                *check_range("held_out_tasks", self.held_out_tasks, 1, 400),
                *check_range("token_budget", self.token_budget, 32, 4096),
                *check_choice("truncation", self.truncation, TRUNCATIONS),
                *check_range("suite_seed", self.suite_seed, 0),
            ],
            headline="invalid list_functions",
        )

    def load(self) -> Suite:
        """Generate the suite; the same fields give the same tasks and tests on every machine."""
        return self.named("list_functions")

    def named(self, name: str) -> Suite:
        """The same tasks as a suite of this name."""
        rng = stream(self.suite_seed, "suite", "list_functions")
        wanted = self.train_tasks - len(SCALARS) + self.held_out_tasks
        chosen = draw_compositions(rng, distinct_compositions(), wanted, self.sft_tasks - len(SCALARS))
        lists = [self.list_task(composition) for composition in chosen]
        scalars = [self.scalar_task(name) for name in SCALARS]
        num_train_lists = self.train_tasks - len(scalars)
        train = (*scalars, *lists[:num_train_lists])
        return Suite(name, train[: self.sft_tasks], train, tuple(lists[num_train_lists:]))

    def preload(self) -> None:
        """Work out what every run of this suite shares; workers call it once, before they fork runs."""
        distinct_compositions()

    def list_task(self, composition: Composition) -> Task:
        """The task of writing one list function."""
        name = "-".join(word.removeprefix("@")[2:] for word in composition.spec[1:])
        return self._task(
            f"list/{name}", composition.statement, composition.spec, composition.difficulty,
            lambda xs: composition(xs), draw_list,
        )  # fmt: skip

    def scalar_task(self, name: str) -> Task:
        """The task of writing one scalar function."""
        arity, reference, words = SCALARS[name]
        arguments = "a, b" if arity == 2 else "n"
        return self._task(
            f"scalar/{name}", f"Write f({arguments}) that returns {words}.",
            (f"@scalar{arity}", f"@s_{name}", "@pad", "@pad", "@pad"), 1 / 3,
            reference, lambda rng: tuple(int(v) for v in rng.integers(-6, 13, arity)),
        )  # fmt: skip

    def _task(
        self,
        task_id: str,
        statement: str,
        spec: tuple[str, ...],
        difficulty: float,
        reference: Callable[..., int],
        draw: Callable[[np.random.Generator], tuple[Any, ...]],
    ) -> Task:
        def cases(kind: str, count: int) -> tuple[Case, ...]:
            rng = stream(self.suite_seed, "cases", kind, task_id)
            drawn = [draw(rng) for _ in range(count)]
            return tuple(Case(args, int(reference(*args))) for args in drawn)

        public = cases("public", self.public_tests)
        return Task(
            id=task_id, kind="code", statement=statement, spec=spec, entry_point="f",
            public=public, reward=public, label=cases("label", self.label_tests),
            audit=cases("audit", self.audit_tests), difficulty=difficulty, tags=(spec[0].removeprefix("@"),),
        )  # fmt: skip


def draw_list(rng: np.random.Generator) -> tuple[list[int]]:
    """Arguments of a list function: up to four numbers from -6 to 8."""
    return (rng.integers(-6, 9, int(rng.integers(0, 5))).tolist(),)


def draw_compositions(
    rng: np.random.Generator, pool: Sequence[Composition], count: int, num_sft: int
) -> list[Composition]:
    """``count`` functions of the pool; every word occurs among the first ``num_sft``."""
    if count > len(pool):
        msg = f"train_tasks + held_out_tasks ask for {count} list functions; only {len(pool)} differ"
        raise ConfigError(msg)
    every = {word for composition in pool for word in composition.spec}
    for _ in range(1000):
        chosen = [pool[i] for i in rng.permutation(len(pool))[:count]]
        if not num_sft or {word for c in chosen[:num_sft] for word in c.spec} == every:
            return chosen
    msg = f"{num_sft} list functions with demonstrations do not show all {len(every)} words; raise sft_tasks"
    raise ConfigError(msg)


@cache
def distinct_compositions() -> tuple[Composition, ...]:
    """Every composition that differs from all earlier ones in behaviour on a fixed probe of 200 lists.

    Two spellings of one function would leak a held-out task into training.
    """
    rng = stream(0, "probe")
    probe = [draw_list(rng)[0] for _ in range(200)]
    # parts are shared: 48 choices of numbers and 336 reductions of them make 2,016 compositions
    chosen = {(f, m): [Composition.choose(f, m, xs) for xs in probe] for f in FILTERS for m in MAPS}
    reduced = {
        (r, f, m): [REDUCES[r].run(ys) for ys in lists] for r in REDUCES for (f, m), lists in chosen.items()
    }
    seen: dict[tuple[int, ...], Composition] = {}
    # shortest spelling first: fewer working parts is the simpler name of a function
    everything = sorted(
        (Composition(*words) for words in itertools.product(REDUCES, FILTERS, MAPS, POSTS)),
        key=lambda composition: composition.difficulty,
    )
    for composition in everything:
        values = reduced[composition.reduce, composition.filter, composition.map]
        seen.setdefault(tuple(map(POSTS[composition.post].run, values)), composition)
    return tuple(seen.values())
