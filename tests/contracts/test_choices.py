"""What every entry of ``CHOICES`` must keep, whoever adds it."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from experiments.compose import compose
from experiments.help import help_text, summary
from experiments.identity import changed_fields, default_names, presets
from experiments.schema import AXES, CHOICES, from_record, kind_of, to_record
from gagar_core import protocols
from gagar_core.choices import choice_class, field_docs
from gagar_core.errors import ConfigError

ENTRIES = [(axis, name) for axis in CHOICES for name in CHOICES[axis]]
PLAIN = (bool, int, float, str, type(None), list, dict)
SEAMS: dict[str, tuple[Any, ...]] = {
    "estimator": (protocols.Estimator,),
    "weighting": (protocols.Weighting, protocols.GradedWeighting),
    "redistribution": (protocols.Redistribution,),
    "sampling": (protocols.SamplingPolicy,),
    "grader": (protocols.Grader,),
    "shaping": (protocols.Shaping,),
    "loss": (protocols.Loss,),
}


@pytest.mark.parametrize(("axis", "name"), ENTRIES)
class TestEntry:
    def test_is_a_documented_dataclass_with_documented_plain_fields(self, axis: str, name: str) -> None:
        cls = choice_class(axis, name, CHOICES)
        assert is_dataclass(cls)
        assert summary(cls)
        assert not cls.__doc__ or not cls.__doc__.startswith(
            cls.__name__ + "("
        )  # the generated one says nothing
        docs = field_docs(cls)
        for field in fields(cls):
            assert docs[field.name], f"{cls.__name__}.{field.name} has no doc line"
            assert isinstance(getattr(cls(), field.name), PLAIN)

    def test_has_the_methods_of_its_seam(self, axis: str, name: str) -> None:
        settings = CHOICES[axis][name]()
        assert axis not in SEAMS or isinstance(settings, SEAMS[axis])

    def test_composes_to_its_own_defaults_and_survives_its_record(self, axis: str, name: str) -> None:
        config = compose([f"{axis}={name}"])
        settings = getattr(config, axis)
        assert kind_of(axis, settings) == name
        assert changed_fields(settings) == {}
        record = json.loads(json.dumps(to_record(config), allow_nan=False))
        assert from_record(record) == config

    def test_is_in_the_help(self, axis: str, name: str) -> None:
        assert f"{axis}={name}  {summary(CHOICES[axis][name])}" in help_text()


@pytest.mark.parametrize("preset", presets())
def test_a_preset_chooses_names_only(preset: str) -> None:
    config = compose([f"algorithm={preset}"])
    for axis in AXES:
        settings = getattr(config, axis)
        assert changed_fields(settings) == {}
        assert kind_of(axis, settings) == presets()[preset].get(axis, default_names()[axis])


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("preset", presets())
def test_swapping_an_axis_under_a_preset_gives_the_class_defaults(preset: str, axis: str) -> None:
    name = max(CHOICES[axis])
    settings = getattr(compose([f"algorithm={preset}", f"{axis}={name}"]), axis)
    assert type(settings) is CHOICES[axis][name]
    assert changed_fields(settings) == {}


@pytest.mark.parametrize("axis", AXES)
def test_an_unknown_choice_lists_the_known_ones(axis: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose([f"{axis}=no_such_thing"])
    assert "no_such_thing" in str(caught.value)
    assert all(name in str(caught.value) for name in CHOICES[axis])
