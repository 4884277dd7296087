"""The step from a group's outcome to its advantages, in words and in the group's own numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, isclose

from experiments.recorded.group import Candidate, RecordedGroup
from experiments.recorded.text import number, one_line, plural, signed

_TERMS = 12
"""Terms of a sum that are written out."""

DROPPED = {
    "all_pass": "every trajectory passes, so the outcome tells none from the others",
    "all_fail": "no trajectory passes: there is no good one to move towards",
    "too_few_valid": "fewer than two trajectories count, so there is nothing to compare",
    "too_easy": "more of it passes than the sampling policy asks for",
    "too_hard": "less of it passes than the sampling policy asks for",
    "surplus": "the step already had as many mixed groups as the budget asks for",
}
"""drop_reason -> in words."""


@dataclass(frozen=True)
class Chapter:
    """One step of the method on this group: a title, a sentence, and lines of arithmetic."""

    title: str
    text: str
    maths: tuple[str, ...] = ()

    @property
    def wide(self) -> bool:
        """Whether its arithmetic needs the width of a page."""
        return max(map(len, self.maths), default=0) > 40


@dataclass(frozen=True)
class Sums:
    """Sums over the passing rows; ``mass`` counts tokens where the redistribution conserves those."""

    before: float
    after: float
    mass: float
    weighted: float

    @property
    def ratio(self) -> float | None:
        """S / W."""
        return self.mass / self.weighted if self.weighted > 0 else None


def sums_of(group: RecordedGroup) -> Sums:
    """Σ A, Σ A*, S = Σ u A⁺ and W = Σ u f A⁺ over the passing rows."""
    rows = group.passing
    return Sums(
        fsum(c.base or 0.0 for c in rows),
        fsum(c.used or 0.0 for c in rows),
        fsum(_unit(group, c) * max(c.base or 0.0, 0.0) for c in rows),
        fsum(_unit(group, c) * (c.weight or 0.0) * max(c.base or 0.0, 0.0) for c in rows),
    )


def _unit(group: RecordedGroup, candidate: Candidate) -> float:
    return float(candidate.row["gen_tokens"]) if _by_token(group) else 1.0


def _by_token(group: RecordedGroup) -> bool:
    return group.settings("redistribution").get("conserve") == "token"


def story(group: RecordedGroup) -> list[Chapter]:
    """The chapters of a group, in the order of a training step; a dropped group has one."""
    if not group.row["kept"]:
        return [_outcome(group), _dropped(group)]
    chapters = [_outcome(group), _base(group), _grade(group)]
    if group.acted:
        return [*chapters, _weights(group), _redistribution(group), _stays(group)]
    return [*chapters, _unmoved(group)]


def headline(group: RecordedGroup) -> str:
    """The group in one sentence."""
    row = group.row
    if not row["kept"]:
        return f"Dropped before training: {dropped_because(group)}."
    if not group.acted:
        return f"Trained on its base advantages: {one_line(_why_unmoved(group))}."
    moved = 0.5 * fsum(abs((c.used or 0.0) - (c.base or 0.0)) for c in group.passing)
    factor = number(row["lambda_"])
    words = f"{number(moved)} of advantage moved from worse to better ranked passes (λ {factor})."
    return f"{words} {_what_became_of_the_sum(group)}"


def dropped_because(group: RecordedGroup) -> str:
    """Why a group was dropped, in words."""
    reason = str(group.row["drop_reason"])
    return DROPPED.get(reason, one_line(reason) or "no reason was recorded")


def _outcome(group: RecordedGroup) -> Chapter:
    n, passes = group.row["n"], group.row["n_pass"]
    lucky = [c for c in group.passing if c.lucky]
    audited = [c for c in group.passing if c.row["audit_passed"] is not None]
    text = f"{passes} of {plural(n, 'trajectory')} pass the reward tests."
    left_out = len(group.candidates) - n
    if left_out:
        text += f" {left_out} more did not run for a fault of ours: they count nowhere."
    if lucky:
        names = ", ".join(f"#{c.index}" for c in lucky)
        text += (
            f" Audit tests, which nothing in training or grading sees, show that {names}"
            f" {'is' if len(lucky) == 1 else 'are'} wrong all the same: luck, not skill."
        )
    elif audited and passes:
        text += " Audit tests, which nothing in training or grading sees, find no fault in the passes."
    return Chapter("Outcome", text)


def _dropped(group: RecordedGroup) -> Chapter:
    text = f"{_begin(dropped_because(group))}. The group is in no loss and has no advantages."
    return Chapter(f"Dropped by sampling={group.kind('sampling')}", text)


def _base(group: RecordedGroup) -> Chapter:
    passes = _levels([c.base for c in group.passing])
    fails = _levels([c.base for c in group.others if c.row["valid"]])
    parts = [f"every pass gets {passes}"] if group.passing else []
    parts += [f"every failure {fails}"] if fails else []
    text = _begin(" and ".join(parts)) + "."
    if len({c.base for c in group.passing}) == 1 and len(group.passing) > 1:
        text += " The tests alone cannot tell the passes apart."
    if group.kind("shaping") != "none":
        text += f" Rewards were shaped before (shaping={group.kind('shaping')})."
    return Chapter(f"Base advantage: {group.kind('estimator')}", text)


def _begin(text: str) -> str:
    """The text as the beginning of a sentence; only the first letter changes."""
    return text[:1].upper() + text[1:]


def _levels(values: Sequence[float | None]) -> str:
    found = sorted({value for value in values if value is not None})
    if not found:
        return ""
    return signed(found[0]) if len(found) == 1 else f"between {signed(found[0])} and {signed(found[-1])}"


def _grade(group: RecordedGroup) -> Chapter:
    title, abstain = f"Grade: {group.kind('grader')}", group.row["abstain"]
    if abstain:
        return Chapter(title, f"No ranking: {one_line(abstain)}.")
    ranked = [c for c in group.passing if c.row["rank"] is not None]
    if not ranked:
        return Chapter(title, "No passing trajectory was ranked.")
    order = " > ".join(_blocks(ranked))
    return Chapter(
        title, f"The passing trajectories against each other, best first: {order}. Failures are not ranked."
    )


def _blocks(ranked: Sequence[Candidate]) -> list[str]:
    ranks = sorted({c.row["rank"] for c in ranked})
    return [" = ".join(f"#{c.index}" for c in ranked if c.row["rank"] == rank) for rank in ranks]


def _weights(group: RecordedGroup) -> Chapter:
    ties = max(Counter(c.row["rank"] for c in group.passing).values())
    text = "A rank becomes a weight f in (0, 1]; only the ratios between them matter afterwards."
    if ties > 1:
        text += " Tied ranks share theirs."
    shrunk = group.settings("redistribution").get("shrink") or 0.0
    if shrunk:
        text += f" shrink={number(shrunk)} pulls them towards their mean."
    levels = sorted({c.weight or 0.0 for c in group.passing}, reverse=True)
    names = [", ".join(f"#{c.index}" for c in group.passing if c.weight == level) for level in levels]
    lines = tuple(f"f = {number(level)} for {who}" for level, who in zip(levels, names, strict=True))
    return Chapter(f"Quality weight: {group.kind('weighting')}", text, lines)


def _redistribution(group: RecordedGroup) -> Chapter:
    title, kind = f"Redistribution: {group.kind('redistribution')}", group.kind("redistribution")
    sums, factor = sums_of(group), group.row["lambda_"]
    if kind == "downweight_only":
        return Chapter(title, "Weights without a rescale: positive advantage is lost.", _products(group, 1.0))
    u = "u·" if _by_token(group) else ""
    lines = [
        f"S = Σ {u}A⁺ = {_sum(group, weighted=False)} = {number(sums.mass)}",
        f"W = Σ {u}f·A⁺ = {_sum(group, weighted=True)} = {number(sums.weighted)}",
    ]
    text = "Passes keep their sum: what low ranks lose, high ranks gain. Sums run over the passing rows only."
    if u:
        text += " u is the number of tokens, because the loss counts tokens."
    if sums.ratio is not None and isclose(sums.ratio, factor, rel_tol=1e-9):
        lines.append(f"λ = S / W = {number(sums.mass)} / {number(sums.weighted)} = {number(factor)}")
    else:
        lines.append(f"λ = S / W would be {number(sums.ratio)}; {_capped(group)}")
    return Chapter(title, text, (*lines, *_products(group, factor)))


def _capped(group: RecordedGroup) -> str:
    settings, used = group.settings("redistribution"), f"{number(group.row['lambda_'])} was used"
    if not group.row["capped"]:
        return used
    if settings.get("gain_max"):
        gain = number(settings["gain_max"])
        return f"no row may gain more than {gain}-fold, and the others take up the rest: {used}"
    return f"the cap lambda_max = {number(settings.get('lambda_max'))} was reached: {used}"


def _sum(group: RecordedGroup, *, weighted: bool) -> str:
    rows = [c for c in group.passing if (c.base or 0.0) > 0.0]
    terms = []
    for c in rows[:_TERMS]:
        factors = [number(_unit(group, c))] if _by_token(group) else []
        factors += [number(c.weight)] if weighted else []
        terms.append("·".join([*factors, number(c.base)]))
    if len(set(terms)) == 1 and len(rows) > 1:
        return f"{len(rows)} × {terms[0]}"
    return " + ".join([*terms, *(["…"] if len(rows) > _TERMS else [])])


def _products(group: RecordedGroup, factor: float) -> tuple[str, ...]:
    """A* of the best and of the worst pass, where the formula gives what was recorded."""
    best, worst = group.passing[0], group.passing[-1]
    lines = []
    for c in (best, worst) if worst is not best else (best,):
        expected = factor * (c.weight or 0.0) * max(c.base or 0.0, 0.0)
        if c.used is not None and isclose(expected, c.used, rel_tol=1e-9, abs_tol=1e-12):
            parts = f"{number(factor)} · {number(c.weight)} · {number(c.base)}"
            lines.append(f"A*(#{c.index}) = λ·f·A⁺ = {parts} = {signed(c.used)}")
    return tuple(lines)


def _stays(group: RecordedGroup) -> Chapter:
    sums = sums_of(group)
    lines = [f"Σ over passing: {number(sums.before)} before, {number(sums.after)} after"]
    failing = [c for c in group.others if c.row["valid"]]
    before = fsum(c.base or 0.0 for c in failing)
    if failing:
        lines.append(
            f"Σ over failing: {number(before)} before, {number(fsum(c.used or 0.0 for c in failing))} after"
        )
    lines += _right_share(group) + _length(group)
    text = (
        "Failing rows are untouched, bit for bit." if failing_untouched(group) else _why_failing_moved(group)
    )
    if not sum_kept(group):
        text = f"{_what_became_of_the_sum(group)} {text}"
    return Chapter("What stays, what moves", text, tuple(lines))


def failing_untouched(group: RecordedGroup) -> bool:
    """Whether every failing row has exactly its base advantage."""
    return all(c.base == c.used for c in group.others)


def _why_failing_moved(group: RecordedGroup) -> str:
    if group.settings("redistribution").get("group_size"):
        return "All rows were rescaled to the intended group size, failing ones too."
    return "A cap or a clipped negative base recentred the group, so failing rows moved too."


def sum_kept(group: RecordedGroup) -> bool:
    """Whether the passing rows' advantages add up to what they added up to before."""
    sums = sums_of(group)
    return isclose(sums.before, sums.after, rel_tol=1e-9, abs_tol=1e-12)


