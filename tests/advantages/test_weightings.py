"""Weights of every scheme: the worked examples of the catalogue, ties, order, ranges for tuning."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.estimators import DrGrpo
from gagar_core.advantages.graded_weightings import BradleyTerry, LengthBucket, SoftmaxScore, Tiers, TiersFlat
from gagar_core.advantages.pairwise import bradley_terry_scores
from gagar_core.advantages.redistribution import SumPreserving
from gagar_core.advantages.weightings import (
    Borda,
    Dcg,
    DownweightLowest,
    Exponential,
    GeometricSpan,
    GeometricStep,
    Linear,
    ReciprocalRank,
    TopFraction,
    TopK,
    Uniform,
)
from gagar_core.choices import CHOICES
from gagar_core.errors import ConfigError, InputError

NAN = float("nan")
RANKED = {name: cls for name, cls in CHOICES["weighting"].items() if hasattr(cls, "quality_weight")}


def weigh(weighting, k=None, **grades):
    """Weights of k passes of one group, beside one failure."""
    k = k or len(next(iter(grades.values())))
    padded = {name: [*values, NAN if name != "lengths" else 1.0] for name, values in grades.items()}
    result = compute_advantages(
        [1] * k + [0],
        ["g"] * (k + 1),
        estimator=DrGrpo(),
        redistribution=SumPreserving(),
        weighting=weighting,
        **padded,
    )
    return result.weights[:k]


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        (Linear(floor=0.2), [1, 1 - 0.8 / 3, 1 - 1.6 / 3, 0.2]),
        (GeometricSpan(floor=0.2), [1, 0.2 ** (1 / 3), 0.2 ** (2 / 3), 0.2]),
        (GeometricStep(ratio=0.7), [1, 0.7, 0.49, 0.343]),
        (GeometricStep(ratio=0.7, floor=0.4), [1, 0.7, 0.49, 0.4]),
        (Exponential(tau=2), np.exp([0, -0.5, -1, -1.5])),
        (ReciprocalRank(), [1, 1 / 2, 1 / 3, 1 / 4]),
        (ReciprocalRank(steepness=0.5), [1, 1 / 1.5, 1 / 2, 1 / 2.5]),
        (Dcg(), [1, 1 / np.log2(3), 0.5, 1 / np.log2(5)]),
        (TopK(top=2, floor=0.2), [1, 1, 0.2, 0.2]),
        (TopFraction(fraction=0.5, floor=0.2), [1, 1, 0.2, 0.2]),
        (TopFraction(fraction=0.3, floor=0.2), [1, 1, 0.2, 0.2]),
        (DownweightLowest(share=0.25, floor=0.2), [1, 1, 1, 0.2]),
        (DownweightLowest(share=0.01, floor=0.2), [1, 1, 1, 0.2]),
        (DownweightLowest(share=0.99, floor=0.2), [1, 0.2, 0.2, 0.2]),
        (Borda(floor=0.2), [1, 0.2 + 0.8 * 2 / 3, 0.2 + 0.8 / 3, 0.2]),
    ],
)
def test_four_ranks(weighting, expected):
    np.testing.assert_allclose(weigh(weighting, ranks=[1, 2, 3, 4]), expected, atol=1e-15)
    np.testing.assert_allclose(weigh(weighting, ranks=[-3, 0.5, 7, 99]), expected, atol=1e-15)


def test_documented_roundings():
    """The four-digit examples of the docstrings."""
    rank, k = np.arange(1.0, 5.0), np.full(4, 4.0)
    for weighting, shown in (
        (Uniform(), [1, 1, 1, 1]),
        (Linear(floor=0.2), [1, 0.7333, 0.4667, 0.2]),
        (GeometricSpan(floor=0.2), [1, 0.5848, 0.3420, 0.2]),
        (Exponential(), [1, 0.6065, 0.3679, 0.2231]),
        (ReciprocalRank(), [1, 0.5, 0.3333, 0.25]),
        (Dcg(), [1, 0.6309, 0.5, 0.4307]),
    ):
        np.testing.assert_allclose(weighting.quality_weight(rank, k), shown, atol=5e-5)


def test_average_ties_share_what_they_span():
    np.testing.assert_allclose(weigh(Linear(floor=0.1), ranks=[1, 2, 2, 3]), [1, 0.55, 0.55, 0.1])
    np.testing.assert_allclose(weigh(TopK(top=2, floor=0.2), ranks=[1, 2, 2, 3]), [1, 0.6, 0.6, 0.2])
    for weighting in (Linear(floor=0.3), Dcg(), GeometricStep()):
        whole = weigh(weighting, ranks=[1, 2, 3, 4, 5]).sum()
        assert weigh(weighting, ranks=[2, 1, 2, 2, 9]).sum() == pytest.approx(whole, abs=1e-14)


def test_rounding_of_a_tied_block_never_lifts_it_over_a_better_rank():
    weights = weigh(TopK(top=1, floor=0.2), ranks=[1, 2, 3, 3, 3])
    assert (0.2 + 0.2 + 0.2) / 3 > 0.2
    assert weights.tolist() == [1, 0.2, 0.2, 0.2, 0.2]


def test_enormous_ranks_are_only_an_order():
    np.testing.assert_allclose(weigh(Linear(floor=0.1), ranks=[1e300, -1e300, 5]), [0.1, 1, 0.55])
    assert weigh(Linear(), ranks=[1e300, 1e300]).tolist() == [1, 1]
    np.testing.assert_allclose(weigh(Linear(floor=0.1), ranks=[2.0**62, 2.0**62 + 2**20]), [1, 0.1])


def test_dense_ties_count_as_one_candidate():
    np.testing.assert_allclose(
        weigh(Linear(floor=0.1, ties="dense"), ranks=[1, 2, 2, 3]), [1, 0.55, 0.55, 0.1]
    )
    np.testing.assert_allclose(weigh(Linear(floor=0.1, ties="dense"), ranks=[5, 5, 5, 8]), [1, 1, 1, 0.1])
    np.testing.assert_allclose(weigh(Dcg(ties="dense"), ranks=[1, 1, 2, 2]), [1, 1, 0.630929754, 0.630929754])


def test_borda_counts_wins_and_half_ties():
    # a > {b, c} > d: shares (3, 1.5, 1.5, 0) / 3
    np.testing.assert_allclose(weigh(Borda(floor=0.1), ranks=[1, 2, 2, 3]), [1, 0.55, 0.55, 0.1], atol=1e-15)
    ranks = [3, 1, 1, 2, 3, 3]
    wins = [sum(other > own for other in ranks) for own in ranks]
    ties = [ranks.count(own) - 1 for own in ranks]
    shares = (np.array(wins) + 0.5 * np.array(ties)) / 5
    np.testing.assert_allclose(weigh(Borda(floor=0.2), ranks=ranks), 0.2 + 0.8 * shares, atol=1e-15)


@pytest.mark.parametrize("ties", ["average", "dense"])
@pytest.mark.parametrize("name", sorted(RANKED))
def test_weights_lie_in_range_and_never_rise(name, ties):
    weighting = RANKED[name]()
    if hasattr(weighting, "ties"):
        weighting.ties = ties
    k = np.repeat(np.arange(1.0, 65.0), np.arange(1, 65))
    rank = np.concatenate([np.arange(1.0, n + 1) for n in range(1, 65)])
    weights = weighting.quality_weight(rank, k)
    assert ((weights > 0) & (weights <= 1)).all()
    assert weights[0] == 1  # a lone pass
    same = k[1:] == k[:-1]
    assert (weights[1:] <= weights[:-1])[same].all()
    assert (weights[rank == 1] == 1).all()


@pytest.mark.parametrize("name", sorted(CHOICES["weighting"]))
def test_search_ranges_are_inside_what_the_settings_allow(name):
    cls = CHOICES["weighting"][name]
    fields = {field.name: field for field in dataclasses.fields(cls)}
    assert set(cls.SEARCH) <= set(fields)
    for field, space in cls.SEARCH.items():
        for value in space if isinstance(space, list) else space[:2]:
            cls(**{field: value})  # does not raise
        if not isinstance(space, list):
            assert space[0] < space[1]
            assert space[2:] in ((), (True,))
            assert isinstance(getattr(cls(), field), type(space[0]))
    tunable = set(fields) - {"ties", "standardize", "slack", "top"}
    assert len(tunable - set(cls.SEARCH)) <= 1


def test_softmax_of_scores():
    found = weigh(SoftmaxScore(floor=0.05), scores=[3, 2, 1, 0])
    step = 1 / np.std([3, 2, 1, 0])
    np.testing.assert_allclose(found, np.exp([0, -step, -2 * step, -3 * step]), atol=1e-12)
    np.testing.assert_allclose(
        weigh(SoftmaxScore(), scores=[30, 20, 10, 0]), weigh(SoftmaxScore(), scores=[3, 2, 1, 0])
    )
    raw = weigh(SoftmaxScore(standardize=False, tau=2, floor=0.3), scores=[0, -1, -9])
    np.testing.assert_allclose(raw, [1, np.exp(-0.5), 0.3])
    assert weigh(SoftmaxScore(), scores=[2, 2]).tolist() == [1, 1]


def test_bradley_terry_scores_solve_the_likelihood_equations():
    chain = np.triu(np.ones((3, 3)), 1)  # a beats b and c, b beats c
    weights = weigh(BradleyTerry(), scores=bradley_terry_scores(chain))
    np.testing.assert_allclose(weights, [1, 0.469396, 0.220333], atol=1e-6)
    wins = np.random.default_rng(0).integers(0, 5, (6, 6)).astype(float)
    theta = bradley_terry_scores(wins, prior=0.25)
    table = wins + 0.25
    np.fill_diagonal(table, 0)
    chance = 1 / (1 + np.exp(theta[None] - theta[:, None]))
    np.testing.assert_allclose(((table + table.T) * chance).sum(1), table.sum(1), atol=1e-9)
    assert theta.sum() == pytest.approx(0, abs=1e-12)
    four = weigh(BradleyTerry(), scores=bradley_terry_scores(np.triu(np.ones((4, 4)), 1)))
    np.testing.assert_allclose(four, [1, 0.5556, 0.3194, 0.1775], atol=5e-5)


def test_bradley_terry_edges():
    assert bradley_terry_scores([[0.0]]).tolist() == [0]
    assert bradley_terry_scores(np.zeros((0, 0))).shape == (0,)
    lopsided = bradley_terry_scores([[0, 1000], [0, 0]])
    assert lopsided[0] - lopsided[1] == pytest.approx(np.log(1000.5 / 0.5))
    for wrong in ([[0, 1]], [[0, -1], [1, 0]], [[0, NAN], [1, 0]]):
        with pytest.raises(InputError, match="wins must be"):
            bradley_terry_scores(wrong)
    with pytest.raises(InputError, match="prior must be positive"):
        bradley_terry_scores([[0]], prior=0)


@pytest.mark.parametrize(
    ("tiers", "ranks", "expected"),
    [
        ([1, 2, 2, 3], [1, 2, 3, 4], [1, 0.85, 0.4, 0.2]),
        ([1, 1, 1, 1], [1, 1, 2, 3], [1, 1, 0.9, 0.9]),  # the top tied level, not the top row
        ([2, 2, 2, 2], [1, 2, 2, 3], [0.85, 0.625, 0.625, 0.4]),
        ([2, 2, 3, 3], [1, 1, 2, 3], [0.85, 0.85, 0.2, 0.2]),
        ([3, 2, 1], [9, 5, 2], [0.2, 0.85, 1]),
    ],
)
def test_tiers(tiers, ranks, expected):
    np.testing.assert_allclose(weigh(Tiers(), tiers=tiers, ranks=ranks), expected, atol=1e-15)


def test_tiers_without_ranks_are_one_level_each():
    np.testing.assert_allclose(weigh(Tiers(), tiers=[1, 2, 2, 3, 1]), [1, 0.85, 0.85, 0.2, 1])


@pytest.mark.parametrize(
    ("tiers", "ranks"),
    [([1, 2], [2, 1]), ([1, 2], [1, 1]), ([1, 4], [1, 2]), ([1, 1.5], [1, 2]), ([1, NAN], [1, 2])],
)
def test_tiers_that_cannot_be_meant_are_unusable(tiers, ranks):
    result = compute_advantages(
        [1, 1, 0, 1, 1, 0],
        list("aaabbb"),
        estimator=DrGrpo(),
        redistribution=SumPreserving(),
        weighting=Tiers(),
        tiers=[*tiers, NAN, 1, 3, NAN],
        ranks=[*ranks, NAN, 1, 2, NAN],
    )
    assert result.fallback.tolist() == ["no usable grade of a passing row", ""]


def test_flat_tiers():
    np.testing.assert_allclose(weigh(TiersFlat(), tiers=[1, 2, 2, 3]), [1, 0.625, 0.625, 0.2])


def test_length_bucket_needs_no_grader():
    found = weigh(LengthBucket(floor=0.2), lengths=[100, 100, 150, 300])
    np.testing.assert_allclose(found, [1, 1, 1 - 0.8 * 0.5**1.5, 0.2])  # reference: quantile .3 = 100
    slack = weigh(
        LengthBucket(quantile=0, slack=0.5, span=1.5, power=1, floor=0.2), lengths=[100, 150, 200, 900]
    )
    np.testing.assert_allclose(slack, [1, 1, 0.6, 0.2])
    np.testing.assert_allclose(weigh(LengthBucket(floor=0.2, quantile=0), lengths=[0, 0, 5]), [1, 1, 0.2])


def test_a_weighting_of_ones_own_needs_one_method():
    class Mine:
        def quality_weight(self, rank, k):
            return 1 / rank

    np.testing.assert_allclose(weigh(Mine(), ranks=[1, 2, 3]), [1, 0.5, 1 / 3])

    class Wrong:
        def quality_weight(self, rank, k):
            return 2.0 - rank

    with pytest.raises(InputError, match=r"Wrong gave .*0\.0.*; weights must be in \(0, 1\]"):
        weigh(Wrong(), ranks=[1, 2, 3])


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (Linear, {"floor": 0.0, "ties": "first"}),
        (GeometricStep, {"floor": 1.5, "ratio": -0.1}),
        (Exponential, {"tau": 0.0}),
        (ReciprocalRank, {"steepness": -1.0}),
        (TopK, {"top": 0}),
        (TopFraction, {"fraction": 1.1}),
        (DownweightLowest, {"share": 1.0}),
        (SoftmaxScore, {"tau": -1.0, "floor": 2.0}),
        (Tiers, {"tier1": 0.3, "tier3": 0.5}),
        (TiersFlat, {"tier2": 1.2}),
        (LengthBucket, {"quantile": -1.0, "power": 0.0, "floor": 0.0, "span": -2.0}),
    ],
)
def test_settings_faults_are_gathered(cls, wrong):
    with pytest.raises(ConfigError) as caught:
        cls(**wrong)
    if cls is Tiers:
        assert "tier2_high" in str(caught.value)
        assert "tier3" in str(caught.value)
        return
    for name, value in wrong.items():
        assert name in str(caught.value)
        assert repr(value) in str(caught.value)


def test_tiers_are_ordered_within_their_group():
    """Two interleaved groups: neither's levels count in the other."""
    result = compute_advantages(
        [1, 1, 1, 1, 1, 1, 0, 0],
        list("abababab"),
        estimator=DrGrpo(),
        redistribution=SumPreserving(),
        weighting=Tiers(),
        tiers=[1, 2, 2, 2, 2, 3, float("nan"), float("nan")],
        ranks=[1, 1, 2, 5, 3, 9, float("nan"), float("nan")],
    )
    assert result.weights.tolist() == [1.0, 0.85, 0.85, 0.40, 0.40, 0.20, 1.0, 1.0]
