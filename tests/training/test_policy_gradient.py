"""The trainer axis: learning-rate schedules and how advantages lie over tokens, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gagar_core.errors import ConfigError
from gagar_core.training.policy_gradient import PolicyGradient, ProcessReward
from gagar_core.training.process_reward import turn_credits
from gagar_core.types import Segment, Trajectory


def trajectory(shares: tuple[float, ...], tokens: tuple[int, ...], verdict: str = "pass") -> Trajectory:
    """Agent turns of the given token counts, with two observation tokens between them."""
    segments: list[Segment] = []
    for count in tokens:
        if segments:
            segments.append(Segment("env", "FAIL", (1, 2), (), (0, 0)))
        segments.append(Segment("agent", "x", (5,) * count, (-1.0,) * count, (1,) * count))
    return Trajectory(
        task_id="t", segments=tuple(segments), files={}, verdict=verdict, stop_reason="submit",
        gen_tokens=sum(tokens), obs_tokens=2 * (len(tokens) - 1), turns=len(tokens), tool_calls=1, tool_errors=0,
        test_runs=0, redundant_test_runs=0, edits=0, program_lines=1, program_nodes=1, turn_shares=shares,
    )  # fmt: skip


def test_schedules() -> None:
    constant = PolicyGradient(lr=1.0, warmup_steps=3)
    assert [constant.lr_at(s, 10) for s in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    linear = PolicyGradient(lr=1.0, schedule="linear")
    assert [linear.lr_at(s, 4) for s in range(4)] == [1.0, 0.75, 0.5, 0.25]
    cosine = PolicyGradient(lr=2.0, schedule="cosine")
    assert cosine.lr_at(5, 10) == pytest.approx(1.0)
    assert cosine.lr_at(0, 10) == 2.0
    assert cosine.lr_at(9, 10) == pytest.approx(1 + math.cos(0.9 * math.pi))


def test_an_advantage_covers_every_token() -> None:
    rows = PolicyGradient().token_advantages(
        np.array([0.5, -1.0]), [trajectory((1,), (3,)), trajectory((0,), (2,))], [0, 0]
    )
    assert [row.tolist() for row in rows] == [[0.5] * 3, [-1.0] * 2]


def test_turn_credits_sum_to_the_end() -> None:
    assert turn_credits(trajectory((0.5, 0.0, 1.0), (1, 1, 1))) == [0.5, -0.5, 1.0]
    assert turn_credits(trajectory((0.25,), (4,), "wrong")) == [0.25]


def test_process_reward_by_hand() -> None:
    """Credits of the group: .5, .5 and 0; their mean 1/3 is taken off every turn."""
    group = [trajectory((0.5, 1.0), (2, 1)), trajectory((0.0,), (2,), "wrong")]
    rows = ProcessReward(process_coef=0.3).token_advantages(np.array([0.5, -0.5]), group, np.array([0, 0]))
    up, down = 0.3 * (0.5 - 1 / 3), 0.3 * (0.0 - 1 / 3)
    np.testing.assert_allclose(rows[0], [0.5 + up, 0.5 + up, 0.5, 0.5, 0.5 + up])
    np.testing.assert_allclose(rows[1], [-0.5 + down] * 2)


def test_groups_are_centred_apart() -> None:
    pair = [trajectory((1.0,), (1,)), trajectory((0.0,), (1,), "wrong")]
    rows = ProcessReward(process_coef=1.0).token_advantages(
        np.zeros(4), [*pair, *pair], np.array([0, 1, 1, 0])
    )
    assert [row.tolist() for row in rows] == [[0.5], [-0.5], [0.5], [-0.5]]


def test_without_weight_it_is_the_plain_trainer() -> None:
    group = [trajectory((0.5, 1.0), (2, 1)), replace(trajectory((0.0,), (2,)), verdict="wrong")]
    advantages, codes = np.array([0.25, -0.25]), np.array([0, 0])
    plain = PolicyGradient().token_advantages(advantages, group, codes)
    weighted = ProcessReward(process_coef=0.0).token_advantages(advantages, group, codes)
    for a, b in zip(plain, weighted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_faults_name_the_setting() -> None:
    with pytest.raises(ConfigError) as caught:
        ProcessReward(lr=0, epochs=0, schedule="step", process_coef=-1)
    for part in (
        "lr must be",
        "epochs must be",
        "schedule must be one of constant, cosine, linear",
        "process_coef",
    ):
        assert part in str(caught.value)
