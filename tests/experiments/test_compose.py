"""Configuration: what is refused, and how it is said."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from experiments.attempts import create_run_folder
from experiments.compose import compose
from experiments.schema import CHOICES, check_together
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
        (["hydra.run.dir=/tmp/x"], ["hydra.run.dir=/tmp/x", "root= and name= say where"]),
        (["hydra/job_logging=none"], ["hydra/job_logging=none", "no effect"]),
        (["algorithm=[grpo,gagar]"], ["one choice and no list", "algorithm=grpo,gagar"]),
        (["loss=[token_mean]"], ["loss=[token_mean]", "one choice and no list"]),
        (["sandbox.fuel=1"], ["fuel must be in [1000, inf); got 1"]),
    ],
)
def test_refused_naming_key_value_and_what_is_valid(words: list[str], said: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["algorithm=gagar", *words])
    for part in said:
        assert part in str(caught.value)


def test_words_for_several_runs_name_the_command_for_them() -> None:
    for word in ("seed=0,1", "seed=range(2)", "algorithm=grpo,gagar"):
        with pytest.raises(ConfigError) as caught:
            compose([word, "budget=smoke"])
        assert f"{word}: one run takes one value of each" in str(caught.value)
        assert "python -m sweeps submit " in str(caught.value)
        assert "multirun" not in str(caught.value)


def test_no_more_held_out_tasks_are_evaluated_than_there_are() -> None:
    check_together(compose(["budget.eval_tasks=98"]))
    check_together(compose(["tasks=mixed", "budget.eval_tasks=196"]))
    with pytest.raises(ConfigError, match=r"eval_tasks=99, but tasks=list_functions has 98 held-out tasks"):
        check_together(compose(["budget.eval_tasks=99"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOICES["tasks"])
def test_fields_tell_how_many_tasks_a_suite_holds_out(name: str) -> None:
    suite = CHOICES["tasks"][name]()
    sizes = [getattr(suite, f.name) for f in fields(suite) if f.name.startswith("held_out_")]
    assert sum(sizes) == len(suite.load().held_out)


def test_range_faults_of_all_axes_are_gathered() -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["trainer.lr=0", "budget.steps=-1", "tasks.truncation=stop"])
    for part in ("lr must be in (0, inf); got 0", "steps must be in", "truncation must be one of"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("weighting=tiers", "weighting=tiers reads tiers, which grader=trajectory_rule does not give"),
        (
            "sampling=band sampling.low=0.4 sampling.high=0.45",
            "sampling=band can keep no group: groups of 8 have",
        ),
        (
            "sampling=adaptive_group sampling.smallest=9",
            "sampling.smallest=9 is larger than budget.group_size=8; set it to 2..8",
        ),
        (
            "trainer.minibatches=13",
            "cuts the 12 groups of a step into batches smaller than a group; set it to 1..12",
        ),
        ("grader=none", "weighting=linear reads ranks, which grader=none does not give"),
        (
            "shaping=product grader=none redistribution=none",
            "shaping=product reads scores, which grader=none",
        ),
        (
            "shaping=product grader=length",
            "scores in [0, 1], which grader=length does not give; constitution, random do",
        ),
        (
            "shaping=product grader=constitution grader.swap_prob=0.5",
            "scores in [0, 1], and grader.swap_prob takes them out of it; set 0",
        ),
        ("name=../esc", "name must be 1 to 80 of A-Z"),
        ("name=''", "name must be 1 to 80 of A-Z"),
    ],
)
def test_choices_that_cannot_work_together_are_refused_before_a_folder_is_made(
    words: str, said: str, tmp_path: Path
) -> None:
    config = compose(["algorithm=gagar", f"root={tmp_path}", *words.split()])
    with pytest.raises(ConfigError) as caught:
        create_run_folder(config)
    assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_weighting_that_reads_lengths_needs_no_grader(tmp_path: Path) -> None:
    config = compose(["algorithm=gagar", "grader=none", "weighting=length_bucket", f"root={tmp_path}"])
    assert create_run_folder(config).is_dir()
