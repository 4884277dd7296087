"""Properties P1 to P20 of the redistribution and its base, over random groups, float64."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gagar_core.advantages import AdvantageResult, compute_advantages
from gagar_core.advantages.baselines import Opo, ReinforcePP
from gagar_core.advantages.estimators import DrGrpo, Grpo, Rloo
from gagar_core.advantages.redistribution import Paper, SumPreserving
from gagar_core.advantages.redistribution_arms import DownweightOnly, ShareCap
from gagar_core.advantages.weightings import Dcg, GeometricStep, Linear, TopK, Uniform

NAN = float("nan")
BASES = [DrGrpo(), Grpo(ddof=0), Grpo(ddof=1), Rloo()]
SUM_KEEPING = [SumPreserving(), ShareCap(gain_max=1.2), ShareCap(gain_max=3.0), SumPreserving(shrink=0.3)]
RULES = [*SUM_KEEPING, Paper(), Paper(strict=True), DownweightOnly(), SumPreserving(temper=2.0)]
WEIGHTINGS = [Linear(), Linear(ties="dense"), GeometricStep(), Dcg(), TopK(ties="dense"), Uniform()]


@dataclass
class Batch:
    rewards: np.ndarray
    groups: np.ndarray
    ranks: np.ndarray
    weights: np.ndarray
    lengths: np.ndarray

    @property
    def passed(self):
        return self.rewards > 0

    def take(self, rows):
        return Batch(*(values[rows] for values in vars(self).values()))


@st.composite
def batches(draw, max_groups=4, max_size=9):
    """Binary rewards, interleaved groups, ranks with ties on passes, weights in [.01, 1], lengths."""
    sizes = draw(st.lists(st.integers(1, max_size), min_size=1, max_size=max_groups))
    size = sum(sizes)
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = generator.permutation(np.repeat(np.arange(len(sizes)), sizes))
    rewards = (generator.random(size) < draw(st.sampled_from([0.0, 0.3, 0.6, 0.9, 1.0]))).astype(float)
    ranks = np.where(rewards > 0, generator.integers(1, draw(st.sampled_from([2, 4, 20])), size), NAN)
    weights = generator.uniform(0.01, 1.0, size).round(draw(st.sampled_from([1, 3, 15]))).clip(0.01, 1)
    return Batch(rewards, groups, ranks, weights, generator.integers(1, 300, size).astype(float))


def compute(batch, estimator=BASES[0], rule=SUM_KEEPING[0], *, by="weights", **options) -> AdvantageResult:
    grades = {"weights": batch.weights} if by == "weights" else {"weighting": by, "ranks": batch.ranks}
    return compute_advantages(
        batch.rewards,
        batch.groups,
        estimator=estimator,
        redistribution=rule,
        lengths=batch.lengths,
        **{**grades, **options},
    )


def per_group(result, batch, values, where=None):
    rows = np.ones(len(values), bool) if where is None else where
    return np.bincount(result.codes[rows], weights=values[rows], minlength=len(result.groups))


def near(found, expected, scale=1.0, tolerance=1e-12):
    assert (np.abs(np.asarray(found) - expected) <= tolerance * np.maximum(scale, 1e-300)).all()


def bits(values):
    return values.view(np.int64).tolist()


bases = st.sampled_from(BASES)


@given(batches(), bases, st.sampled_from(SUM_KEEPING))
def test_p1_p2_sum_over_passes_is_kept_and_failures_keep_their_bits(batch, base, rule):
    result = compute(batch, base, rule)
    kept = per_group(result, batch, result.base, batch.passed)
    near(per_group(result, batch, result.advantages, batch.passed), kept, np.abs(kept))
    assert bits(result.advantages[~batch.passed]) == bits(result.base[~batch.passed])


@given(batches(), bases, st.sampled_from([r for r in RULES if not isinstance(r, DownweightOnly)]))
def test_p3_groups_sum_to_zero(batch, base, rule):
    result = compute(batch, base, rule)
    near(
        per_group(result, batch, result.advantages),
        0.0,
        per_group(result, batch, np.abs(result.advantages)) + 1e-30,
        4e-12 if rule.shrink else 1e-12,
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.floats(-1e9, 1e9))
def test_p3_centred_bases_far_from_zero(values, offset):
    rewards = np.array(values) + offset
    for base in BASES:
        advantages = compute_advantages(rewards, ["g"] * len(values), estimator=base).advantages
        near(advantages.sum(), 0.0, np.abs(advantages).sum())


@given(batches(), bases, st.sampled_from(RULES), st.sampled_from(WEIGHTINGS))
def test_p4_a_better_rank_never_gets_less(batch, base, rule, weighting):
    result = compute(batch, base, rule, by=weighting)
    for code in range(len(result.groups)):
        rows = np.flatnonzero((result.codes == code) & batch.passed)
        rows = rows[np.argsort(batch.ranks[rows], kind="stable")]
        got, rank = result.advantages[rows], batch.ranks[rows]
        assert (got[:-1] >= got[1:]).all()
        assert (got[:-1] == got[1:])[rank[:-1] == rank[1:]].all()


@given(batches(), bases, st.sampled_from(RULES), st.sampled_from(WEIGHTINGS), st.randoms())
def test_p5_order_and_names_do_not_matter(batch, base, rule, weighting, random):
    plain = compute(batch, base, rule, by=weighting)
    order = np.array(random.sample(range(len(batch.rewards)), len(batch.rewards)))
    moved = compute(batch.take(order), base, rule, by=weighting)
    near(moved.advantages, plain.advantages[order], np.abs(plain.advantages[order]) + 1e-3)
    shuffle = {label: i for i, label in enumerate(plain.groups)}
    names = [["7", "007", ("7", 7), 7.5, b"7", frozenset({7})][shuffle[g]] for g in batch.groups.tolist()]
    renamed = compute_advantages(
        batch.rewards,
        names,
        estimator=base,
        redistribution=rule,
        weighting=weighting,
        ranks=batch.ranks,
        lengths=batch.lengths,
    )
    assert bits(renamed.advantages) == bits(plain.advantages)


@given(batches(), bases, st.sampled_from([r for r in RULES if not r._rule().strict]))
def test_p6_identity_when_there_is_nothing_to_choose_between(batch, base, rule):
    result = compute(batch, base, rule, by=Uniform())
    assert bits(result.advantages) == bits(result.base)
    single = per_group(result, batch, np.ones(len(batch.rewards)), batch.passed) <= 1
    graded = compute(batch, base, rule)
    rows = single[graded.codes]
    assert bits(graded.advantages[rows]) == bits(graded.base[rows])


@given(batches(), st.sampled_from([SumPreserving(), ShareCap()]), st.floats(0.1, 10), st.floats(0.3, 1))
def test_p7_scale(batch, rule, scale, shade):
    def scaled(rewards, codes, groups, lengths):
        return scale * DrGrpo().advantages(rewards, codes, groups, lengths)

    plain = compute(batch, DrGrpo(), rule)
    near(compute(batch, scaled, rule).advantages, scale * plain.advantages, np.abs(scale * plain.advantages))
    darker = compute(batch, DrGrpo(), rule, weights=batch.weights * shade)
    near(darker.advantages, plain.advantages, np.abs(plain.advantages))


@given(batches(), bases, st.sampled_from(RULES))
def test_p8_signs_never_flip(batch, base, rule):
    result = compute(batch, base, rule)
    assert (result.advantages[batch.passed] >= 0).all()
    assert (result.advantages[~batch.passed] <= 0).all()


@given(
    batches(),
    st.sampled_from([*BASES, Opo(), ReinforcePP()]),
    st.sampled_from(RULES),
    st.sampled_from([1e-150, 1e-3, 1e3, 1e150]),
    st.sampled_from([5e-324, 1e-310, 1e-200, 1e-30, 1.0]),
)
def test_p9_finite_in_finite_out(batch, base, rule, size, smallest):
    scaled = Batch(batch.rewards * size, batch.groups, batch.ranks, batch.weights, batch.lengths)
    scaled.weights = np.where(batch.weights < 0.3, smallest, batch.weights)
    result = compute(scaled, base, rule, passed=batch.passed)
    for name in ("advantages", "base", "weights", "positive_mass_kept"):
        assert np.isfinite(getattr(result, name)).all()
    assert np.isfinite(result.lambda_[~np.isnan(result.lambda_)]).all()
    if isinstance(rule, SumPreserving) and not rule.lambda_max and not isinstance(base, Opo | ReinforcePP):
        kept = per_group(result, batch, result.base, batch.passed)
        near(per_group(result, batch, result.advantages, batch.passed), kept, np.abs(kept))


@given(st.floats(-1e150, 1e150), st.integers(1, 40), st.sampled_from([*BASES, Opo(), ReinforcePP()]))
def test_p9_constant_rewards_give_exact_zeros(value, size, base):
    result = compute_advantages([value] * size, ["g"] * size, estimator=base, lengths=np.arange(size) + 1.0)
    assert (result.advantages == 0).all()


@given(batches(), bases)
def test_p10_ratios_are_those_of_weighted_base(batch, base):
    result = compute(batch, base)
    wanted = batch.weights * result.base
    for code in np.flatnonzero(~np.isnan(result.lambda_)):
        rows = np.flatnonzero((result.codes == code) & batch.passed)
        left = result.advantages[rows][:, None] * wanted[rows][None, :]
        near(left, left.T, np.abs(left), 4e-15)


@given(batches(), st.randoms())
def test_p11_two_redistributions_compose(batch, random):
    second = np.array([random.uniform(0.1, 1) for _ in batch.rewards])
    first = compute(batch)
    again = compute_advantages(
        batch.rewards,
        batch.groups,
        estimator=lambda *_: first.advantages,
        redistribution=SumPreserving(),
        weights=second,
    )
    together = compute(batch, weights=batch.weights * second)
    near(again.advantages, together.advantages, np.abs(together.advantages), 4e-15)


@given(batches(), bases, st.sampled_from(RULES), st.sampled_from([*WEIGHTINGS, "weights"]))
def test_p12_groups_are_isolated(batch, base, rule, by):
    before = compute(batch, base, rule, by=by)
    changed = batch.take(slice(None))
    touched = batch.groups == batch.groups[0]
    changed.rewards = np.where(touched, 1.0 - batch.rewards, batch.rewards)
    changed.weights = np.where(touched, 1e-320, batch.weights)
    changed.ranks = np.where(touched, np.where(changed.passed, 1.5, NAN), batch.ranks)
    after = compute(changed, base, rule, by=by)
    assert bits(after.advantages[~touched]) == bits(before.advantages[~touched])


@given(batches(), bases, st.sampled_from(RULES), st.sampled_from(WEIGHTINGS[:-1]))
def test_p13_an_unusable_grade_gives_the_base_bits(batch, base, rule, weighting):
    assume(batch.passed.any())
    row = np.flatnonzero(batch.passed)[0]
    batch.ranks = np.where(np.arange(len(batch.ranks)) == row, NAN, batch.ranks)
    result = compute(batch, base, rule, by=weighting)
    rows = batch.groups == batch.groups[row]
    assert bits(result.advantages[rows]) == bits(result.base[rows])
    assert result.fallback[result.codes[row]] in ("single pass", "no usable grade of a passing row")


@given(batches(), bases, st.sampled_from(RULES), st.sampled_from(WEIGHTINGS))
def test_p14_swapping_tied_rows_changes_nothing(batch, base, rule, weighting):
    plain = compute(batch, base, rule, by=weighting)
    order = np.arange(len(batch.rewards))
    for code in range(len(plain.groups)):
        rows = np.flatnonzero((plain.codes == code) & (batch.ranks == 1))
        order[rows] = rows[::-1]
    swapped = compute(batch.take(order), base, rule, by=weighting)
    assert bits(swapped.advantages) == bits(plain.advantages)


@given(batches(), bases, st.sampled_from([SumPreserving(conserve="token"), ShareCap(conserve="token")]))
def test_p15_token_mass_is_kept(batch, base, rule):
    result = compute(batch, base, rule)
    kept = per_group(result, batch, result.base * batch.lengths, batch.passed)
    near(per_group(result, batch, result.advantages * batch.lengths, batch.passed), kept, np.abs(kept))


@given(batches(), st.floats(1, 3), bases, st.booleans())
def test_p17_capped_mode_has_a_closed_form(batch, cap, base, strict):
    result = compute(batch, base, SumPreserving(lambda_max=cap, negative_pass="clip", strict=strict))
    for code in np.flatnonzero(result.capped):
        rows = np.flatnonzero(result.codes == code)
        a, f, p = result.base[rows], batch.weights[rows], batch.passed[rows]
        missing = (a[p].sum() - cap * (f * a)[p].sum()) / len(rows)
        near(result.advantages[rows], np.where(p, cap * f * a, a) + missing, np.abs(a).max(), 1e-13)
        near(result.lambda_[code], cap)
    for code in np.flatnonzero(~result.capped & ~np.isnan(result.lambda_)):
        assert result.lambda_[code] <= cap


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_p20_rloo_is_reward_minus_the_mean_of_the_others(values):
    found = compute_advantages(values, ["g"] * len(values), estimator=Rloo()).advantages
    others = [r - (sum(values) - r) / (len(values) - 1) for r in values]
    near(found, others, 1000.0, 1e-14)
    centred = compute_advantages(values, ["g"] * len(values), estimator=DrGrpo()).advantages
    near(found, centred * len(values) / (len(values) - 1), np.abs(found), 4e-15)


@settings(max_examples=50)
@given(batches(max_groups=2, max_size=7))
@example(
    Batch(*(np.array(x, float) for x in ([1, 1, 1, 0], [0] * 4, [1, 2, 3, NAN], [1, 0.85, 0.4, 1], [1] * 4)))
)
def test_equals_exact_rational_arithmetic(batch):
    """The definition of A*, group by group, in fractions."""
    result = compute(batch)
    for label in set(batch.groups.tolist()):
        rows = np.flatnonzero(batch.groups == label)
        r = [Fraction(float(x)) for x in batch.rewards[rows]]
        f = [Fraction(float(x)) for x in batch.weights[rows]]
        a = [x - sum(r) / len(r) for x in r]
        total = sum(x for x, y in zip(a, r, strict=True) if y)
        weighed = sum(x * w for x, w, y in zip(a, f, r, strict=True) if y)
        wanted = [x * w * total / weighed if y and weighed else x for x, w, y in zip(a, f, r, strict=True)]
        near(result.advantages[rows], [float(x) for x in wanted], 1.0, 4e-15)


@pytest.mark.parametrize("size", [1, 2, 63, 64])
def test_large_groups_keep_their_sum(size):
    generator = np.random.default_rng(size)
    batch = Batch(
        (generator.random(size * 50) < 0.5).astype(float),
        np.repeat(np.arange(50), size),
        np.full(size * 50, NAN),
        generator.uniform(0.01, 1, size * 50),
        np.ones(size * 50),
    )
    result = compute(batch)
    kept = per_group(result, batch, result.base, batch.passed)
    near(per_group(result, batch, result.advantages, batch.passed), kept, np.abs(kept))
