"""Configuration: what is refused, and how it is said."""

from __future__ import annotations

import pytest

from experiments.compose import compose
from gagar_core.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trainer.lrr=1"], ["lrr", "fields of PolicyGradient: lr, beta1"]),
        (["trainer.lr=fast"], ["'fast'", "trainer.lr", "Float"]),
        (["seed=1.5"], ["1.5", "seed", "Integer"]),
        (["seed=-1"], ["seed must be in [0, inf); got -1"]),
        (["no_such_axis=1"], ["no_such_axis", "axes: estimator, redistribution"]),
        (["nonsense"], ["nonsense"]),
        (["+no_such_axis=1"], ["no_such_axis", "a run has: estimator, redistribution"]),
        (["weighting.floor=2"], ["floor must be in (0, 1]; got 2"]),
        (["algorithm=ppo"], ["algorithm/ppo", "rloo"]),
        (["sandbox.fuel=1"], ["fuel must be in [1000, inf); got 1"]),
    ],
)
def test_refused_naming_key_value_and_what_is_valid(words: list[str], said: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["algorithm=gagar", *words])
    for part in said:
        assert part in str(caught.value)


def test_range_faults_of_all_axes_are_gathered() -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["trainer.lr=0", "budget.steps=-1", "tasks.truncation=stop"])
    for part in ("lr must be in (0, inf); got 0", "steps must be in", "truncation must be one of"):
        assert part in str(caught.value)
