"""The grader that acts: learns from labelled groups, keeps its budget, and is not misled or moved by order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gagar_core.errors import ConfigError, InputError, SandboxError
from gagar_core.grading.agentic import AgenticGrader, AgenticL, AgenticS
from gagar_core.grading.agentic_network import AgenticNetwork, Files, stacked
from gagar_core.grading.agreement import Agreement, agreement
from gagar_core.grading.casefile import NUM_CONTEXT, NUM_FEATURES, SLOT_OF, SLOTS, CaseFile
from gagar_core.grading.expert import EFFORT, Labels, School, judge_loss, reveals
from gagar_core.grading.grade import grade_groups
from gagar_core.grading.labelled import LabelledGroup, label_groups
from gagar_core.sandbox import ProcessSandbox
from gagar_core.seeds import stream
from gagar_core.tasks.program_styles import write_program
from gagar_core.tasks.suite import Suite
from gagar_core.types import Group, Ranking, Task, Trajectory
from tests.grading.test_tools import ADD, DOUBLE, DOUBLING, FLOODS, LOOPS, LUCKY, PLANTS, trajectory

QUICK: dict[str, Any] = {"fit_epochs": 60, "dagger_rounds": 0}


def written(task: Task, seed: int, size: int = 6) -> Group:
    """Programs of a task, half of them with a mistake, all said to pass: some do so by luck."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(size):
        style = ("terse", "loop", "bloat")[int(rng.integers(3))]
        source = "\n".join(write_program(task.spec, style, bool(rng.random() < 0.5), rng)) + "\n"
        again = int(rng.integers(3))
        rows.append(
            trajectory(
                source,
                gen_tokens=30 + 2 * again,
                obs_tokens=again,
                test_runs=again,
                redundant_test_runs=again,
            )
        )
    return Group(seed, task, tuple(rows))


def labelled(tasks: Sequence[Task], sandbox: ProcessSandbox) -> list[LabelledGroup]:
    return label_groups([written(task, seed) for seed, task in enumerate(tasks)], sandbox, "written")


@pytest.fixture(scope="module")
def unseen(suite: Suite, sandbox: ProcessSandbox) -> list[LabelledGroup]:
    return labelled(suite.held_out[:30], sandbox)


@pytest.fixture(scope="module")
def lessons(suite: Suite, sandbox: ProcessSandbox) -> list[LabelledGroup]:
    return labelled(suite.train[12:60], sandbox)


def fitted(lessons: Sequence[LabelledGroup], sandbox: ProcessSandbox, **settings: Any) -> AgenticGrader:
    made = AgenticS(**{**QUICK, **settings})
    grader = made.build(made.fit(lessons, sandbox, stream(0, "test")))
    assert isinstance(grader, AgenticGrader)
    return grader


@pytest.fixture(scope="module")
def grader(lessons: list[LabelledGroup], sandbox: ProcessSandbox) -> AgenticGrader:
    return fitted(lessons, sandbox)


def judged(grader: AgenticGrader, data: Sequence[LabelledGroup], sandbox: ProcessSandbox) -> Agreement:
    return agreement(data, grade_groups([one.group for one in data], grader, sandbox))


def test_it_learns_to_tell_right_from_lucky_on_tasks_it_never_saw(
    grader: AgenticGrader, unseen: list[LabelledGroup], sandbox: ProcessSandbox
) -> None:
    found = judged(grader, unseen, sandbox)
    assert found.abstained == 0
    assert found.lucky_pairs > 50
    assert found.right_over_lucky is not None
    assert found.right_over_lucky > 0.75
    assert found.pair_accuracy is not None
    assert found.pair_accuracy > 0.75


def test_all_tools_without_a_chooser(
    lessons: list[LabelledGroup], unseen: list[LabelledGroup], sandbox: ProcessSandbox
) -> None:
    everything = fitted(lessons, sandbox, chooser="all", tools=["trace", "fuzz"])
    rankings = grade_groups([one.group for one in unseen], everything, sandbox)
    found = agreement(unseen, rankings)
    assert found.right_over_lucky is not None
    assert found.right_over_lucky > 0.75
    for one, ranking in zip(unseen, rankings, strict=True):  # a fuzz tells about every copy of a program
        ways = {(t.files["f.py"], t.test_runs) for t in one.group.trajectories}
        assert ranking.actions == len(ways) + len({source for source, _ in ways})


