"""The front: worked example, acceptance cases, inputs that cannot be meant, documented fallbacks."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.baselines import Opo, Reinforce, ReinforcePP
from gagar_core.advantages.estimators import DrGrpo, Grpo, Rloo
from gagar_core.advantages.graded_weightings import LengthBucket, SoftmaxScore, Tiers
from gagar_core.advantages.redistribution import REASONS, NoRedistribution, SumPreserving
from gagar_core.advantages.weightings import Linear, Uniform
from gagar_core.errors import ConfigError, InputError

NAN = float("nan")
RESCALE = SumPreserving()


def close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def one_group(rewards, estimator=None, **options):
    return compute_advantages(rewards, ["task"] * len(rewards), estimator=estimator or DrGrpo(), **options)


def test_worked_example():
    result = one_group([1, 1, 1, 0], redistribution=RESCALE, weights=[1, 0.85, 0.4, NAN])
    close(result.advantages, [1 / 3, 0.85 / 3, 0.4 / 3, -0.75])
    close(result.base, [0.25, 0.25, 0.25, -0.75])
    close(result.weights, [1, 0.85, 0.4, 1])
    close(result.lambda_, [4 / 3])
    close(result.positive_mass_kept, [1])
    assert result.groups == ["task"]
    assert result.fallback.tolist() == [""]


# Acceptance cases A1 to A6


def test_a1_flags_are_honoured():
    rewards = [1, 1, 0, 0]
    close(one_group(rewards, Grpo(normalize=False)).advantages, [0.5, 0.5, -0.5, -0.5])
    sample = 0.5 / (np.sqrt(1 / 3) + 1e-6)
    close(one_group(rewards, Grpo(ddof=1, eps=1e-6)).advantages, [sample, sample, -sample, -sample])
    close(sample, 0.866023904)
    population = 0.5 / (0.5 + 1e-6)
    close(one_group(rewards, Grpo(ddof=0, eps=1e-6)).advantages[0], population)
    close(population, 0.999998, 1e-11)


@pytest.mark.parametrize("seed", [None, 3])
def test_a2_uneven_groups_in_any_order(seed):
    rewards = np.array([1, 2, 3, 4, 5, 5, 5, 6, 7, 8, 9.0])
    groups = np.array(["a"] * 4 + ["b"] * 3 + ["c"] * 4)
    expected = np.array([-1.5, -0.5, 0.5, 1.5, 0, 0, 0, -1.5, -0.5, 0.5, 1.5])
    order = np.arange(11) if seed is None else np.random.default_rng(seed).permutation(11)
    result = compute_advantages(rewards[order], groups[order], estimator=DrGrpo())
    close(result.advantages, expected[order])
    assert (result.advantages[groups[order] == "b"] == 0).all()


@pytest.mark.parametrize("bad", [None, NAN, float("inf"), float("-inf")])
def test_a3_unscorable_rollout_counts_nowhere(bad):
    rewards = [1, bad, 0, 0]
    close(one_group(rewards).advantages, [2 / 3, 0, -1 / 3, -1 / 3])
    close(one_group(rewards, Rloo()).advantages, [1, 0, -0.5, -0.5])
    # Not in P either: with it the group would have two passes, and row 0 would share.
    result = one_group(
        rewards, redistribution=RESCALE, weights=[0.5, 1, NAN, NAN], passed=[True, True, False, False]
    )
    close(result.advantages, [2 / 3, 0, -1 / 3, -1 / 3])
    assert result.fallback.tolist() == ["single pass"]
    assert result.used.tolist() == [True, False, True, True]


def test_nonfinite_policies():
    rewards = [1, NAN, 0, 0]
    close(one_group(rewards, DrGrpo(nonfinite="as_fail")).advantages, [0.75, -0.25, -0.25, -0.25])
    with pytest.raises(InputError, match=r"not finite, and nonfinite=error: row 1 \(group 'task'\)"):
        one_group(rewards, DrGrpo(nonfinite="error"))
    with pytest.raises(InputError, match="singleton"):
        one_group([1], DrGrpo(singleton="error"))


def test_as_fail_leaves_the_callers_verdicts_alone():
    passed = np.array([True, True, False])
    estimator = DrGrpo(nonfinite="as_fail")
    result = one_group([1, NAN, 0], estimator, redistribution=RESCALE, weights=[1, 0.5, 1], passed=passed)
    assert result.fallback.tolist() == ["single pass"]
    assert passed.tolist() == [True, True, False]


def test_a4_groups_are_known_by_label():
    close(one_group([1, 0, 1, 0]).advantages, [0.5, -0.5, 0.5, -0.5])
    tasks = ["first"] * 4 + ["second"] * 4  # same prompt text, two tasks
    for estimator in (DrGrpo(), Rloo(), Grpo()):
        result = compute_advantages([0] * 4 + [1] * 4, tasks, estimator=estimator)
        assert np.array_equal(result.advantages, np.zeros(8))


@pytest.mark.parametrize(
    ("rewards", "dtype", "constant"),
    [
        ([0.5] * 4, np.float64, True),
        ([0.1] * 3, np.float64, True),
        ([0.6] * 8, np.float32, True),
        ([0.9] * 30, np.float32, True),
        ([0] * 4, np.float64, True),
        ([1, -1, -1, -1], np.float64, False),
        ([1, 1, 1, 0], np.float64, False),
        ([1, 0.99, 1, 1], np.float64, False),
    ],
)
def test_a5_zero_variance_is_decided_on_raw_rewards(rewards, dtype, constant):
    for estimator in (DrGrpo(), Grpo(), Grpo(eps=0.0), Rloo()):
        result = one_group(np.array(rewards, dtype=dtype), estimator)
        assert bool((result.advantages == 0).all()) is constant


def test_a5_one_valid_row_teaches_nothing():
    result = one_group([1, 0, 0], valid=[True, False, False])
    assert np.array_equal(result.advantages, np.zeros(3))


A6_LARGE = np.array([1] * 3 + [0] * 13)


def test_a6_redistribution_itself():
    result = one_group(
        A6_LARGE, redistribution=RESCALE, weights=np.where(A6_LARGE, np.r_[1, [0.625] * 15], NAN)
    )
    close(result.advantages[:3], [1.083333333333, 0.677083333333, 0.677083333333])
    assert (result.advantages[3:] == -0.1875).all()
    close(result.advantages[:3].sum(), 3 * (1 - 3 / 16), 1e-12)


def literal_pseudo_code(base, weights, passed):
    """The source's listing as it reads: weigh the passes, rescale the *whole* vector by its old sum."""
    weighed = np.where(passed, weights, 1.0) * base
    with np.errstate(divide="ignore", invalid="ignore"):
        return weighed * (base.sum() / weighed.sum())


