"""The front: worked example, acceptance cases, inputs that cannot be meant, documented fallbacks."""

from __future__ import annotations

import numpy as np
import pytest

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.estimators import DrGrpo, Grpo, Rloo
from gagar_core.advantages.redistribution import NoRedistribution, SumPreserving
from gagar_core.advantages.weightings import Linear, Uniform
from gagar_core.errors import InputError

NAN = float("nan")


def close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def one_group(rewards, **options):
    return compute_advantages(rewards, ["task"] * len(rewards), **options)


def test_worked_example():
    result = one_group(
        [1, 1, 1, 0],
        estimator=DrGrpo(),
        redistribution=SumPreserving(),
        weights=[1, 0.85, 0.4, NAN],
    )
    close(result.advantages, [1 / 3, 0.85 / 3, 0.4 / 3, -0.75])
    close(result.base, [0.25, 0.25, 0.25, -0.75])
    close(result.lambda_, [4 / 3])
    assert result.groups == ["task"]
    assert result.fallback.tolist() == [""]


def test_linear_weights_of_four_ranks():
    result = one_group(
        [1, 1, 1, 1, 0],
        estimator=DrGrpo(),
        redistribution=SumPreserving(),
        weighting=Linear(floor=0.2),
        ranks=[3, 1, 4, 2, NAN],
    )
    close(result.weights, [1 - 0.8 * 2 / 3, 1, 0.2, 1 - 0.8 / 3, 1])
    # Σ f = 2.4 and Σ_P A = .8, so λ = 1/3 ÷ .2 = 5/3 and the best gets .2 · 5/3
    close(result.advantages, [0.466666666667 / 3, 1 / 3, 0.2 / 3, 0.733333333333 / 3, -0.8])


def test_uniform_weighting_and_no_redistribution_return_the_base_bits():
    rewards = np.random.default_rng(0).random(40)
    groups = np.arange(40) % 5
    passed = rewards > 0.5
    ranks = np.where(passed, np.arange(40.0), NAN)
    options = {"estimator": Grpo(), "passed": passed, "ranks": ranks}
    plain = compute_advantages(rewards, groups, **options)
    for redistribution, weighting in ((NoRedistribution(), Linear()), (SumPreserving(), Uniform())):
        result = compute_advantages(
            rewards, groups, redistribution=redistribution, weighting=weighting, **options
        )
        assert np.array_equal(result.advantages, plain.base)
        assert np.array_equal(plain.base, plain.advantages)


def test_rloo_is_reward_minus_mean_of_the_others():
    rewards = [1.0, 0.25, 0.5, 0.0]
    expected = [r - (sum(rewards) - r) / 3 for r in rewards]
    close(one_group(rewards, estimator=Rloo()).advantages, expected)


def test_rank_on_a_failing_row_names_row_and_group():
    with pytest.raises(InputError, match=r"rank on a failing row: row 1 \(group 'task'\)"):
        one_group(
            [1, 0],
            estimator=DrGrpo(),
            redistribution=SumPreserving(),
            weighting=Linear(),
            ranks=[1, 2],
        )


def test_start_step_and_ramp_become_shrink():
    settings = SumPreserving(shrink=0.2, start_step=10, ramp=3)
    shrinks = [settings.at_step(step).shrink for step in (0, 9, 10, 11, 12, 13, 99)]
    close(shrinks, [1, 1, 0.8, 0.6, 0.4, 0.2, 0.2])