def test_without_execution_it_does_not_run_anything(
    lessons: list[LabelledGroup], unseen: list[LabelledGroup], sandbox: ProcessSandbox
) -> None:
    blind = fitted(lessons, sandbox, tools=["trace", "read", "measure", "diff"], hidden=4)
    before = sandbox.counters.calls
    judged(blind, unseen, sandbox)
    assert sandbox.counters.calls == before


def test_the_same_seed_learns_the_same(lessons: list[LabelledGroup], sandbox: ProcessSandbox) -> None:
    settings = AgenticS(fit_epochs=2, dagger_rounds=1, hidden=4)
    one, two = (settings.fit(lessons[:10], sandbox, stream(3, "test")) for _ in range(2))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def same(left: Ranking, right: Ranking, order: Sequence[int]) -> bool:
    names = ("ranks", "scores", "tiers", "evidence")
    return all(repr([getattr(left, n)[i] for i in order]) == repr(list(getattr(right, n))) for n in names)


@pytest.mark.parametrize("seed", range(4))
def test_order_of_candidates_changes_nothing(
    grader: AgenticGrader, unseen: list[LabelledGroup], sandbox: ProcessSandbox, seed: int
) -> None:
    group = unseen[seed].group
    copies = replace(group, trajectories=(*group.trajectories, group.trajectories[0]))
    order = np.random.default_rng(seed).permutation(len(copies.trajectories)).tolist()
    shuffled = replace(copies, trajectories=tuple(copies.trajectories[i] for i in order))
    (here,), (there,) = (grade_groups([g], grader, sandbox) for g in (copies, shuffled))
    assert same(here, there, order)
    assert here.ranks[0] == here.ranks[-1]
    (_, among) = grade_groups([unseen[5].group, copies], grader, sandbox)
    assert among.ranks == here.ranks


@pytest.mark.parametrize("budget", [1, 3, 7])
def test_the_budget_is_kept_and_the_judgement_given(
    grader: AgenticGrader, unseen: list[LabelledGroup], sandbox: ProcessSandbox, budget: int
) -> None:
    for chooser in ("learned", "all"):
        settings = replace(grader._settings, max_actions=budget, chooser=chooser)
        tight = AgenticGrader(grader._network, settings)
        rankings = grade_groups([one.group for one in unseen[:6]], tight, sandbox, settings=settings)
        assert all(not ranking.abstain and ranking.actions <= budget for ranking in rankings)


def test_tiers_follow_the_probability_that_evidence_states(
    grader: AgenticGrader, unseen: list[LabelledGroup], sandbox: ProcessSandbox
) -> None:
    for ranking in grade_groups([one.group for one in unseen], grader, sandbox):
        for tier, words in zip(ranking.tiers, ranking.evidence, strict=True):
            chance = float(words.removeprefix("right with probability ")[:4])
            bounds = [bound for bound in (0.75, 0.25) if abs(chance - bound) > 0.006]  # words have two digits
            assert len(bounds) < 2 or tier == 1 + sum(chance < bound for bound in bounds)
            assert "\n" not in words


@pytest.mark.parametrize(
    "sources",
    [[DOUBLE] * 4, [LOOPS, DOUBLE, ADD], [FLOODS, DOUBLE, ADD], [PLANTS, DOUBLE, LUCKY], ["", "def f(:"]],
)
def test_candidates_that_mislead_are_graded_all_the_same(
    grader: AgenticGrader, sandbox: ProcessSandbox, sources: list[str]
) -> None:
    group = Group(0, DOUBLING, (*map(trajectory, sources), trajectory(LUCKY, verdict="wrong")))
    (ranking,) = grade_groups([group], grader, sandbox)
    assert ranking.abstain == ""
    assert all(math.isfinite(rank) for rank in ranking.ranks[:-1])
    assert math.isnan(ranking.ranks[-1])
    if len(set(sources)) == 1:
        assert set(ranking.ranks[:-1]) == {1.0}