def test_the_literal_pseudo_code_fails_a6():
    base = np.array([0.25, 0.25, 0.25, -0.75])
    passed = np.array([True, True, True, False])
    literal = literal_pseudo_code(base, np.array([1, 0.85, 0.4, 1]), passed)
    close(literal, [0, 0, 0, 0], 1e-15)  # the sum of a centred base is 0: every advantage vanishes
    assert np.abs(literal - [1 / 3, 0.85 / 3, 0.4 / 3, -0.75]).max() > 0.7
    uniform = literal_pseudo_code(base, np.ones(4), passed)
    assert np.isnan(uniform).all()  # 0 / 0


# Bits


def test_uniform_weighting_and_no_redistribution_return_the_base_bits():
    rewards = np.random.default_rng(0).random(40)
    groups = np.arange(40) % 5
    passed = rewards > 0.5
    ranks = np.where(passed, np.arange(40.0), NAN)
    options = {"estimator": Grpo(), "passed": passed, "ranks": ranks}
    plain = compute_advantages(rewards, groups, **options)
    assert np.array_equal(plain.base, plain.advantages)
    for redistribution, weighting in ((NoRedistribution(), Linear()), (SumPreserving(), Uniform())):
        result = compute_advantages(
            rewards, groups, redistribution=redistribution, weighting=weighting, **options
        )
        assert np.array_equal(result.advantages.view(np.int64), plain.base.view(np.int64))


