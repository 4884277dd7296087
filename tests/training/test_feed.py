"""The order of tasks: every task once per epoch, the same for all variants of a seed block."""

from __future__ import annotations

from gagar_core.tasks.suite import Suite
from gagar_core.training.feed import TaskFeed


def test_epochs(suite: Suite) -> None:
    feed = TaskFeed(suite.train, 8, seed=3)
    drawn = [task.id for step in range(50) for task in feed.at(step)]  # 400 = two epochs of 200
    everything = sorted(task.id for task in suite.train)
    assert sorted(drawn[:200]) == everything
    assert sorted(drawn[200:]) == everything
    assert drawn[:200] != drawn[200:]


def test_a_step_follows_from_seed_and_number_alone(suite: Suite) -> None:
    one, two = TaskFeed(suite.train, 12, 0), TaskFeed(suite.train, 12, 0)
    two.at(3)
    assert one.at(17) == two.at(17)
    assert TaskFeed(suite.train, 12, 1).at(0) != one.at(0)


def test_extra_tasks_are_the_others_in_an_order_of_the_step(suite: Suite) -> None:
    feed = TaskFeed(suite.train, 12, 0)
    everything = feed.extra(4, 0, 1000)
    assert sorted(t.id for t in [*everything, *feed.at(4)]) == sorted(t.id for t in suite.train)
    assert feed.extra(4, 0, 30) + feed.extra(4, 30, 1000) == everything
    assert feed.extra(4, 188, 5) == feed.extra(4, 0, 0) == []
    assert feed.extra(5, 0, 30) != everything[:30]
    assert TaskFeed(suite.train, 12, 1).extra(4, 0, 30) != everything[:30]
