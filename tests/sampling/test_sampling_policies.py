"""What distinguishes the sampling policies that ask for tasks themselves, and their limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from gagar_core.errors import GagarError
from gagar_core.protocols import SamplingRound
from gagar_core.sampling.adaptive import AdaptiveGroup, Curriculum
from gagar_core.sampling.outcome import BudgetSampling, outcome
from gagar_core.sampling.refill import Refill
from gagar_core.sampling.shares import Band
from gagar_core.training.feed import TaskFeed
from gagar_core.types import Group, Task
from tests.sampling.coin import group, play, sampler, tasks

FEED = TaskFeed(tasks(60), 8, 0)


def seen(
    number: int = 0, groups: list[Group] | None = None, state: Mapping[str, Any] | None = None
) -> SamplingRound:
    return SamplingRound(FEED, 0, number, 6, groups or [], state or {})


class TestRefill:
    def test_fills_the_step_and_then_stops(self) -> None:
        steps = play(sampler(Refill(rounds=12), lambda task: 0.5 if int(task.id[1:]) % 2 else 0.0), range(20))
        for data in steps:
            assert len(data.kept) == 8
            assert data.rounds > 1
            ids = [g.task.id for g in data.groups]
            assert len(set(ids)) == len(ids)  # no task twice in a step
        assert len({data.rounds for data in steps}) > 1

    def test_asks_only_for_what_is_missing(self) -> None:
        groups = [group("pass wrong", task) for task in FEED.at(0)[:5]] + [group("pass pass")] * 3
        wanted = Refill(oversample=2).request(seen(1, groups))
        assert [task for task, _ in wanted] == FEED.extra(0, 0, 6)  # 3 missing, two tasks for each
        assert {size for _, size in wanted} == {6}
        more = Refill(oversample=2).request(seen(2, groups + [group("pass pass")] * 6))
        assert [task for task, _ in more] == FEED.extra(0, 6, 6)
        full = groups + [group("pass wrong")] * 3
        assert Refill(oversample=2).request(seen(2, full)) == []

    def test_oversampling_starts_in_the_first_round(self) -> None:
        wanted = [task for task, _ in Refill(oversample=1.5).request(seen())]
        assert wanted[:8] == FEED.at(0)
        assert wanted[8:] == FEED.extra(0, 0, 4)

    def test_that_never_fills_is_bounded_and_trains_on_what_it_has(self) -> None:
        (data,) = play(sampler(Refill(rounds=3), lambda task: 0.0), [0])
        assert (data.rounds, len(data.groups), data.kept) == (3, 24, [])
        (data,) = play(sampler(Refill(rounds=30), lambda task: 1.0, count=20), [0])
        assert len(data.groups) == 20  # every task once, then there is none left

    def test_or_says_what_to_change(self) -> None:
        with pytest.raises(GagarError) as caught:
            play(sampler(Refill(rounds=2, when_short="error"), lambda task: 0.0), [0])
        assert "found 0 of 8 mixed groups in 2 rounds of step 0 (16 groups sampled)" in str(caught.value)
        assert "raise sampling.rounds, budget.group_size or budget.sft_demos" in str(caught.value)

    def test_more_rounds_are_advised_only_where_they_help(self) -> None:
        for rounds, count, said in (
            (
                5,
                20,
                "in 3 rounds of step 0 (20 groups sampled): all 20 training tasks are used up and tasks are",
            ),
            (32, 600, "in 32 rounds of step 0 (256 groups sampled): tasks are too hard"),
        ):
            with pytest.raises(GagarError) as caught:
                play(sampler(Refill(rounds=rounds, when_short="error"), lambda task: 0.0, count=count), [0])
            assert said in str(caught.value)
            assert "raise budget.group_size or budget.sft_demos" in str(caught.value)


class TestAdaptiveGroup:
    def test_sizes_by_hand(self) -> None:
        policy = AdaptiveGroup(smallest=2, full_at=0.25)

        def sizes(disagreement: float | None) -> list[int]:
            return [size for _, size in policy.request(seen(state={"disagreement": disagreement}))]

        assert sizes(None) == sizes(0.4) == sizes(0.25) == [6] * 8
        assert sizes(0.125) == [3] * 16  # half of full_at: half the size, twice the tasks
        assert sizes(0.0) == [2] * 24
        assert sizes(0.16) == [4] * 12
        assert sizes(0.2) == [6] * 3 + [5] * 6  # 48 trajectories over 9 tasks
        assert sum(sizes(0.2)) == 48

    def test_tasks_are_distinct_and_start_with_those_of_the_step(self) -> None:
        chosen = [task for task, _ in AdaptiveGroup().request(seen(state={"disagreement": 0.0}))]
        assert chosen[:8] == FEED.at(0)
        assert len({task.id for task in chosen}) == 12

    def test_few_tasks_get_larger_groups_again(self) -> None:
        few = SamplingRound(TaskFeed(tasks(9), 8, 0), 0, 0, 6, [], {"disagreement": 0.0})
        assert [size for _, size in AdaptiveGroup(smallest=2).request(few)] == [6, 6, 6, 5, 5, 5, 5, 5, 5]

    def test_disagreement_by_hand(self) -> None:
        policy = AdaptiveGroup(memory=0.75)
        groups = [
            group("pass wrong wrong wrong"),
            group("pass pass"),
            group("pass wrong infra"),
            group("pass infra"),
        ]
        first = policy.observe(groups, policy.start())
        assert first["disagreement"] == pytest.approx((2 * 1 * 3 / 12 + 0 + 1) / 3)
        second = policy.observe([group("wrong wrong")], first)
        assert second["disagreement"] == pytest.approx(0.75 * 0.5)
        assert policy.observe([group("infra infra")], second) == second

    def test_groups_shrink_when_the_policy_masters_its_tasks(self) -> None:
        steps = play(sampler(AdaptiveGroup(), lambda task: 0.97), range(12))
        assert [len(g.trajectories) for g in steps[0].groups] == [6] * 8
        assert [len(g.trajectories) for g in steps[11].groups] == [4] * 12

    def test_a_smallest_group_above_the_budget_is_refused(self) -> None:
        assert AdaptiveGroup(smallest=6).check(6) == []
        assert AdaptiveGroup(smallest=7).check(6) == [
            "sampling.smallest=7 is larger than budget.group_size=6; set it to 2..6"
        ]


class TestCurriculum:
    def test_rates_by_hand(self) -> None:
        policy = Curriculum(prior=4, memory=0.5)
        first, second = tasks(2, difficulty=0.25)
        state = policy.observe([group("pass pass wrong infra", first)], policy.start())
        assert policy.rates([first, second], state).tolist() == pytest.approx([(2 + 3) / (3 + 4), 0.75])
        state = policy.observe([group("wrong wrong", first)], state)
        assert policy.rates([first], state).tolist() == pytest.approx([(1 + 3) / (1 + 2.5 + 4)])

    def test_tasks_that_teach_come_most_often(self) -> None:
        def rate(task: Task) -> float:
            return {0: 0.0, 1: 0.5, 2: 1.0}[int(task.id[1:]) % 3]

        steps = play(sampler(Curriculum(), rate), range(10, 60))
        drawn = Counter(int(g.task.id[1:]) % 3 for data in steps[10:] for g in data.groups)
        assert drawn[1] > 2 * max(drawn[0], drawn[2])
        assert min(drawn.values()) > 0  # the others are still looked at
        assert all(len({g.task.id for g in data.groups}) == 8 for data in steps)

    def test_it_finds_more_mixed_groups_than_the_plain_order(self) -> None:
        def rate(task: Task) -> float:
            return 0.5 if int(task.id[1:]) < 12 else 1.0

        def mixed(policy: BudgetSampling) -> int:
            return sum(
                outcome(g) == "mixed" for data in play(sampler(policy, rate), range(30)) for g in data.groups
            )

        assert mixed(Curriculum()) > 1.5 * mixed(BudgetSampling())


class TestBand:
    def test_that_can_never_keep_a_group_is_refused(self) -> None:
        (fault,) = Band(low=0.4, high=0.45).check(6)
        assert "groups of 6 have the pass rates 0, 0.167, 0.333, 0.5" in fault
        assert "set a larger budget.group_size" in fault
        assert Band(low=0.4, high=0.45).check(7) == []  # 3 of 7


class Endless(BudgetSampling):
    """Asks for ever."""

    def request(self, seen: SamplingRound) -> list[tuple[Task, int]]:
        return [(seen.feed.tasks[0], 2)]


class Single(BudgetSampling):
    """Asks for groups of one."""

    def request(self, seen: SamplingRound) -> list[tuple[Task, int]]:
        return [(seen.feed.tasks[0], 1)]


def test_the_trainer_ends_what_does_not_end_itself() -> None:
    with pytest.raises(GagarError, match="Endless asked for more than 64 rounds in step 0"):
        play(sampler(Endless(), lambda task: 0.5), [0])


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(GagarError, match="Single asked for a group of one"):
        play(sampler(Single(), lambda task: 0.5), [0])