def test_results_never_share_memory_with_inputs():
    given = {
        "rewards": np.array([1.0, 1, 0]),
        "weights": np.array([1.0, 0.5, 1]),
        "valid": np.ones(3, bool),
        "passed": np.array([True, True, False]),
    }
    for estimator in (Reinforce(), lambda r, codes, groups, lengths: r):
        for redistribution in (RESCALE, None):
            result = one_group(estimator=estimator, redistribution=redistribution, **given)
            for name in ("advantages", "base", "weights", "used"):
                found = getattr(result, name)
                assert found.flags.writeable
                assert not any(np.shares_memory(found, array) for array in given.values())


# Labels


@pytest.mark.parametrize(
    "labels",
    [
        ["7", "007", "7", "007"],
        [7, "7", 7, "7"],
        [10**12, -5, 10**12, -5],
        np.array([10**12, -5, 10**12, -5]),
        np.array([2**64 - 1, 0, 2**64 - 1, 0], dtype=np.uint64),
        np.array([200, 1, 200, 1], dtype=np.uint8),
        np.array([-128, 127, -128, 127], dtype=np.int8),
        np.array([True, False, True, False]),
        np.array([0.1, 0.2, 0.1, 0.2]),
        np.array(["b", "a", "b", "a"]),
        [("x", 1), ("x", 2), ("x", 1), ("x", 2)],
        [None, "a", None, "a"],
        [uuid.UUID(int=5), uuid.UUID(int=4), uuid.UUID(int=5), uuid.UUID(int=4)],
    ],
)
def test_labels_of_any_kind_are_compared_as_they_are(labels):
    result = compute_advantages([1, 1, 0, 1], labels, estimator=DrGrpo())
    close(result.advantages, [0.5, 0, -0.5, 0])
    assert result.codes.tolist() == [0, 1, 0, 1]
    assert result.groups == list(labels[:2])


@pytest.mark.parametrize(
    ("labels", "message"),
    [([[1], [1]], "hashable"), ([0.5, NAN], "NaN"), (np.array([0.5, NAN]), "NaN"), (np.eye(2), "one-dim")],
)
def test_labels_that_cannot_be_meant(labels, message):
    with pytest.raises(InputError, match=message):
        compute_advantages([1, 0], labels, estimator=DrGrpo())


# Sessions


def test_rows_of_one_session_count_once():
    # One success cut into three rows, against one failure: .5 and -.5, not .25 and -.75.
    result = one_group([1, 1, 1, 0], sessions=["a", "a", "a", "b"])
    close(result.advantages, [0.5, 0.5, 0.5, -0.5])
    result = one_group(
        [1, 1, 1, 0, 1],
        redistribution=SumPreserving(conserve="token"),
        weights=[1, 1, 0.5, NAN, 1],
        sessions=["a", "a", "b", "c", "a"],
        lengths=[50, 30, 300, 10, 20],
    )
    # Trajectories: lengths 100, 300, 10 with base 1/3, 1/3, -2/3; λ = 400 / (100 + 150) = 1.6
    close(result.advantages, [1.6 / 3, 1.6 / 3, 0.8 / 3, -2 / 3, 1.6 / 3])


def test_sessions_are_local_to_their_group():
    result = compute_advantages([1, 0, 0, 1], ["a", "a", "b", "b"], estimator=DrGrpo(), sessions=[0, 1, 0, 1])
    close(result.advantages, [0.5, -0.5, -0.5, 0.5])


def test_rows_of_a_session_must_agree():
    with pytest.raises(InputError, match=r"rewards differ within a session: row 1 \(group 'task'\)"):
        one_group([1, 0, 0], sessions=["a", "a", "b"])
    with pytest.raises(InputError, match="sessions must have shape"):
        one_group([1, 0, 0], sessions=["a", "a"])


