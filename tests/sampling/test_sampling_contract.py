"""What every sampling policy keeps: reproducible draws, bounded work, decisions on outcomes alone."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_core.choices import CHOICES
from gagar_core.protocols import SamplingRound
from gagar_core.sampling.outcome import REASONS, outcome
from gagar_core.training.feed import TaskFeed
from gagar_core.types import Case, Group, Task, Trajectory
from tests.sampling.coin import PLAIN, Coin, fingerprint, play, sampler, tasks

NAMES = sorted(CHOICES["sampling"])
STEPS = range(6)
ROOT = Path(__file__).parent.parent.parent


def rate(task: Task) -> float:
    """Every fifth task always fails, every fifth always passes, the others in between."""
    return (int(task.id[1:]) % 5) / 4


def policy(name: str) -> Any:
    return CHOICES["sampling"][name]()


@pytest.mark.parametrize("name", NAMES)
class TestSamplingPolicy:
    def test_the_same_seed_draws_the_same_and_another_does_not(self, name: str) -> None:
        prints = []
        for seed in (0, 0, 1):
            trainer = sampler(policy(name), rate, seed=seed)
            prints.append(fingerprint(play(trainer, STEPS), trainer.state))
        assert prints[0] == prints[1] != prints[2]

    def test_stopped_after_any_step_it_goes_on_as_if_it_had_not(self, name: str) -> None:
        whole = sampler(policy(name), rate)
        want = fingerprint(play(whole, STEPS), whole.state)
        for cut in STEPS:
            first, second = sampler(policy(name), rate), sampler(policy(name), rate)
            before = play(first, STEPS[:cut])
            second.restore(json.loads(json.dumps(first.state, allow_nan=False)))
            assert fingerprint(before + play(second, STEPS[cut:]), second.state) == want

    def test_work_is_bounded_and_told(self, name: str) -> None:
        for p in (0.0, 1.0, 0.5):
            for data in play(sampler(policy(name), lambda task, p=p: p), STEPS):  # type: ignore[misc]
                assert 1 <= data.rounds <= 32
                assert len(data.drop_reasons) == len(data.groups) <= 32 * 8 * 8
                assert set(data.drop_reasons) <= set(REASONS)
                assert all(len(group.trajectories) >= 2 for group in data.groups)
                kept = [(g, r) for g, r in data.rows]
                assert {g for g, _ in kept} == {i for i, r in enumerate(data.drop_reasons) if not r}

    def test_group_ids_are_unique_and_rising(self, name: str) -> None:
        ids = [group.id for data in play(sampler(policy(name), rate), STEPS) for group in data.groups]
        assert ids == list(range(len(ids)))

    def test_every_group_is_of_one_training_task(self, name: str) -> None:
        for data in play(sampler(policy(name), rate), STEPS):
            for group in data.groups:
                assert {t.task_id for t in group.trajectories} == {group.task.id}

    def test_what_is_kept_can_be_compared(self, name: str) -> None:
        for data in play(sampler(policy(name), rate), STEPS):
            assert "too_few_valid" not in {outcome(group) for group in data.kept}
            if name not in ("keep_all", "anchors"):
                assert {outcome(group) for group in data.kept} <= {"mixed"}

    def test_only_outcomes_matter(self, name: str) -> None:
        """Whatever else is in a group, audit tests included, neither choice nor memory nor the next draw moves."""
        chosen, feed = policy(name), TaskFeed(tasks(60), 8, 0)
        (data,) = play(sampler(chosen, rate), [0])
        changed = [replace(g, task=_other_tests(g.task), trajectories=_other_rows(g)) for g in data.groups]
        assert chosen.select(changed, 8) == data.drop_reasons
        states = [chosen.observe(groups, chosen.start()) for groups in (data.groups, changed)]
        assert states[0] == states[1]
        wanted = [
            [(task.id, size) for task, size in chosen.request(SamplingRound(feed, 1, 0, 6, [], state))]
            for state in states
        ]
        assert wanted[0] == wanted[1]


def _other_tests(task: Task) -> Task:
    return replace(task, statement="?", audit=(Case((), 1),), label=(Case((), 2),), spec=("@x",))


def _other_rows(group: Group) -> tuple[Trajectory, ...]:
    numbers = {f.name: 99 for f in fields(Trajectory) if f.type == "int"}
    rest: Any = {**numbers, "files": {"f.py": "x"}, "stop_reason": "token_budget", "turn_shares": (0.5,)}
    return tuple(replace(t, **rest) for t in group.trajectories)


def test_every_policy_draws_the_same_in_another_process() -> None:
    code = (
        "from tests.sampling.test_sampling_contract import *\n"
        "for name in NAMES:\n"
        "    trainer = sampler(policy(name), rate)\n"
        "    print(fingerprint(play(trainer, STEPS), trainer.state))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    )
    here = []
    for name in NAMES:
        trainer = sampler(policy(name), rate)
        here.append(fingerprint(play(trainer, STEPS), trainer.state))
    assert done.stdout.split() == here


def test_the_first_round_has_the_same_tasks_and_random_numbers_for_all_that_do_not_choose_tasks() -> None:
    """What a seed block shares: a policy that only filters sees what ``mixed_only`` sees, bit for bit."""
    first = {name: play(sampler(policy(name), rate), [0, 1, 2])[2].groups[:8] for name in NAMES}
    for name in ("keep_all", "anchors", "band", "refill"):
        shared = [(g.task.id, [t.verdict for t in g.trajectories]) for g in first[name]]
        assert shared == [(g.task.id, [t.verdict for t in g.trajectories]) for g in first["mixed_only"]]


@given(
    verdicts=st.lists(
        st.lists(st.sampled_from(["pass", "wrong", "infra", "timeout"]), min_size=2, max_size=9), max_size=12
    ),
    name=st.sampled_from(NAMES),
    wanted=st.integers(1, 12),
)
def test_select_gives_one_known_reason_per_group(verdicts: list[list[str]], name: str, wanted: int) -> None:
    groups = [
        Group(i, task, tuple(replace(PLAIN, verdict=v) for v in row))
        for i, (row, task) in enumerate(zip(verdicts, tasks(len(verdicts)), strict=True))
    ]
    reasons = policy(name).select(groups, wanted)
    assert len(reasons) == len(groups)
    assert set(reasons) <= set(REASONS)
    for group, reason in zip(groups, reasons, strict=True):
        assert (reason == "too_few_valid") == (outcome(group) == "too_few_valid")
        assert reason not in ("all_pass", "all_fail") or reason == outcome(group)


@pytest.mark.parametrize("name", NAMES)
def test_a_coin_is_asked_once_per_trajectory(name: str) -> None:
    trainer = sampler(policy(name), rate)
    coin = trainer._parts.policy
    assert isinstance(coin, Coin)
    steps = play(trainer, STEPS)
    assert len(coin.asked) == sum(len(g.trajectories) for data in steps for g in data.groups)
