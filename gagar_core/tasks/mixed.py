"""Suite ``mixed``: programs to write, and questions with an exact answer, which nobody grades."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from gagar_core.errors import check_range, gather
from gagar_core.seeds import stream
from gagar_core.tasks.atoms import OPERANDS, SUMS
from gagar_core.tasks.list_functions import ListFunctions
from gagar_core.tasks.suite import Suite
from gagar_core.types import Case, Task


@dataclass(kw_only=True)
class Mixed(ListFunctions):
    """The tasks of list_functions beside questions with a number as answer.

    A question passes when the text of the file is its answer. Only groups of code tasks are graded, and only
    their advantages are redistributed.
    """

    sft_questions: int = 120
    """Questions with demonstrations, >= 60."""
    train_questions: int = 200
    """Questions trained on, those with demonstrations included; >= sft_questions, at most 319."""
    held_out_questions: int = 98
    """Questions of the evaluation, >= 1; questions there are 320 in all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        num = len(SUMS) * len(OPERANDS) ** 2
        gather(
            [
                *check_range("sft_questions", self.sft_questions, 60),
                *check_range("train_questions", self.train_questions, self.sft_questions, num - 1),
                *check_range("held_out_questions", self.held_out_questions, 1, num - self.train_questions),
            ],
            headline="invalid mixed",
        )

    def load(self) -> Suite:
        """Generate the suite; the same fields give the same tasks and tests on every machine."""
        code = self.named("mixed")
        every = [question(*parts) for parts in itertools.product(SUMS, OPERANDS, OPERANDS)]
        order = stream(self.suite_seed, "suite", "mixed").permutation(len(every))
        asked = [every[int(i)] for i in order[: self.train_questions + self.held_out_questions]]
        train = tuple(asked[: self.train_questions])
        return Suite(
            "mixed",
            (*code.sft, *train[: self.sft_questions]),
            (*code.train, *train),
            (*code.held_out, *asked[self.train_questions :]),
        )


def question(name: str, x: int, y: int) -> Task:
    """The task of working out one number."""
    run, words = SUMS[name]
    exact = (Case((), run(x, y)),)
    return Task(
        id=f"answer/{name}-{x}-{y}", kind="answer", statement=f"Write down {words.format(x, y)}.",
        spec=("@answer", f"@a_{name}", f"@x_{x}", f"@y_{y}", "@pad"), entry_point="", public=(), reward=exact,
        label=(), audit=exact, difficulty=0.5, tags=("answer",),
    )  # fmt: skip
