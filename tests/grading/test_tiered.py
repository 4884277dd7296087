"""Two graders in one, and students of a teacher."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gagar_core.errors import ConfigError
from gagar_core.grading.distilled import TEACHERS, DistilledXs
from gagar_core.grading.grade import grade_groups
from gagar_core.grading.labelled import LabelledGroup
from gagar_core.grading.rules import Length, NoGrader, TrajectoryRule
from gagar_core.grading.teaching import taught_by
from gagar_core.grading.tiered import PARTS, Tiered, pass_rate
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import stream
from gagar_core.types import Group
from tests.grading.test_tools import DOUBLE, DOUBLING, trajectory

SHORT_BUT_WASTEFUL = trajectory(DOUBLE, gen_tokens=20, redundant_test_runs=3)
LONG_BUT_CLEAN = trajectory(DOUBLE, gen_tokens=90)
LOST = trajectory(DOUBLE, verdict="wrong")
DROPPED = trajectory(DOUBLE, verdict="infra")


def group(number: int, failing: int) -> Group:
    return Group(number, DOUBLING, (SHORT_BUT_WASTEFUL, LONG_BUT_CLEAN, *[LOST] * failing, DROPPED))


def test_the_pass_rate_of_a_group_decides_who_grades_it(sandbox: ProcessSandbox) -> None:
    grader = Tiered(easy="trajectory_rule", hard="length", border=0.5).build({})
    groups = [group(0, 2), group(1, 3), group(2, 0)]
    assert [pass_rate(g) for g in groups] == [0.5, 0.4, 1.0]
    rankings = grade_groups(groups, grader, sandbox)
    assert [ranking.ranks[:2] for ranking in rankings] == [(2, 1), (1, 2), (2, 1)]  # waste, length, waste
    alone = [grade_groups([g], grader, sandbox)[0].ranks[:2] for g in groups]
    assert alone == [ranking.ranks[:2] for ranking in rankings]
    assert pass_rate(Group(0, DOUBLING, (DROPPED,))) == 0


def test_parts_that_learn_keep_their_parameters_apart() -> None:
    settings = Tiered(easy="distilled_xs", hard="distilled_xs", fit_epochs=3, train_groups=5)
    weights = {
        name: value.numpy()
        for role in ("easy", "hard")
        for name, value in (
            (f"{role}.{key}", tensor)
            for key, tensor in DistilledXs()._network(stream(0, role)).state_dict().items()
        )
    }
    grader = settings.build(weights)
    easy, hard = grader._parts  # type: ignore[attr-defined]
    name = next(iter(easy._network.state_dict()))
    assert np.array_equal(easy._network.state_dict()[name].numpy(), weights[f"easy.{name}"])
    assert not np.array_equal(weights[f"easy.{name}"], weights[f"hard.{name}"])
    assert np.array_equal(hard._network.state_dict()[name].numpy(), weights[f"hard.{name}"])
    part = settings.part("easy")
    assert (part.fit_epochs, part.train_groups, part.fit_lr) == (3, 5, DistilledXs.fit_lr)
    with pytest.raises(ValueError, match="another network"):
        settings.build({key: value for key, value in weights.items() if key.startswith("easy")})


def test_rules_alone_need_no_parameters(sandbox: ProcessSandbox) -> None:
    settings = Tiered(easy="length", hard="trajectory_rule")
    assert settings.fit([], sandbox, stream(0, "test")) == {}
    assert isinstance(settings.part("hard"), TrajectoryRule)


def test_an_oracle_is_no_part_and_no_teacher() -> None:
    assert not {"oracle", "random", "self_likelihood", "none"} & set(PARTS)
    with pytest.raises(ConfigError, match="hard must be one of"):
        Tiered(hard="oracle")
    with pytest.raises(ConfigError, match="teacher must be one of agentic_l, agentic_s; got 'oracle'"):
        DistilledXs(teacher="oracle")
    with pytest.raises(ConfigError, match="a student of a teacher never sees"):
        DistilledXs(teacher=TEACHERS[0], recalibrate_every=5)


def test_a_student_is_given_ranks_and_no_label(sandbox: ProcessSandbox) -> None:
    one = LabelledGroup(group(0, 1), (0.25, 0.5, math.nan, math.nan), "sft")
    (taught,) = taught_by(Length(), [one], sandbox, np.random.default_rng)
    assert taught.quality[:2] == (-1, -2)  # the teacher's order, though the labels say the opposite
    assert taught.label_share == ()
    assert [math.isnan(value) for value in taught.quality[2:]] == [True, True]
    labels_do_not_matter = replace(one, label_share=(1.0, 0.0, math.nan, math.nan))
    (other,) = taught_by(Length(), [labels_do_not_matter], sandbox, np.random.default_rng)
    assert repr(other) == repr(taught)
    assert taught_by(NoGrader(), [one], sandbox, np.random.default_rng) == []
