"""From override words (``algorithm=gagar seed=3``) to a checked ``RunConfig``, through Hydra."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.schema import AXES, CHOICES, SCALARS, RunConfig
from gagar_core.errors import ConfigError, GagarError
from gagar_core.sandbox.settings import SandboxSettings

_NOISE = re.compile(r"object_type=|Config search path|provider=|To append to your config|^Error merging")
_UNKNOWN_KEY = re.compile(r"Key '\w+' not in '(\w+)'")

_VALUE = re.compile(rf"(\w+(\.\w+)+|{'|'.join(SCALARS)})=")
"""Words that set a value; all others choose, add or remove."""

_NOT_WHOLE = re.compile(
    r"Value '([\d.eE+-]+)' of type 'float' could not be converted to Integer\s+full_key: ([\w.]+)"
)

CONF = Path(__file__).parent / "conf"


@cache
def register() -> None:
    """Put every choice into Hydra's store: group = axis, schema = the settings class itself."""
    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunConfig)
    for axis, named in CHOICES.items():
        for name, cls in named.items():
            store.store(group=axis, name=name, node=cls)


def compose(overrides: Sequence[str]) -> RunConfig:
    """Compose and check one run; raise ``ConfigError`` naming key, value and what is valid."""
    _check_words(overrides)
    register()
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            return to_config(hydra_compose("config", overrides=list(overrides)))
    except (HydraException, OmegaConfBaseException, ValueError) as err:  # Hydra's own of a choice of odd type
        if isinstance(err, ConfigError):
            raise
        whole = _as_whole(overrides, _told(err))
        if whole is not None:
            return compose(whole)
        raise ConfigError(_of_many(overrides) or explain(err)) from err
    except OSError as err:  # a name too long for the file system that Hydra looks it up in
        msg = f"{' '.join(word[:80] for word in overrides)}: {err.strerror or err}"
        raise ConfigError(msg) from err


def _check_words(overrides: Sequence[str]) -> None:
    """Refuse what Hydra takes and a run does not heed: its own settings, and choices that are merged."""
    faults = []
    for word in overrides:
        key, _, value = word.partition("=")
        if re.match(r"hydra\b", key.lstrip("+~")):
            faults.append(f"{word}: Hydra's own settings have no effect; root= and name= say where things go")
        elif "." not in key and value.lstrip().startswith("["):
            names = value.strip("[] ")
            faults.append(f"{word}: one choice and no list; several are swept with {key}={names}")
    if faults:
        raise ConfigError("\n".join(faults))


class Composer:
    """Composes many configurations: Hydra once per set of choices, values are patched into what they touch.

    Gives what ``compose`` gives, at a small part of its cost; ``composed`` counts the calls of Hydra.
    Settings that no word touches are shared by the configurations of one set of choices.
    """

    def __init__(self) -> None:
        self.composed = 0
        self._bases: dict[tuple[str, ...], tuple[Any, dict[str, Any]]] = {}

    def __call__(self, overrides: Sequence[str]) -> RunConfig:
        """Compose and check one run; raises as ``compose`` does."""
        choices = tuple(word for word in overrides if not _VALUE.match(word))
        try:
            base, parts = self._base(choices)
            patched = _patched(base, [_parsed(word) for word in overrides if _VALUE.match(word)])
        except (HydraException, OmegaConfBaseException, ValueError, OSError):
            return compose(overrides)  # it says the same of every fault, in the same words
        return RunConfig(**{**parts, **_settings(patched)})

    def _base(self, choices: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
        if choices not in self._bases:
            _check_words(choices)
            self.composed += 1
            register()
            with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
                composed = hydra_compose("config", overrides=list(choices))
            self._bases[choices] = composed, _settings(composed)
        return self._bases[choices]


def _patched(base: Any, values: Sequence[tuple[str, Any]]) -> Any:
    """A copy of the parts of ``base`` that ``values`` speak of, with these values."""
    touched = [key.split(".")[0] for key, _ in values]
    absent = [key for key in touched if key not in base]
    if absent:
        msg = f"{', '.join(absent)}: a run has no such part"
        raise ConfigError(msg)
    part = OmegaConf.masked_copy(base, list(dict.fromkeys(touched)))
    for key, value in values:
        OmegaConf.update(part, key, copy.deepcopy(value), merge=True)
    return part


@cache
def _parsed(word: str) -> tuple[str, Any]:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    override = OverridesParser.create().parse_override(word)
    if override.is_sweep_override():
        msg = f"{word} sweeps"
        raise ConfigError(msg)
    return override.get_key_element(), override.value()


def _as_whole(overrides: Sequence[str], fault: str) -> list[str] | None:
    """The same words with ``key=1.0`` as ``key=1``, if a field of integers refused it for that."""
    found = _NOT_WHOLE.search(fault)
    if found is None or not float(found[1]).is_integer():
        return None
    word = f"{found[2]}={int(float(found[1]))}"
    return [word if other.split("=", 1)[0] == found[2] else other for other in overrides]


def _of_many(overrides: Sequence[str]) -> str:
    """What to say of words that stand for several runs; "" if none does."""
    many = []
    for word in overrides:
        try:
            _parsed(word)
        except ConfigError:
            many.append(word)
        except HydraException:
            continue
    if not many:
        return ""
    submit = shlex.join(["python", "-m", "sweeps", "submit", *overrides])
    return f"{' '.join(many)}: one run takes one value of each; for all of them: {submit}"


def to_config(composed: Any) -> RunConfig:
    """Turn Hydra's container into a run; the faults of all settings are gathered first."""
    return RunConfig(**_settings(composed))


def _settings(composed: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    known = [field.name for field in fields(RunConfig)]
    faults = [  # ``+key=value`` adds to Hydra's container whatever it likes
        f"unknown key {key!r}; a run has: {', '.join(known)}" for key in composed if key not in known
    ]
    for key, node in composed.items():
        try:
            parts[key] = OmegaConf.to_object(node) if OmegaConf.is_config(node) else node
        except GagarError as err:
            faults.append(str(err))
        except OmegaConfBaseException as err:
            faults.append(explain(err))
    if faults:
        raise ConfigError("\n".join(faults))
    return parts


def explain(err: BaseException) -> str:
    """Hydra's words without its internals, and a pointer to where the valid names are listed."""
    words = _told(err)
    lines = [line for line in words.splitlines() if line.strip() and not _NOISE.search(line)]
    lines += [f"fields of {cls}: {_fields_of(cls)}" for cls in _UNKNOWN_KEY.findall(words)]
    hint = f"axes: {', '.join(AXES)}; `python -m experiments.run --help` lists their choices and fields"
    return "\n".join([*lines, hint])


def _told(err: BaseException) -> str:
    return str(err) if err.__cause__ is None or str(err.__cause__) in str(err) else f"{err}\n{err.__cause__}"


def _fields_of(class_name: str) -> str:
    classes: list[type[Any]] = [
        RunConfig,
        SandboxSettings,
        *(c for named in CHOICES.values() for c in named.values()),
    ]
    return ", ".join(f.name for cls in classes if cls.__name__ == class_name for f in fields(cls))