# Faults of the caller


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": [1, 2, NAN]}, r"rank on a failing row: row 1 \(group 'task'\)"),
        ({"ranks": [1, NAN, NAN], "valid": [0, 1, 1]}, r"rank on an invalid row: row 0 \(group 'task'\)"),
        ({"weights": [0, NAN, 1]}, r"outside \(0, 1\]: row 0 \(group 'task'\)"),
        ({"weights": [1.5, NAN, 1]}, r"outside \(0, 1\]: row 0"),
        ({"weights": [float("inf"), NAN, 1]}, r"outside \(0, 1\]: row 0"),
        ({"ranks": [1, NAN]}, r"ranks must have shape \(3,\).*got \(2,\)"),
        ({"valid": [True]}, r"valid must have shape"),
        ({"passed": [1, 2, 0], "ranks": [1, NAN, NAN]}, r"passed cannot be read: holds values other"),
        ({"scores": ["a", "b", "c"]}, "scores cannot be read"),
        ({}, "needs ranks"),
        ({"weighting": None}, "needs a weighting, or weights"),
        ({"weighting": SoftmaxScore()}, "needs scores"),
        ({"weighting": Tiers()}, "needs tiers"),
        ({"weighting": LengthBucket()}, "needs lengths"),
        (
            {"redistribution": SumPreserving(conserve="token"), "weights": [1, 1, 1], "lengths": [1, 0, 1]},
            r"conserve=token needs lengths that are finite and positive: row 1 \(group 'task'\)",
        ),
        (
            {"redistribution": SumPreserving(conserve="token"), "weights": [1, 1, 1], "lengths": [1, NAN, 1]},
            "finite and positive: row 1",
        ),
        ({"redistribution": SumPreserving(conserve="token"), "weights": [1, 1, 1]}, "needs lengths"),
        ({"estimator": Opo(), "weights": [1, 1, 1], "lengths": [1, -3, 1]}, "finite and not negative: row 1"),
        ({"estimator": lambda *_: np.zeros(2), "weights": [1, 1, 1]}, "returned shape"),
        (
            {"estimator": lambda r, *_: r / 0.0 if r is None else r + np.inf, "weights": [1, 1, 1]},
            "not finite",
        ),
    ],
)
def test_faults_are_named(options, message):
    settings = {"redistribution": RESCALE, "weighting": Linear(), **options}
    with pytest.raises(InputError, match=message):
        one_group([1, 0, 1], settings.pop("estimator", None), **settings)


def test_all_faults_are_gathered_and_long_lists_cut():
    with pytest.raises(InputError) as caught:
        one_group([1, 0, 1], ranks=[1], weights=[1, 2], lengths=[[1]])
    assert all(name in str(caught.value) for name in ("ranks", "weights", "lengths"))
    with pytest.raises(InputError, match="7 more"):
        one_group([0] * 12, redistribution=RESCALE, weighting=Linear(), ranks=range(12))


def test_pass_flags_are_asked_for_when_rewards_do_not_tell():
    shaped = [1, 0.9, 0]
    with pytest.raises(InputError, match=r"passed is needed.*row 1 \(group 'task'\)"):
        one_group(shaped, redistribution=RESCALE, weights=[1, 1, 1])
    one_group(shaped)  # nobody asks who passed
    one_group(
        [1, NAN, 0], redistribution=RESCALE, weights=[1, 1, 1]
    )  # the odd row is not binary, but excluded
    one_group([1, 0.9, 0], valid=[1, 0, 1], redistribution=RESCALE, weights=[1, 1, 1])


# Documented fallbacks


