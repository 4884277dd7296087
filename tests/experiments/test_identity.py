"""Who a run is: golden ids, and what does and does not change them."""

from __future__ import annotations

from experiments.compose import compose
from experiments.identity import run_id, variant_label

GOLDEN = {
    "algorithm=gagar": "e1bbebb2ffe0",
    "algorithm=grpo": "5ab31ab49870",
    "algorithm=gagar weighting.floor=0.4 seed=7": "b5ef06c3ff2c",
}
"""If these change, every run folder ever written gets another name: raise CONFIG_EPOCH instead."""


def identity(words: str) -> str:
    return run_id(compose(words.split()))


def test_golden_ids() -> None:
    assert {words: identity(words) for words in GOLDEN} == GOLDEN


def test_bookkeeping_and_spelling_do_not_matter() -> None:
    base = identity("algorithm=gagar trainer.lr=0.001 seed=1")
    for words in (
        "seed=1 trainer.lr=1e-3 algorithm=gagar",
        "algorithm=gagar trainer.lr=1.0e-3 seed=1 root=/tmp/x name=other tracking=none",
        "algorithm=gagar trainer.lr=0.001 seed=1.0 budget.steps=6e1 tracking.uri=uri sandbox.log=x",
        "algorithm=gagar trainer.lr=0.001 seed=1 sandbox.level=rlimits sandbox.workers=2",
        "algorithm=gagar trainer.lr=0.001 seed=1 grader=trajectory_rule weighting.floor=0.1",
        "algorithm=dr_grpo redistribution=sum_preserving weighting=linear grader=trajectory_rule "
        "trainer.lr=0.001 seed=1",
    ):
        assert identity(words) == base


def test_what_changes_a_result_changes_the_id() -> None:
    words = [
        "", "seed=1", "weighting.floor=0.3", "weighting.floor=0.30000001", "budget=full", "budget.steps=61",
        "loss=prompt_mean", "estimator=grpo", "tasks.public_tests=1", "sandbox.fuel=20000", "policy.size=m",
        "grader.edit_cost=2", "redistribution.start_step=5", "sampling=keep_all",
    ]  # fmt: skip
    assert len({identity("algorithm=gagar " + word) for word in words}) == len(words)


def test_an_integer_on_a_float_field_is_that_float() -> None:
    assert identity("algorithm=gagar trainer.grad_clip=2") == identity(
        "algorithm=gagar trainer.grad_clip=2.0"
    )


def test_labels() -> None:
    labels = {
        "algorithm=gagar": "gagar",
        "algorithm=grpo sampling=keep_all": "grpo sampling=keep_all",
        "algorithm=gagar weighting.floor=0.4 seed=3": "gagar weighting.floor=0.4",
        "estimator=rloo redistribution=none weighting=uniform grader=none": "rloo",
        "algorithm=gagar budget=smoke": "gagar",
        "algorithm=gagar budget.steps=9 loss=prompt_mean": "gagar loss=prompt_mean budget.steps=9",
    }
    assert {words: variant_label(compose(words.split())) for words in labels} == labels
