"""The words of a command line: ``key=value`` in Hydra's override grammar, and a few of our own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

from gagar_core.errors import ConfigError, gather, noted
from sweeps.launchers import CHOICES

LITERAL = ("name", "root", "baseline")
"""Keys whose values are taken as they stand (a path, other words), and not in Hydra's grammar."""

MAX_VALUES = 100_000
"""A word of more values is a slip of the keyboard, and would fill the memory before anybody could say so."""


@dataclass(frozen=True)
class Word:
    """One override. ``values`` has more than one entry for a sweep (``algorithm=grpo,rloo``)."""

    key: str
    values: tuple[str, ...]
    text: str
    value: Any = None
    """The value itself, where it is a single one."""


def parse(words: Iterable[str]) -> list[Word]:
    """Parse override words; every word that cannot be read is named."""
    faults: list[str] = []
    parsed = [noted(faults, partial(_parse_one, word)) for word in words]
    gather(faults, headline="cannot read the overrides")
    return [word for word in parsed if word is not None]


@cache
def _parse_one(word: str) -> Word:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    key, _, value = word.partition("=")
    if key in LITERAL:
        return Word(key, (value_of(word),), word, value_of(word))
    if word.startswith(("+", "~")):
        instead = f"{key.lstrip('+~')}={value or 'VALUE'}"
        msg = f"{word!r}: the keys of a run are fixed, none is added or removed; write {instead}"
        raise ConfigError(msg)
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as err:
        why = str(err).splitlines()[0]
        msg = f"{word!r} is not key=value in Hydra's grammar ({why}); quote special characters"
        raise ConfigError(msg) from err
    key = override.get_key_element()
    if not key:
        msg = f"{word!r} has no key before its ="
        raise ConfigError(msg)
    if not override.is_sweep_override():
        return Word(key, (override.get_value_element_as_str(),), word, override.value())
    swept: Any = override.value()
    if not override.is_discrete_sweep() or value.startswith("glob(") or swept.shuffle:
        msg = f"{word!r}: only lists (a,b), choice() and range() can be swept"
        raise ConfigError(msg)
    if override.is_range_sweep():
        _check_length(word, swept.start, swept.stop, swept.step)
    values = tuple(override.sweep_string_iterator())
    if not values:
        msg = f"{word!r} has no values"
        raise ConfigError(msg)
    return Word(key, values, word)


def _check_length(word: str, start: float, stop: float, step: float) -> None:
    """Count the values of a range before they are written out."""
    if step == 0 or not all(math.isfinite(number) for number in (start, stop, step)):
        msg = f"{word!r}: the ends and the step of a range are finite numbers, and the step is not 0"
        raise ConfigError(msg)
    number = (stop - start) / step
    if number > MAX_VALUES:
        msg = f"{word!r} has {number:.0f} values, more than {MAX_VALUES}"
        raise ConfigError(msg)


def root_of(words: Sequence[str]) -> str:
    """The root that words name, the last if several do."""
    return next((value_of(word) for word in reversed(words) if word.startswith("root=")), "runs")


def value_of(word: str) -> str:
    """A value taken as it stands, without quotes around it; of a root, with the home folder for ``~``."""
    key, _, value = word.partition("=")
    value = value.strip("\"'")
    home = key == "root" and (value == "~" or value.startswith("~/"))
    return value.replace("~", str(Path.home()), 1) if home else value


def merge(*groups: Sequence[str]) -> list[str]:
    """Concatenate override words; a later one replaces an earlier one of the same key."""
    merged: dict[str, str] = {}
    for group in groups:
        for word in group:
            key = word.split("=", 1)[0]
            merged.pop(key, None)
            merged[key] = word
    return list(merged.values())


def to_word(key: str, value: Any) -> str:
    """An override word for a value from YAML."""
    return f"{key}={_value(value)}"


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "[" + ",".join(_value(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{_value(v)}" for k, v in value.items()) + "}"
    text = str(value)
    if isinstance(value, str) and not all(c.isalnum() or c in "_-./" for c in text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def launcher_settings(words: Sequence[str], before: Mapping[str, Any] | None = None) -> Any:
    """Settings from ``launcher=NAME``, ``launcher.FIELD=VALUE`` and ``workers=N`` (launcher.workers).

    ``before`` are settings of an earlier submission, kept where the words do not change them.
    """
    from gagar_core.choices import choice_class  # it loads every choice's module

    values = {word.key: word.value for word in parse(words)}
    earlier = dict(before or {})
    kind = earlier.pop("kind", "local")
    name = str(values.pop("launcher", kind))
    cls = choice_class("launcher", name, CHOICES)
    names = [f.name for f in fields(cls)]
    settings = {key.removeprefix("launcher."): value for key, value in values.items()}
    valid = ", ".join(f"launcher.{name}" for name in names)
    faults = [
        f"unknown {n}; the {cls.__name__.lower()} launcher has: {valid}" for n in settings if n not in names
    ]
    # replaced as wholes: launcher.options={} takes earlier options away
    known = {key: value for key, value in settings.items() if key in names}
    launcher = noted(faults, lambda: _typed(cls, {**(earlier if name == kind else {}), **known}))
    gather(faults, headline="invalid launcher")
    return launcher


def _typed(cls: type[Any], settings: Mapping[str, Any]) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        merged = OmegaConf.merge(OmegaConf.structured(cls), settings)
        return OmegaConf.to_object(merged)
    except OmegaConfBaseException as err:
        if isinstance(err.__cause__, ConfigError):
            raise err.__cause__ from None
        raise ConfigError(f"launcher: {str(err).splitlines()[0]}") from err


def is_launcher_word(word: str) -> bool:
    """Whether a word is about where to run, not about what."""
    key = word.split("=", 1)[0]
    return key in ("launcher", "workers") or key.startswith("launcher.")