@pytest.mark.parametrize(
    ("rewards", "options", "reason"),
    [
        ([1, 1, 0], {"ranks": [1, NAN, NAN]}, "no usable grade of a passing row"),
        ([1, 1, 0], {"ranks": [1, float("inf"), NAN]}, "no usable grade of a passing row"),
        ([1, 1, 0], {"ranks": [2, 2, NAN]}, "all passes tied"),
        ([1, 0, 0], {"ranks": [1, NAN, NAN]}, "single pass"),
        ([0, 0, 0], {"ranks": [NAN] * 3}, "no pass"),
        ([1, 1, 1], {"ranks": [1, 2, 3]}, "no positive base advantage"),
        ([1, 1, 0], {"ranks": [NAN] * 3, "valid": [0, 0, 0]}, "no valid row"),
        ([1, 1, 0], {"ranks": [1, 2, NAN], "redistribution": SumPreserving(shrink=1)}, REASONS[7]),
        ([1, 1, 0], {"ranks": [1, 2, NAN], "redistribution": SumPreserving(temper=0)}, "all passes tied"),
    ],
)
def test_fallback_keeps_the_base_bits_and_says_why(rewards, options, reason):
    result = one_group(rewards, **{"redistribution": RESCALE, "weighting": Linear(), **options})
    assert result.fallback.tolist() == [reason]
    assert np.array_equal(result.advantages.view(np.int64), result.base.view(np.int64))
    assert np.isnan(result.lambda_).all()
    assert result.weights.tolist() == [1, 1, 1]
    assert np.isfinite(result.advantages).all()


def test_a_weight_stands_in_for_a_missing_rank():
    result = one_group(
        [1, 1, 0], redistribution=RESCALE, weighting=Linear(), ranks=[1, NAN, NAN], weights=[NAN, 0.5, NAN]
    )
    close(result.advantages, [4 / 9, 2 / 9, -2 / 3])


def test_empty_batch_and_all_invalid_groups():
    empty = compute_advantages([], [], estimator=Grpo(), redistribution=RESCALE, weighting=Linear(), ranks=[])
    assert empty.advantages.shape == (0,)
    assert empty.groups == []
    result = compute_advantages(
        [1, 0, 1, 0],
        ["dead", "live", "dead", "live"],
        estimator=Grpo(),
        valid=[False, True, False, True],
        redistribution=RESCALE,
        weights=[1, 1, 1, 1],
    )
    assert result.fallback.tolist() == ["no valid row", "no pass"]
    close(result.advantages[[0, 2]], [0, 0])
    assert result.used.tolist() == [False, True, False, True]


def test_every_estimator_stays_finite_on_dead_groups():
    from gagar_core.choices import CHOICES

    for cls in CHOICES["estimator"].values():
        estimator = cls(singleton="zero", nonfinite="exclude")
        options = {"estimator": estimator, "lengths": [3, 0, 2, 0, 0]}
        result = compute_advantages([1, 0, NAN, 0, 0], list("aabcc"), valid=[1, 1, 1, 0, 0], **options)
        assert np.isfinite(result.advantages).all()
        none = compute_advantages([], [], estimator=estimator, lengths=[])
        assert none.advantages.shape == (0,)
        lost = compute_advantages([1, 0], "ab", estimator=estimator, lengths=[1, 1], valid=[0, 0])
        assert np.array_equal(lost.advantages, [0, 0])


def test_ids_as_long_as_rewards():
    with pytest.raises(InputError, match=r"rewards must have shape \(3,\)"):
        compute_advantages([1, 0], "abc", estimator=DrGrpo())


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int64, np.uint8])
def test_narrow_integer_labels_stay_apart(kind):
    # 50 and -5 are a whole int8 apart once -100 is subtracted.
    ids = np.array([100, -100, 50, -5] if kind != np.uint8 else [200, 0, 50, 150], kind)
    result = compute_advantages([1, 0, 1, 0] * 2, np.tile(ids, 2), estimator=DrGrpo(singleton="raw"))
    assert result.groups == ids.tolist()
    assert result.codes.tolist() == [0, 1, 2, 3] * 2