def _what_became_of_the_sum(group: RecordedGroup) -> str:
    sums = sums_of(group)
    if sum_kept(group):
        return f"Their sum stays {number(sums.before)}."
    if _by_token(group) and isclose(group.row["positive_mass_kept"] or 0.0, 1.0, rel_tol=1e-9):
        return f"Their sum over tokens stays {number(sums.mass)}."
    return f"The sum over the passes was not kept: {number(sums.before)} became {number(sums.after)}."


def _right_share(group: RecordedGroup) -> list[str]:
    """The share of passing advantage that rests on programs which audit tests confirm."""
    sums = sums_of(group)
    if not any(c.lucky for c in group.passing) or sums.before <= 0 or sums.after <= 0:
        return []
    right = [c for c in group.passing if not c.lucky]
    before, after = (
        fsum(v or 0.0 for v in values) for values in ([c.base for c in right], [c.used for c in right])
    )
    shares = f"{before / sums.before:.1%} before, {after / sums.after:.1%} after"
    return [f"on passes that audit tests confirm: {shares}"]


def _length(group: RecordedGroup) -> list[str]:
    rows = [c for c in group.candidates if c.base is not None and c.used is not None]
    mean = fsum(c.row["gen_tokens"] for c in rows) / len(rows)
    before, after = (
        fsum((c.row["gen_tokens"] - mean) * (value or 0.0) for c, value in zip(rows, values, strict=True))
        / len(rows)
        for values in ([c.base for c in rows], [c.used for c in rows])
    )
    towards = "shorter" if after < before else "longer"
    gain = "" if isclose(before, after) else f" (advantage moved to {towards} ones)"
    return [f"covariance of tokens and advantage: {signed(before)} before, {signed(after)} after{gain}"]


def _unmoved(group: RecordedGroup) -> Chapter:
    loo = any(c.base != c.used for c in group.candidates)
    if loo:
        text = "Every row passes and the base is 0: all_pass=leave_one_out gave beta times the centred rank."
    else:
        text = f"{_begin(one_line(_why_unmoved(group)))}: the loss uses the base advantages, bit for bit."
    return Chapter(f"Redistribution: {group.kind('redistribution')}", text)


def _why_unmoved(group: RecordedGroup) -> str:
    if group.kind("redistribution") == "none":
        return "this run redistributes nothing"
    return group.row["fallback"] or group.row["abstain"] or "nothing was redistributed"