def test_a_workspace_that_cannot_be_made_is_an_abstention_with_its_reason(
    grader: AgenticGrader, unseen: list[LabelledGroup]
) -> None:
    class Gone:
        def calls_batch(self, requests: Any) -> Any:
            raise SandboxError("the sandbox could not be started")

    rankings = grade_groups([one.group for one in unseen[:2]], grader, Gone())  # type: ignore[arg-type]
    assert [r.abstain for r in rankings] == ["SandboxError: the sandbox could not be started"] * 2


def test_settings_are_checked_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        AgenticS(tools=["fuzz", "guess"], fuzz_inputs=25, chooser="none", hidden=1)
    for words in (
        "tools must be one of diff, fuzz",
        "got 'guess'",
        "fuzz_inputs must be in [1, 24]",
        "chooser",
        "hidden",
    ):
        assert words in str(caught.value)
    with pytest.raises(ConfigError, match="tools must name some of"):
        AgenticS(tools=[])


def test_an_untrained_or_foreign_snapshot_is_refused(
    lessons: list[LabelledGroup], sandbox: ProcessSandbox
) -> None:
    with pytest.raises(ValueError, match="has to be trained first"):
        AgenticS().build()
    weights = AgenticS(fit_epochs=1, chooser="all").fit(lessons[:2], sandbox, stream(0, "test"))
    with pytest.raises(ValueError, match="another network"):
        AgenticL().build(weights)
    with pytest.raises(InputError, match="no labelled group"):
        AgenticS().fit([], sandbox, stream(0, "test"))


@pytest.fixture(scope="module")
def school(lessons: list[LabelledGroup], sandbox: ProcessSandbox) -> School:
    settings = AgenticS()
    files = [settings.case_file(one.group, sandbox, 1000) for one in lessons[:8]]
    settings.look_at_everything(files, sandbox, few=True)
    full = stacked(files)
    quality, right = torch.zeros(full.copies.shape), torch.zeros(full.copies.shape)
    for g, (file, one) in enumerate(zip(files, lessons, strict=False)):
        for j, row in enumerate(file.rows):
            quality[g, j], right[g, j] = one.quality[row[0]], float(one.right(row[0]))
    return School(full, Labels(quality, right), reveals(files), torch.tensor(settings.slots()), 0.0)


@pytest.fixture(scope="module")
def network() -> AgenticNetwork:
    torch.manual_seed(0)
    return AgenticNetwork(8, "joint")


class TestExpert:
    def test_a_worth_is_minus_the_loss_after_the_action_and_its_price(
        self, school: School, network: AgenticNetwork
    ) -> None:
        priced = replace(school, price=0.5)
        groups, known = torch.arange(8), torch.zeros_like(school.files.known)
        worths = priced.worths(network, groups, known)
        row, slot = 1, next(k for k, s in enumerate(SLOTS) if s.name == "trace")
        known[3, row, slot] = True
        with torch.no_grad():
            state = school.files.part(groups, known)
            loss = judge_loss(*network.judged(state), school.labels, state.copies)
        assert float(worths[3, row * len(SLOTS) + slot]) == pytest.approx(
            -float(loss[3]) - 0.5 * float(EFFORT[slot])
        )
        untouched = [g for g in range(8) if g != 3]
        assert worths[untouched, -1].tolist() == pytest.approx((-loss[untouched]).tolist())

    def test_it_stops_at_once_where_looking_is_too_dear(
        self, school: School, network: AgenticNetwork
    ) -> None:
        traces = replace(school, price=1e6).states(None, network)
        assert traces.groups.tolist() == list(range(8))
        assert set(traces.actions.tolist()) == {traces.worths.shape[1] - 1}

    def test_it_never_lowers_what_it_can_reach_and_ends_where_nothing_helps(
        self, school: School, network: AgenticNetwork
    ) -> None:
        traces = school.states(None, network)
        for group in range(8):
            own = traces.worths[traces.groups == group]
            losses = (-own[:, -1]).tolist()
            assert losses == sorted(losses, reverse=True)
            assert float(own[-1].max()) == float(own[-1, -1])
        assert len(traces.groups) > 16

    def test_one_look_tells_about_every_copy_of_a_program(self, sandbox: ProcessSandbox) -> None:
        ways: list[Trajectory] = [trajectory(DOUBLE), trajectory(DOUBLE, edits=1), trajectory(ADD)]
        file = AgenticS().case_file(Group(0, DOUBLING, tuple(ways)), sandbox, 1000)
        shown = reveals([file])[0]
        rows = [next(j for j, row in enumerate(file.rows) if row == [k]) for k in range(3)]
        fuzz, trace = (next(k for k, s in enumerate(SLOTS) if s.name == n) for n in ("fuzz", "trace"))
        assert sorted(torch.nonzero(shown[rows[0], fuzz]).flatten().tolist()) == sorted(rows[:2])
        assert torch.nonzero(shown[rows[0], trace]).flatten().tolist() == [rows[0]]
        file.act(rows[0], fuzz)
        assert file.known[rows[1], fuzz]
        assert not file.known[rows[2], fuzz]


