"""Parity with TRL's trainers, by capturing one real step on the CPU. Needs the extra ``trl``; slow lane.

A one-layer GPT-2 with a tokenizer built in memory: nothing is loaded from a hub.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
import torch

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.redistribution import SumPreserving
from gagar_core.choices import CHOICES

os.environ.setdefault("HF_HUB_OFFLINE", "1")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    trl = pytest.importorskip(
        "trl",
        reason="trl is not installed here; its extra is 'trl' (parity was not checked)",
        exc_type=ImportError,
    )

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ESTIMATOR = CHOICES["estimator"]
TASKS, GROUP = 3, 4
WORDS = ["<pad>", "<eos>", *"abcdefgh"]


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


def capture(kind, rewards, folder, **settings):
    """Rewards as TRL saw them and advantages as it computed them, in the order of its first batch."""
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel

    trainer_class = {"grpo": trl.GRPOTrainer, "rloo": trl.RLOOTrainer}[kind]
    seen = {}

    class Capturing(trainer_class):
        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            seen.setdefault("advantages", output["advantages"].clone())
            return output

    def reward(prompts, completions, **_):
        seen.setdefault("prompts", list(prompts))
        return [rewards[i % len(rewards)] for i in range(len(prompts))]

    torch.manual_seed(0)
    config = {"grpo": trl.GRPOConfig, "rloo": trl.RLOOConfig}[kind](
        output_dir=str(folder),
        per_device_train_batch_size=TASKS * GROUP,
        num_generations=GROUP,
        max_completion_length=4,
        max_steps=1,
        use_cpu=True,
        bf16=False,
        report_to=[],
        logging_steps=1,
        save_strategy="no",
        beta=0.0,
        **settings,
    )
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(WORDS),
            n_positions=32,
            n_embd=16,
            n_layer=1,
            n_head=2,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=1,
        )
    )
    trainer = Capturing(
        model=model,
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": f"{a} b"} for a in "abcdef"]),
        processing_class=tokenizer(),
    )
    trainer.train()
    return seen["prompts"], seen["advantages"]


REWARDS = {
    "binary": [1, 0, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1],
    "shaped": [0.9, 0.1, -0.4, 0.2, 1.0, 0.7, 0.3, 0.35, -1.0, 2.0, 0.5, 0.25],
    "unscorable": [1, None, 0, 0, None, 1, None, 0, None, None, 1, None],
}
CASES = [
    ("grpo", "grpo_trl", {"scale_rewards": "group"}),
    ("grpo", "dr_grpo_trl", {"scale_rewards": "none"}),
    ("rloo", "rloo_trl", {}),
]


@pytest.mark.parametrize("rewards", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize(("kind", "name", "settings"), CASES)
def test_same_advantages_in_a_real_step(kind, name, settings, rewards, tmp_path):
    prompts, theirs = capture(kind, rewards, tmp_path, **settings)
    assert [prompts[i] for i in range(0, len(prompts), GROUP)] == list(dict.fromkeys(prompts))
    ours = compute_advantages(rewards, prompts, estimator=ESTIMATOR[name]()).advantages
    np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-5, atol=1e-5)


def test_redistribution_through_its_reward(tmp_path):
    """With scale_rewards="none" the reward A* + mean gives A* back."""
    generator = np.random.default_rng(0)
    rewards, groups = np.array(REWARDS["binary"], float), np.repeat(np.arange(TASKS), GROUP)
    result = compute_advantages(
        rewards,
        groups,
        estimator=ESTIMATOR["dr_grpo"](),
        redistribution=SumPreserving(),
        weights=generator.uniform(0.1, 1, len(rewards)),
    )
    encoded = (result.advantages + rewards - result.base).tolist()
    _, theirs = capture("grpo", encoded, tmp_path, scale_rewards="none")
    np.testing.assert_allclose(theirs.numpy(), result.advantages, rtol=1e-5, atol=1e-5)


def test_difference_dust(tmp_path):
    """Equal float32 rewards leave TRL noise over 1e-4; here they give exact zeros."""
    _, theirs = capture("grpo", [0.6, 0.6, 0.6, 0.6, 0.1, 0.1, 0.1, 0.1, 0.3, 0.3, 0.3, 0.3], tmp_path)
    assert theirs.abs().max() < 2e-3
    ours = compute_advantages([0.6] * 4, "tttt", estimator=ESTIMATOR["grpo_trl"]()).advantages
    assert np.array_equal(ours, np.zeros(4))
