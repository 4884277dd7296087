"""Sweep specs: expansion, and one message with every fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from gagar_core.errors import ConfigError
from sweeps.launchers import Local, Slurm
from sweeps.plan import build_plan
from sweeps.spec import SPECS, from_words, load_spec, read_seeds, read_spec, with_words
from sweeps.words import launcher_settings, merge, parse, root_of, to_word

GOOD = {"question": "q?", "factors": {"list": ["algorithm=grpo"]}, "seeds": [0]}


def test_grid_is_the_product_in_order_and_the_list_follows() -> None:
    factors = {
        "grid": {"algorithm": ["grpo", "rloo"], "loss": ["token_mean", "prompt_mean"]},
        "list": ["algorithm=gagar weighting.floor=0.2"],
    }
    spec = read_spec("x", {**GOOD, "factors": factors})
    assert spec.variants == (
        ("algorithm=grpo", "loss=token_mean"),
        ("algorithm=grpo", "loss=prompt_mean"),
        ("algorithm=rloo", "loss=token_mean"),
        ("algorithm=rloo", "loss=prompt_mean"),
        ("algorithm=gagar", "weighting.floor=0.2"),
    )


def test_seeds_are_a_list_or_a_number() -> None:
    assert read_spec("x", {**GOOD, "seeds": 3}).seeds == (0, 1, 2)
    assert read_spec("x", {**GOOD, "seeds": [4, 1]}).seeds == (4, 1)


def test_all_faults_of_a_spec_are_named_at_once() -> None:
    bad = {
        "questions": "?",
        "base": ["budget=smoke,small"],
        "factors": {"grid": {"algorithm": []}},
        "seeds": [1, 1],
        "hypotheses": [{"metric": "held_out_pass", "kind": "better", "variant": "gagar", "margn": 1}],
    }
    with pytest.raises(ConfigError) as caught:
        read_spec("bad name/", bad)
    text = str(caught.value)
    for part in (
        "bad name/",
        "'questions'",
        "key question is missing",
        "budget=smoke,small",
        "factors.grid.algorithm must be a non-empty list",
        "seeds must be",
        "kind must be one of equivalent, non_inferior, superior; got 'better'",
        "unknown key 'margn'",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"factors": {}}, "factors must be a mapping"),
        ({"factors": {"product": {}}}, "unknown 'product'"),
        ({"factors": {"list": []}}, "non-empty list"),
        ({"factors": {"list": ["algorithm"]}}, "'algorithm' is not key=value"),
        ({"factors": {"grid": {"seed": [1]}}}, "must not choose seed"),
        ({"seeds": 0}, "got 0"),
        ({"seeds": True}, "got True"),
        ({"seeds": [-1]}, "got [-1]"),
        ({"question": " "}, "question must be a non-empty text"),
        ({"hypotheses": [{"metric": "tokens", "variant": "b", "kind": "equivalent"}]}, "margin must be > 0"),
        (
            {"hypotheses": [{"metric": "tokens", "variant": "b", "kind": "superior", "margin": "x"}]},
            "wrong type",
        ),
        ({"hypotheses": {}}, "must be a list"),
    ],
)
def test_each_fault_has_its_message(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_spec("x", {**GOOD, **changes})
    assert says in str(caught.value)


def test_a_file_that_is_missing_or_not_yaml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no spec .*nowhere.yaml; shipped ones: demo, .*main"):
        load_spec(tmp_path / "nowhere.yaml")
    torn = tmp_path / "torn.yaml"
    torn.write_text("question: [")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_spec(torn)
    torn.write_text("- a")
    with pytest.raises(ConfigError, match="must be a mapping"):
        load_spec(torn)


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_specs_are_valid(path: Path) -> None:
    assert load_spec(path).variants


def test_words_of_the_command_line_change_a_spec() -> None:
    spec = with_words(read_spec("x", GOOD), ["budget=smoke", "seed=range(2,5)", "root=/tmp/a b", "name=y"])
    assert (spec.seeds, spec.root, spec.name) == ((2, 3, 4), "/tmp/a b", "y")
    assert spec.overrides == ("budget=smoke",)


def test_words_must_not_overrule_what_factors_choose() -> None:
    with pytest.raises(ConfigError, match="algorithm=gagar: the factors of x choose algorithm"):
        with_words(read_spec("x", GOOD), ["algorithm=gagar"])
    with pytest.raises(ConfigError, match="leave the spec's name out"):
        with_words(read_spec("x", GOOD), ["loss=token_mean,prompt_mean"])


def test_without_a_spec_swept_words_span_the_grid() -> None:
    spec = from_words(
        ["algorithm=grpo,rloo", "loss=choice(token_mean,prompt_mean)", "seed=0,1", "budget=smoke"]
    )
    assert len(spec.variants) == 4
    assert spec.variants[1] == ("algorithm=grpo", "loss=prompt_mean")
    assert spec.seeds == (0, 1)
    assert spec.overrides == ("budget=smoke",)


@pytest.mark.parametrize("word", ["x=glob(*)", "x=shuffle(range(3))", "x=interval(0,1)", "x=[1", "=3"])
def test_words_that_differ_between_machines_or_do_not_parse_are_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="cannot read the overrides"):
        parse([word])


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("seed=range(100000000)", "has 100000000 values, more than 100000"),
        ("trainer.lr=range(0,1,1e-12)", "has 1000000000000 values, more than 100000"),
        ("seed=sort(range(0,-200001,-1))", "has 200001 values"),
        ("trainer.lr=range(0,1,0)", "the step is not 0"),
        ("seed=range(0,inf)", "finite numbers"),
        ("x=tag(t, shuffle(range(3)))", "only lists"),
        ("+seed=5", "write seed=5"),
        ("++trainer.lr=1", "write trainer.lr=1"),
        ("~trainer=", "write trainer=VALUE"),
    ],
)
def test_words_that_no_sweep_heeds_or_holds_are_refused(word: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse([word])
    assert says in str(caught.value)
    assert word in str(caught.value)


def test_a_plan_has_at_most_a_hundred_thousand_runs() -> None:
    assert len(parse(["seed=range(100000)"])[0].values) == 100_000
    with pytest.raises(ConfigError, match="2 variants x 50001 seed blocks are more than 100000 runs"):
        build_plan(from_words(["algorithm=grpo,rloo", "seed=range(50001)"]))


def test_name_root_and_baseline_are_taken_as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for text, root in (("/x/λ", "/x/λ"), ("a,b = c", "a,b = c"), ("~/x", "/home/me/x"), ("~x/~", "~x/~")):
        assert from_words(["algorithm=grpo", f"root={text}"]).root == root
        assert root_of(["name", f"root={text}"]) == root  # what every other verb reads
    assert from_words(["algorithm=grpo", 'baseline="algorithm=rloo"']).baseline == "algorithm=rloo"
    assert from_words(["algorithm=grpo", "baseline=algorithm=rloo a.b=1"]).baseline == "algorithm=rloo a.b=1"
    assert root_of(["root=a", "root=b"]) == from_words(["algorithm=grpo", "root=a", "root=b"]).root == "b"
    with pytest.raises(ConfigError, match="got 'a,b'"):
        from_words(["algorithm=grpo", "name=a,b"])


def test_a_key_that_stands_twice_in_a_spec_is_named_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(
        "question: q\nseeds: 2\nfactors:\n  grid:\n    loss: [token_mean]\n    loss: [prompt_mean]\nseeds: 3\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_spec(path)
    assert f"{path} says some things twice" in str(caught.value)
    assert "key seeds in line 7 is there before, in line 2" in str(caught.value)
    assert "key loss in line 6 is there before, in line 5" in str(caught.value)
    path.write_text("question: q\nseeds: 2\nfactors: {list: ['algorithm=grpo', 'algorithm=rloo']}\n")
    assert len(load_spec(path).variants) == 2
    path.write_text("question: &a [*a]\nseeds: 2\n")  # a list within itself
    with pytest.raises(ConfigError, match="question must be a non-empty text"):
        load_spec(path)


def test_later_words_replace_earlier_ones_of_the_same_key() -> None:
    assert merge(["budget=small", "a.b=1"], ["a.b=2"], ["budget=smoke"]) == ["a.b=2", "budget=smoke"]


@pytest.mark.parametrize(
    "value", [1, 1.5, True, None, "plain", "with, comma", "a=b", [1, "x y"], {"k": 2}, 'quote"d']
)
def test_values_from_yaml_survive_the_override_grammar(value: object) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    override = OverridesParser.create().parse_override(to_word("key", value))
    parsed = override.value()
    text = getattr(parsed, "text", parsed)
    got = [getattr(entry, "text", entry) for entry in text] if isinstance(text, list) else text
    got = {str(getattr(k, "text", k)): v for k, v in got.items()} if isinstance(got, dict) else got
    assert got == value


def test_launcher_words_become_typed_settings() -> None:
    assert launcher_settings(["workers=3"]) == Local(workers=3)
    words = ["launcher=slurm", "launcher.time_min=5", "launcher.options={exclude: n1, nice: 7}", "workers=2"]
    assert launcher_settings(words) == Slurm(workers=2, time_min=5, options={"exclude": "n1", "nice": 7})


def test_settings_of_an_earlier_submission_are_kept_or_replaced() -> None:
    before = {"kind": "slurm", "workers": 3, "options": {"hold": True}}
    assert launcher_settings([], before) == Slurm(workers=3, options={"hold": True})
    changed = launcher_settings(["launcher.options={}", "launcher.time_min=9"], before)
    assert changed == Slurm(workers=3, time_min=9)
    assert launcher_settings(["launcher=local"], before) == Local()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["launcher=slrum"], "unknown launcher 'slrum'; choose one of local, slurm"),
        (["launcher.partition=x"], "the local launcher has: launcher.workers"),
        (["launcher=slurm", "workers=0"], r"launcher.workers must be in \[1, inf\); got 0"),
        (["workers=many"], "many"),
    ],
)
def test_bad_launcher_words_are_named(words: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        launcher_settings(words)


def test_a_slip_in_the_number_of_seeds_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ConfigError, match="seeds: 1000000000000 seed blocks are more than 100000"):
        read_seeds(10**12)


def test_an_empty_root_is_not_the_current_folder() -> None:
    with pytest.raises(ConfigError, match="root= needs a folder"):
        from_words(["algorithm=grpo", "root="])


@pytest.mark.parametrize(
    "factors", [{"grid": {"algorithm": [["grpo", "rloo"]]}}, {"list": ["algorithm=[grpo,rloo]"]}]
)
def test_a_list_is_no_choice(factors: dict[str, object]) -> None:
    for spec in (from_words(["algorithm=[grpo,rloo]"]), read_spec("x", {**GOOD, "factors": factors})):
        with pytest.raises(ConfigError, match=r"one choice and no list; .* swept with algorithm=grpo,rloo"):
            build_plan(spec)


def test_settings_of_hydra_itself_are_refused() -> None:
    for word in ("hydra.run.dir=/tmp/x", "hydra/job_logging=none"):
        with pytest.raises(ConfigError, match="Hydra's own settings have no effect"):
            build_plan(from_words(["algorithm=grpo", word]))


@pytest.mark.parametrize("word", ["algorithm=true", "algorithm=null", "algorithm=1", "~trainer=1"])
def test_choices_that_are_no_names_are_named(word: str) -> None:
    with pytest.raises(ConfigError, match=word.split("=")[0]):
        build_plan(from_words(["budget=smoke", word]))
