"""The language of factors, claims, tiers: what it spans, what it refuses; and who is who afterwards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from gates import run_cli
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import LISTED

from experiments.compose import Composer, compose
from experiments.identity import run_id
from experiments.schema import to_record
from gagar_core.errors import ConfigError
from sweeps.factors import draw, read_factors
from sweeps.plan import build_plan
from sweeps.spec import from_words, read_spec, with_words
from sweeps.verbs import planned, with_resources

HOSTILE = ["../up", "a/b", "a=b", "a,b", "a\nb", "λ", "x" * 300, "", " ", "-x", "a b", "$HOME", "x;ls"]
"""Texts that are no names."""


def spec_of(**changes: Any) -> Any:
    """A spec with some keys of ``LISTED`` changed."""
    return read_spec("x", {**LISTED, **changes})


def runs_of(spec: Any) -> list[Mapping[str, Any]]:
    """Lines of runs of the plan."""
    return [line for line in build_plan(spec).lines if line["kind"] == "run"]


def test_grid_by_zip_by_seeds_without_the_excluded_and_with_one_extra_run() -> None:
    factors = {
        "grid": {"algorithm": ["grpo", "rloo", "gagar"]},
        "zip": {"trainer.lr": [1e-3, 3e-3], "budget.groups_per_step": [6, 12]},
        "exclude": ["algorithm=rloo budget.groups_per_step=12"],
        "list": ["algorithm=dr_grpo seed=3"],
    }
    runs = runs_of(spec_of(factors=factors, seeds=5, baseline="dr_grpo"))
    assert len(runs) == 3 * 2 * 5 - 5 + 1
    assert len({line["run_id"] for line in runs}) == 26
    assert [line["seed"] for line in runs if line["variant"].startswith("dr_grpo")] == [3]
    pairs = {(c["trainer"]["lr"], c["budget"]["groups_per_step"]) for c in (r["config"] for r in runs[:-1])}
    assert (1e-3, 12) not in pairs
    assert not [
        r for r in runs if r["variant"].startswith("rloo") and r["config"]["budget"]["groups_per_step"] == 12
    ]


def test_one_at_a_time_stores_the_base_once_and_compares_with_it() -> None:
    factors = {
        "one_at_a_time": {
            "algorithm": ["gagar", "grpo", "rloo"],
            "sampling": ["mixed_only", "keep_all"],
            "loss": ["token_mean", "prompt_mean"],
            "trainer.lr": [1e-3, 3e-3],
        }
    }
    plan = build_plan(read_spec("x", {"question": "q", "factors": factors, "seeds": 5}))
    runs = [line for line in plan.lines if line["kind"] == "run"]
    assert len(runs) == (1 + 2 + 1 + 1 + 1) * 5
    labels = list(dict.fromkeys(line["variant"] for line in runs))
    assert (
        plan.head["baseline"] == labels[0] == build_plan(from_words(["trainer.lr=1e-3"])).lines[-1]["variant"]
    )
    base = runs[0]["config"]
    for line in runs[3:6]:  # sampling, loss and lr change one axis each
        assert sum(line["config"][axis] != base[axis] for axis in base) == 1


def test_when_adds_factors_to_the_variants_that_hold_its_words() -> None:
    factors = {
        "grid": {"algorithm": ["grpo", "gagar"], "trainer.lr": [0.001, 0.002]},
        "when": [{"if": "algorithm=gagar trainer.lr=1e-3", "grid": {"weighting.floor": [0.2, 0.4]}}],
    }
    assert read_factors(factors) == (
        ("algorithm=grpo", "trainer.lr=0.001"),
        ("algorithm=grpo", "trainer.lr=0.002"),
        ("algorithm=gagar", "trainer.lr=0.001", "weighting.floor=0.2"),
        ("algorithm=gagar", "trainer.lr=0.001", "weighting.floor=0.4"),
        ("algorithm=gagar", "trainer.lr=0.002"),
    )


SPACE: dict[str, Any] = {
    "trainer.lr": {"low": 1e-4, "high": 1e-2, "log": True},
    "weighting": ["linear", "geometric"],
    "budget.steps": {"low": 5, "high": 9},
}


def test_random_points_are_the_same_for_ever() -> None:
    """The formula, written out a second time."""
    import hashlib

    points = read_factors({"random": {"count": 7, "seed": 0, "space": SPACE}})
    for number, words in enumerate(points):
        path = f"0/str:random factors/str:trainer.lr/int:{number}"
        raw = int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big") >> 11
        assert words[0] == f"trainer.lr={float(f'{1e-4 * 100 ** (raw / 2**53):.6g}')}"
    assert len(set(points)) == 7
    assert points == tuple(draw(9, 0, SPACE)[:7])  # more points keep the first ones
    fewer = {key: SPACE[key] for key in ("budget.steps", "trainer.lr")}
    assert [words[:1] for words in points] == [words[1:] for words in draw(7, 0, fewer)]
    assert draw(7, 1, SPACE) != list(points)


@given(st.integers(0, 10**6), st.floats(1e-6, 1e3), st.floats(1.01, 1e3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_random_points_lie_within_their_bounds(seed: int, low: float, factor: float, log: bool) -> None:
    space = {"x": {"low": low, "high": low * factor, "log": log}, "n": {"low": -2, "high": 2}}
    for x, n in draw(20, seed, space):
        assert low <= float(x.removeprefix("x=")) <= low * factor
        assert int(n.removeprefix("n=")) in range(-2, 3)


def test_random_integers_reach_both_ends_about_equally() -> None:
    drawn = [int(words[0].removeprefix("n=")) for words in draw(4000, 0, {"n": {"low": 0, "high": 3}})]
    for value in range(4):
        assert math.isclose(drawn.count(value), 1000, abs_tol=4 * math.sqrt(4000 * 0.25 * 0.75))


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ({"zip": {"a": [1, 2], "b": [1]}}, "lists must have one length; a has 2, b has 1"),
        ({"grid": {"a": [1]}, "zip": {"a": [1]}}, "a is in grid and in zip"),
        ({"grid": {"a": []}}, "factors.grid.a must be a non-empty list"),
        ({"grid": {f"k{i}": list(range(40)) for i in range(5)}}, "102400000 variants are more than 100000"),
        ({"grid": {"a": [1]}, "exclude": ["a=2"]}, "factors.exclude: no variant holds a=2"),
        ({"grid": {"a": [1]}, "exclude": ["a=1"]}, "leave no variant"),
        ({"grid": {"a": [1]}, "when": [{"if": "a=2", "grid": {"b": [1]}}]}, "no variant holds a=2"),
        ({"grid": {"a": [1]}, "when": [{"if": "a=1"}]}, "give one of grid, zip, random"),
        (
            {"grid": {"a": [1]}, "when": [{"if": "a=1", "grid": {"a": [2]}}]},
            "a is in the variant and in when",
        ),
        ({"random": {"count": 0, "space": {"a": [1]}}}, "count must be an integer >= 1; got 0"),
        ({"random": {"count": 2, "space": {"a": {"low": 2, "high": 1}}}}, "low < high"),
        ({"random": {"count": 2, "space": {"a": {"low": 0, "high": 1, "log": True}}}}, "needs low > 0"),
        ({"random": {"count": 2, "seed": -1, "space": {"a": [1]}}}, "seed must be an integer >= 0"),
        ({"random": {"count": 2, "space": {"a": [1]}, "sed": 1}}, "unknown key 'sed'"),
        ({"one_at_a_time": {}}, "must map keys to lists"),
        ({"list": ["a=1,2"]}, "sweeps; use factors.grid"),
        ({"grid": {"root": ["/tmp/a", "/tmp/b"]}}, "must not choose root"),
        ({"grid": {"tracking.uri": ["a"]}}, "must not choose tracking.uri"),
        ({"one_at_a_time": {"seed": [1, 2]}}, "must not choose seed"),
        ({"list": ["'a=1"]}, "cannot be split into words"),
    ],
)
def test_each_fault_of_factors_has_its_message(factors: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_factors(factors)
    assert says in str(caught.value)


SINGLE = {"metric": "held_out_pass", "variant": "algorithm=rloo", "kind": "non_inferior", "margin": 0.05}


def test_a_joint_hypothesis_is_resolved_part_by_part() -> None:
    joint = {
        "name": "no worse and shorter",
        "all_of": [SINGLE, {**SINGLE, "metric": "tokens", "kind": "superior"}],
    }
    (resolved,) = build_plan(spec_of(hypotheses=[joint])).head["hypotheses"]
    assert [part["variant"] for part in resolved["all_of"]] == ["rloo", "rloo"]
    assert [part["against"] for part in resolved["all_of"]] == ["grpo", "grpo"]
    assert [part["direction"] for part in resolved["all_of"]] == ["higher", "lower"]
    from analysis.hypotheses import parse

    (declared,) = parse([resolved], ["grpo", "rloo"])
    assert (declared.faults, declared.joint, len(declared.parts)) == ((), True, 2)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"name": "n", "all_of": [SINGLE]}, "all_of must list two or more"),
        ({"all_of": [SINGLE, SINGLE]}, "needs a name"),
        (
            {"name": "n", "all_of": [SINGLE, {**SINGLE, "kind": "better"}]},
            "hypothesis 1, part 2: kind must be one of",
        ),
        ({"name": "n", "all_of": [SINGLE, SINGLE], "margin": 1}, "unknown key 'margin'"),
        ({**SINGLE, "margin": float("nan")}, "finite; got nan"),
        ({**SINGLE, "margin": float("inf")}, "finite; got inf"),
        ({**SINGLE, "margin": -0.1}, "margin must be > 0"),
        ({**SINGLE, "margin": 1.5}, "held_out_pass is a rate; got 1.5"),
        ({**SINGLE, "margin": True}, "margin has the wrong type"),
    ],
)
def test_impossible_claims_are_refused(entry: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spec_of(hypotheses=[entry])
    assert says in str(caught.value)


def test_a_joint_hypothesis_about_an_absent_variant_is_refused() -> None:
    joint = {"name": "n", "all_of": [SINGLE, {**SINGLE, "variant": "gagar"}]}
    with pytest.raises(ConfigError, match="hypothesis 1, part 2: variant 'gagar' is not in the plan"):
        build_plan(spec_of(hypotheses=[joint]))


def faults_of_plan(*words: str) -> tuple[str, ...]:
    """What is found in a command line."""
    with pytest.raises(ConfigError) as caught:
        planned(words)
    return caught.value.faults


def test_faults_of_words_of_variants_and_of_the_launcher_are_told_together() -> None:
    told = faults_of_plan(
        "algorithm=grpo,gagar", "trainer.lrr=1", "seed=-1", "name=a/b", "workers=x", "launcher.y=1"
    )
    for fault, part in zip(told, ("got [-1]", "got 'a/b'", "unknown y", "'x'", "lrr"), strict=True):
        assert part in fault


def test_a_fault_of_many_variants_is_told_once_and_hides_no_fault_of_the_plan() -> None:
    words = ("algorithm=grpo,nope,nada", "trainer.lr=0.1,0.10,-1", "budget=smoke", "baseline=algorithm=rloo")
    told = faults_of_plan(*words)
    for fault, part in zip(
        told,
        (
            "algorithm=grpo trainer.lr=-1 budget=smoke: ",
            "algorithm=nope trainer.lr=0.1 budget=smoke (and 2 more variants): ",
            "algorithm=nada trainer.lr=0.1 budget=smoke (and 2 more variants): ",
            "two variants with one identity",
            "baseline 'algorithm=rloo' is not in the plan; variants: grpo",
        ),
        strict=True,
    ):
        assert fault.startswith(part) or part in fault
    assert sum("axes: estimator" in fault for fault in told) == 1


def test_a_refused_word_brings_no_faults_of_its_own() -> None:
    told = faults_of_plan("main", "algorithm=grpo", "seed=-1", "loss=token_mean,prompt_mean")
    for fault, part in zip(
        told, ("got [-1]", "the factors of main choose algorithm", "a spec sweeps by"), strict=True
    ):
        assert part in fault


@pytest.mark.parametrize("baseline", ["algorithm=nope", "nope", "grpo"])
def test_a_variant_that_cannot_be_is_no_absent_baseline(baseline: str) -> None:
    told = faults_of_plan("algorithm=grpo,nope", "sampling=nil", f"baseline={baseline}")
    assert len(told) <= 2
    assert not any("baseline" in fault for fault in told)


def test_faults_of_nested_parts_stand_in_one_list() -> None:
    with pytest.raises(ConfigError) as caught:
        spec_of(
            factors={"one_at_a_time": {"a": [], "b": 3}, "grid": {"a": []}},
            resources=["launcher.y=1", "workers=-1"],
        )
    assert str(caught.value).splitlines() == [
        "invalid sweep x:",
        "  - factors.one_at_a_time.a must be a non-empty list; got []",
        "  - factors.one_at_a_time.b must be a non-empty list; got 3",
        "  - factors.grid.a must be a non-empty list; got []",
        "  - unknown y; the local launcher has: launcher.workers, launcher.start",
        "  - launcher.workers must be in [0, inf); got -1",
    ]


TIERED = {
    **LISTED,
    "resources": ["launcher=slurm", "launcher.gpus=2"],
    "tiers": {"pilot": {"base": ["budget.steps=1"], "seeds": [7], "resources": ["workers=3"]}},
}


def test_a_tier_changes_the_price_and_the_name() -> None:
    spec = with_words(read_spec("x", TIERED), ["tier=pilot"])
    assert (spec.name, spec.seeds, spec.base[-1]) == ("x-pilot", (7,), "budget.steps=1")
    launcher = with_resources(spec.resources, [])
    assert (launcher.gpus, launcher.workers) == (2, 3)
    assert with_resources(spec.resources, ["launcher.gpus=1"]).gpus == 1
    assert type(with_resources(spec.resources, ["launcher=local"])).__name__ == "Local"
    with pytest.raises(ConfigError, match="tier=big: x has the tiers: pilot"):
        with_words(read_spec("x", TIERED), ["tier=big"])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tiers": {"pilot": {"steps": 3}}}, "tier pilot: unknown key 'steps'"),
        ({"tiers": {"../p": {"seeds": 1}}}, "name must be 1 to 80"),
        ({"tiers": {"p": {"base": ["root=/etc"]}}}, "root=/etc is no setting of a run"),
        ({"base": ["seed=3"]}, "seed=3 is no setting of a run"),
        ({"resources": ["budget=smoke"]}, "budget=smoke is no launcher word"),
        ({"resources": ["launcher=slurm", "launcher.gpu=2"]}, "unknown gpu"),
    ],
)
def test_faults_of_tiers_and_resources(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spec_of(**changes)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_refused_and_nothing_is_written(text: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump({**LISTED, "factors": {"grid": {"estimator": ["rloo", text]}}}))
    for words in (
        [str(spec)],
        ["algorithm=grpo", f'name="{text or "."}"'],
        ["algorithm=grpo", f'"{text}"=1'],
    ):
        done = run_cli("submit", *words, f"root={tmp_path / 'runs'}", "--no-follow")
        assert done.returncode == 2, done
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [spec]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_named_by_the_reader_of_a_spec(text: str) -> None:
    with pytest.raises(ConfigError, match="metric must be one of"):
        spec_of(hypotheses=[{**SINGLE, "metric": text}])
    for changes in ({"tiers": {text: {"seeds": 1}}}, {"tiers": {"p": {text: 1}}}, {text: 1}):
        with pytest.raises(ConfigError, match=r"name must be|unknown key"):
            spec_of(**changes)
    with pytest.raises(ConfigError):
        read_spec(text, LISTED)


@pytest.mark.parametrize(
    "words", [["trainer.lr=1e-3", "seed=2"], ["weighting.floor=0.3", "sandbox.fuel=5000", "budget=smoke"]]
)
def test_patching_gives_what_hydra_gives(words: list[str]) -> None:
    full = ["algorithm=gagar", *words]
    assert to_record(Composer()(full)) == to_record(compose(full))


def test_hydra_is_asked_once_per_set_of_choices() -> None:
    composer = Composer()
    for algorithm in ("grpo", "gagar"):
        for rate in ("0.001", "1e-3", "1.0e-3", "0.002"):
            composer([f"algorithm={algorithm}", f"trainer.lr={rate}"])
    assert composer.composed == 2


def test_identity_by_value_not_by_spelling() -> None:
    same = [
        ["algorithm=gagar", "trainer.lr=1e-3", "seed=1"],
        ["seed=1", "trainer.lr=0.001", "algorithm=gagar"],
        ["trainer.lr=1.0e-3", "algorithm=gagar", "seed=1", "tracking=none", "root=/elsewhere", "name=other"],
    ]
    composer = Composer()
    assert len({run_id(composer(words)) for words in same}) == 1
    near = [["algorithm=gagar", "weighting.floor=0.3"], ["algorithm=gagar", "weighting.floor=0.30000001"]]
    assert len({run_id(composer(words)) for words in near}) == 2


def test_faults_are_told_in_the_words_of_a_single_run() -> None:
    for word in ("budget.steps=many", "trainer.lr=-1"):
        with pytest.raises(ConfigError) as alone:
            compose([word])
        with pytest.raises(ConfigError) as patched:
            Composer()([word])
        assert str(alone.value) == str(patched.value)
