"""The default suite: right references, distinct functions, separate draws, the same on every machine."""

from __future__ import annotations

import pytest

from gagar_core.agent.codec import SPEC_WORDS
from gagar_core.errors import ConfigError
from gagar_core.seeds import stream
from gagar_core.tasks.atoms import SCALARS, Composition
from gagar_core.tasks.list_functions import ListFunctions, distinct_compositions
from gagar_core.tasks.suite import Suite


@pytest.mark.parametrize(
    ("words", "xs", "value"),
    [
        (("sum", "even", "sq", "minus"), [1, 2, 4, -2], -24),  # 4 + 16 + 4
        (("count", "odd", "id", "dbl"), [1, -3, 2, 5], 6),
        (("max", "neg", "abs", "id"), [-4, 3, -6], 6),
        (("min", "gt3", "inc", "id"), [9, 5, 1], 6),
        (("first", "nz", "dbl", "inc"), [0, 0, 4], 9),
        (("last", "lt4", "minus", "abs"), [9, 3, 2, 8], 2),
        (("uniq", "pos", "sq", "mod3"), [1, 2, 3, 3, 4, -1], 1),  # {1, 4, 9, 16}
        (("max", "all", "id", "inc"), [], 1),
        (("sum", "pos", "id", "mod3"), [-1], 0),
        (("sum", "neg", "id", "mod3"), [-1], 2),
    ],
)
def test_compositions_by_hand(words: tuple[str, str, str, str], xs: list[int], value: int) -> None:
    assert Composition(*words)(xs) == value


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("clamp", (9,), 5), ("clamp", (-1,), 0), ("sign", (-3,), -1), ("tri", (4,), 10), ("tri", (-2,), 0),
        ("divisors", (12,), 6), ("divisors", (0,), 0), ("mulsum", (3, -2), -3), ("half", (-3,), -2),
        ("absdiff", (2, 9), 7), ("parity", (-3,), 1), ("dist3", (1,), 2), ("cube", (-2,), -8),
    ],
)  # fmt: skip
def test_scalars_by_hand(name: str, args: tuple[int, ...], value: int) -> None:
    assert SCALARS[name][1](*args) == value


def test_splits(suite: Suite) -> None:
    assert (len(suite.sft), len(suite.train), len(suite.held_out)) == (120, 200, 98)
    assert suite.train[:120] == suite.sft
    assert not {task.id for task in suite.train} & {task.id for task in suite.held_out}
    assert set(SPEC_WORDS) >= {word for task in suite.sft for word in task.spec}


def test_held_out_functions_differ_from_every_training_function_in_behaviour(suite: Suite) -> None:
    rng = stream(99, "another probe")
    probe = [[int(v) for v in rng.integers(-6, 9, int(rng.integers(0, 5)))] for _ in range(3000)]

    def behaviour(spec: tuple[str, ...]) -> tuple[int, ...]:
        composition = Composition(*(word[3:] for word in spec[1:]))
        return tuple(composition(xs) for xs in probe)

    lists = [task for task in suite.train if task.spec[0] == "@list"]
    trained = {behaviour(task.spec) for task in lists}
    assert len(trained) == len(lists)
    assert not [task.id for task in suite.held_out if behaviour(task.spec) in trained]


def test_kinds_of_tests_are_separate_draws(suite: Suite) -> None:
    for task in suite.train[:40]:
        assert task.reward == task.public
        assert (len(task.public), len(task.label), len(task.audit)) == (2, 12, 24)
        assert task.label != task.audit[:12]
        assert task.public != task.audit[:2]


def test_another_suite_seed_is_another_suite(suite: Suite) -> None:
    assert ListFunctions(suite_seed=1).load().digest() != suite.digest()


def test_faults_are_gathered_with_value_and_range() -> None:
    with pytest.raises(ConfigError) as caught:
        ListFunctions(public_tests=0, token_budget=8, truncation="stop")
    message = str(caught.value)
    assert "public_tests must be in [1, 20]; got 0" in message
    assert "token_budget must be in [32, 4096]; got 8" in message
    assert "truncation must be one of auto_submit, fail; got 'stop'" in message


def test_more_functions_than_exist_is_refused() -> None:
    count = len(distinct_compositions())
    with pytest.raises(ConfigError, match=f"only {count} differ"):
        ListFunctions(train_tasks=800, held_out_tasks=400).load()