def test_judge_loss_by_hand() -> None:
    labels = Labels(torch.tensor([[2.0, 1.0, 1.0, 9.0]]), torch.tensor([[1.0, 0.0, 0.0, 1.0]]))
    copies = torch.tensor([[1.0, 2.0, 1.0, 0.0]])  # the last row is padding
    loss = judge_loss(torch.tensor([[1.0, 0.0, 1.0, 7.0]]), torch.zeros(1, 4), labels, copies)
    ordered = (math.log1p(math.exp(-1.0)) + math.log(2.0)) / 2  # two pairs: 1 over 0, and a tie
    assert float(loss) == pytest.approx(ordered + 0.5 * math.log(2.0), rel=1e-6)


def test_padding_and_what_is_not_known_change_no_score() -> None:
    torch.manual_seed(0)
    network = AgenticNetwork(8, "joint")
    generator = torch.Generator().manual_seed(1)
    values = torch.rand(1, 3, NUM_FEATURES, generator=generator)
    known = torch.rand(1, 3, len(SLOTS), generator=generator) < 0.5
    context, copies = torch.rand(1, 3, NUM_CONTEXT, generator=generator), torch.tensor([[1.0, 2.0, 1.0]])
    files = Files(values, known, context, copies)
    wide = Files(
        *(torch.cat([part, torch.zeros_like(part[:, :2])], 1) for part in (values, known, context, copies))
    )
    hidden = replace(files, values=values.masked_fill(~known[..., torch.from_numpy(SLOT_OF)], 5.0))
    with torch.no_grad():
        scores = network.judged(files)[0]
        assert torch.allclose(network.judged(wide)[0][:, :3], scores)
        assert torch.equal(network.judged(hidden)[0], scores)
        every = torch.ones(len(SLOTS), dtype=torch.bool)
        chosen, broad = network.chosen(files, every).exp(), network.chosen(wide, every).exp()
        assert float(chosen.sum()) == pytest.approx(1)
        assert torch.allclose(broad[0, : chosen.shape[1] - 1], chosen[0, :-1], atol=1e-6)
        assert float(broad[0, -1]) == pytest.approx(float(chosen[0, -1]), abs=1e-6)
    assert not bool((chosen[0, :-1].reshape(3, -1)[known[0]] > 0).any())


def test_a_case_file_knows_failing_trajectories_only_where_they_may_be_seen(sandbox: ProcessSandbox) -> None:
    group = Group(0, DOUBLING, (trajectory(DOUBLE), trajectory(LUCKY, verdict="wrong")))
    blind, seeing = (AgenticS(context=c).case_file(group, sandbox, 9) for c in ("passing_only", "all"))
    assert isinstance(blind, CaseFile)
    assert blind.context[0].tolist() == [0, 0, 0, 0, 0, 0]
    assert seeing.context[0].tolist() == pytest.approx([0, 0, 0, 0, 0.5, math.log1p(32) / 2])
