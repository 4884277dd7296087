"""Token-level broadcast (P16), tensors of any float type (P18), and what may be imported where."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.estimators import DrGrpo, Grpo
from gagar_core.advantages.redistribution import SumPreserving
from gagar_core.advantages.tensors import compute_advantages_from_tensors
from gagar_core.advantages.tokens import broadcast
from gagar_core.advantages.weightings import Linear
from gagar_core.errors import InputError

NAN = float("nan")
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_p16_masked_tokens_are_exactly_zero(dtype):
    mask = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]], dtype=dtype)
    found = broadcast([0.5, NAN, -0.25], mask)
    assert found.tolist() == [[0.5, 0, 0.5], [0, 0, 0], [-0.25, -0.25, 0]]
    assert not np.signbit(found[1]).any()
    assert broadcast([], np.zeros((0, 4))).shape == (0, 4)


@pytest.mark.parametrize(("values", "shape"), [([1.0], (2, 3)), ([1.0, 2.0], (2,)), ([[1.0]], (1, 1))])
def test_broadcast_shapes_must_fit(values, shape):
    with pytest.raises(InputError, match="do not fit"):
        broadcast(values, np.ones(shape))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_p18_floats_of_any_width_stay_what_they_are(dtype, device):
    rewards = torch.tensor([1, 1, 1, 0], dtype=dtype, device=device, requires_grad=True)
    mask = torch.tensor([[1, 0], [1, 1], [0, 0], [1, 1]], device=device)
    advantages, result = compute_advantages_from_tensors(
        rewards,
        torch.tensor([3, 3, 3, 3], device=device),
        mask=mask,
        estimator=DrGrpo(),
        redistribution=SumPreserving(),
        weighting=Linear(floor=0.4),
        ranks=torch.tensor([1, 2, 3, NAN], device=device),
    )
    assert (advantages.dtype, advantages.device.type) == (dtype, device)
    assert not advantages.requires_grad
    row = np.array([1, 0.7, 0.4]) * 0.75 / 2.1
    expected = torch.tensor([[row[0], 0], [row[1], row[1]], [0, 0], [-0.75, -0.75]], dtype=torch.float64)
    torch.testing.assert_close(advantages.cpu(), expected.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=0)
    assert result.advantages.dtype == np.float64
    np.testing.assert_allclose(result.advantages[:3].sum(), 0.75, atol=1e-15)
    assert result.groups == [3]


def test_token_rewards_are_summed_and_lengths_come_from_the_mask():
    token_rewards = torch.tensor([[0, 0.75, 0.25], [0, 0, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]], dtype=torch.bool)
    seen = {}

    def estimator(rewards, codes, groups, lengths):
        seen["lengths"] = lengths.tolist()
        return DrGrpo().advantages(rewards, codes, groups, lengths)

    advantages, _ = compute_advantages_from_tensors(token_rewards, ["a", "a"], mask=mask, estimator=estimator)
    assert advantages.tolist() == [[0.5, 0.5, 0.5], [-0.5, 0, 0]]
    assert seen["lengths"] == [3, 1]
    rows, _ = compute_advantages_from_tensors(token_rewards, ["a", "a"], estimator=DrGrpo())
    assert rows.tolist() == [0.5, -0.5]


def test_integer_rewards_give_floats_and_a_new_tensor():
    rewards = torch.tensor([1, 0, 0, 1])
    advantages, _ = compute_advantages_from_tensors(rewards, "aabb", estimator=DrGrpo())
    assert advantages.dtype == torch.get_default_dtype()
    assert advantages.tolist() == [0.5, -0.5, -0.5, 0.5]
    flat = torch.tensor([1.0, 2.0])
    same, _ = compute_advantages_from_tensors(flat, "ab", estimator=lambda r, *_: r)
    assert same.data_ptr() != flat.data_ptr()


def test_equal_float32_rewards_leave_no_dust():
    for value, size in ((0.6, 8), (0.9, 30), (0.1, 3)):
        rewards = torch.full((size,), value)
        advantages, _ = compute_advantages_from_tensors(rewards, [0] * size, estimator=Grpo(eps=1e-9))
        assert torch.equal(advantages, torch.zeros(size))


def test_overflow_of_a_narrow_type_is_an_error():
    with pytest.raises(InputError, match=r"does not fit into torch\.float16"):
        compute_advantages_from_tensors(
            torch.tensor([60000, -60000, -60000], dtype=torch.float16), "aaa", estimator=lambda r, *_: 2 * r
        )


def test_narrow_output_keeps_the_sum_to_its_own_precision():
    generator = np.random.default_rng(0)
    rewards = torch.from_numpy((generator.random(64) < 0.6).astype(np.float32))
    weights = generator.uniform(0.1, 1, 64)
    advantages, result = compute_advantages_from_tensors(
        rewards, [0] * 64, estimator=DrGrpo(), redistribution=SumPreserving(), weights=weights
    )
    passes = rewards > 0
    kept = result.base[passes.numpy()].sum()
    assert abs(float(advantages[passes].double().sum()) - kept) <= 64 * 6e-8 * kept


def test_imports_numpy_alone():
    code = (
        "import sys, gagar_core.advantages, gagar_core.advantages.tensors, gagar_core.choices;"
        "heavy = {'torch', 'polars', 'mlflow', 'optuna', 'hydra', 'scipy', 'pandas'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensors_and_arrays_agree():
    generator = np.random.default_rng(1)
    rewards = generator.random(40)
    groups = generator.integers(0, 5, 40)
    direct = compute_advantages(rewards, groups, estimator=Grpo())
    through, _ = compute_advantages_from_tensors(
        torch.from_numpy(rewards), torch.from_numpy(groups), estimator=Grpo()
    )
    np.testing.assert_array_equal(through.numpy(), direct.advantages)


@pytest.mark.parametrize(("rewards", "mask"), [((4,), (4,)), ((4, 3), (4, 5)), ((4,), (3, 2))])
def test_masks_must_fit(rewards, mask):
    with pytest.raises(InputError, match="mask must be"):
        compute_advantages_from_tensors(
            torch.ones(rewards), ["g"] * 4, mask=torch.ones(mask), estimator=DrGrpo()
        )


def test_a_reward_on_a_masked_token_counts():
    """The outcome may sit on a tool token, as at the end of a truncated rollout."""
    token_rewards, mask = torch.tensor([[0.0, 1.0], [0.0, 0.0]]), torch.tensor([[1, 0], [1, 1]])
    values, _ = compute_advantages_from_tensors(token_rewards, ["g", "g"], mask=mask, estimator=DrGrpo())
    assert values.tolist() == [[0.5, 0.0], [-0.5, -0.5]]