def test_tensors_of_labels_are_read_by_value():
    torch = pytest.importorskip("torch")
    rewards, ids = [1, 1, 1, 0], torch.tensor([5, 5, 5, 5])
    result = compute_advantages(rewards, ids, estimator=DrGrpo(), sessions=torch.tensor([0, 0, 0, 1]))
    assert result.groups == [5]
    assert result.advantages.tolist() == [0.5, 0.5, 0.5, -0.5]
    for options in ({"group_ids": list(ids)}, {"group_ids": [5] * 4, "sessions": list(ids)}):
        with pytest.raises(InputError, match="holds tensors"):
            compute_advantages(rewards, estimator=DrGrpo(), **options)


def test_a_narrow_nan_is_no_label():
    with pytest.raises(InputError, match="contains NaN"):
        compute_advantages([1, 0], [np.float32("nan"), np.float32("nan")], estimator=DrGrpo())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": DrGrpo(singleton="error")}, r"row 4 \(group 'b'\)"),
        ({"estimator": lambda r, *_: np.where(np.arange(len(r)) == 3, NAN, r)}, r"row 4 \(group 'b'\)"),
        (
            {"estimator": lambda r, *_: np.where(r == 0, NAN, r), "sessions": [0, 1, 1, 2, 3]},
            r"row 3 \(group 'a'\)",
        ),
    ],
)
def test_faults_name_rows_as_the_caller_numbers_them(options, message):
    with pytest.raises(InputError, match=message):
        compute_advantages([1, 1, 1, 0, 1], list("xaaab"), valid=[0, 1, 1, 1, 1], **options)


def test_a_row_without_tokens_may_belong_to_a_trajectory_with_some():
    rule = SumPreserving(conserve="token")
    given = {"estimator": DrGrpo(), "redistribution": rule, "weights": [1, 1, 0.5, 1]}
    found = compute_advantages([1, 1, 1, 0], ["g"] * 4, lengths=[0, 5, 5, 5], sessions=[0, 0, 1, 2], **given)
    assert found.advantages == pytest.approx([4 / 9, 4 / 9, 2 / 9, -2 / 3])
    for lengths in ([0, 0, 5, 5], [-1, 6, 5, 5]):
        with pytest.raises(InputError, match="row 0"):
            compute_advantages([1, 1, 1, 0], ["g"] * 4, lengths=lengths, sessions=[0, 0, 1, 2], **given)


@pytest.mark.parametrize("length", [NAN, -5.0])
def test_lengths_that_are_read_if_given_are_checked(length):
    with pytest.raises(InputError, match=r"ReinforcePP needs lengths .*: row 1"):
        compute_advantages([1, 0, 1], ["g"] * 3, estimator=ReinforcePP(), lengths=[1, length, 1])


def test_grades_and_lengths_of_rows_that_take_no_part_are_not_read():
    found = compute_advantages(
        [1, 1, 1, 0],
        ["g"] * 4,
        estimator=DrGrpo(),
        redistribution=SumPreserving(conserve="token"),
        valid=[1, 1, 0, 1],
        weights=[1, 0.5, 7, -3],
        lengths=[1, 1, 0, 1],
    )
    assert found.advantages == pytest.approx([4 / 9, 2 / 9, 0, -2 / 3])


def test_names_instead_of_choices_are_refused_with_what_is_valid() -> None:
    with pytest.raises(InputError) as caught:
        compute_advantages([1, 0], ["a", "a"], estimator="grpo", redistribution="none")  # type: ignore[arg-type]
    assert "a choice such as DrGrpo(), or a callable; got 'grpo'" in str(caught.value)
    assert "a choice such as SumPreserving(), or None; got 'none'" in str(caught.value)


def test_an_infinite_setting_is_out_of_range() -> None:
    with pytest.raises(ConfigError, match=r"beta must be in \[0, inf\); got inf"):
        SumPreserving(beta=float("inf"))
    with pytest.raises(ConfigError, match="temper"):
        SumPreserving(temper=float("nan"))
