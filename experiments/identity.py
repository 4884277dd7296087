"""Who a run is: an id that depends on what changes its result, and a readable label of its variant."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from experiments.schema import AXES, BOOKKEEPING, CONFIG_EPOCH, SANDBOX_BOOKKEEPING, RunConfig, kind_of

PRESETS_FOLDER = Path(__file__).parent / "conf" / "algorithm"
_ID_LENGTH = 12


def run_id(config: RunConfig) -> str:
    """Twelve hex digits over the kinds and the fields that differ from their defaults, and the seed.

    A new field, or a new axis whose default is ``none``, keeps old ids; root, name and tracking never matter.
    """
    return digest_of({"seed": config.seed, "config": delta(config), "epoch": CONFIG_EPOCH})


def digest_of(value: Any) -> str:
    """Short digest of plain data, equal on every machine."""
    text = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


def delta(config: RunConfig, axes: tuple[str, ...] = AXES) -> dict[str, dict[str, Any]]:
    """Per axis the kind and the fields that differ from the class's own defaults; ``none`` is left out."""
    result: dict[str, dict[str, Any]] = {}
    for axis in axes:
        settings = getattr(config, axis)
        kind = kind_of(axis, settings)
        if axis not in BOOKKEEPING and kind != "none":
            result[axis] = {"kind": kind} | changed_fields(settings)
    limits = {k: v for k, v in changed_fields(config.sandbox).items() if k not in SANDBOX_BOOKKEEPING}
    return result | ({"sandbox": limits} if limits else {})


def changed_fields(settings: Any) -> dict[str, Any]:
    """Fields whose value differs from the default, floats normalised (-0.0 is 0.0, 1 on a float is 1.0)."""
    changed = {}
    for f in fields(settings):
        value = _normal(getattr(settings, f.name), f.type)
        if value != _normal(default_of(f), f.type):
            changed[f.name] = value
    return changed


def default_of(f: Field[Any]) -> Any:
    """Default value of a settings field; every settings field has one."""
    if f.default is not MISSING:
        return f.default
    assert f.default_factory is not MISSING
    return f.default_factory()


def _normal(value: Any, annotation: object) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and "float" in str(annotation):
        return float(value)
    return value + 0.0 if isinstance(value, float) else value


def variant_label(config: RunConfig) -> str:
    """Readable label of a configuration without its seed: the nearest preset, then what differs from it.

    ``gagar``, ``grpo sampling=keep_all``, ``gagar weighting.floor=0.4``.
    """
    kinds = {axis: kind_of(axis, getattr(config, axis)) for axis in AXES if axis not in BOOKKEEPING}
    preset, names = min(presets().items(), key=lambda item: sum(kinds[a] != n for a, n in item[1].items()))
    expected = {**default_names(), **names}
    parts = [preset]
    for axis, kind in kinds.items():
        if axis != "budget" and kind != expected[axis]:
            parts.append(f"{axis}={kind}")
        parts += [f"{axis}.{name}={value}" for name, value in changed_fields(getattr(config, axis)).items()]
    parts += [f"sandbox.{name}={value}" for name, value in delta(config, ()).get("sandbox", {}).items()]
    return " ".join(parts)


@cache
def presets() -> dict[str, dict[str, str]]:
    """Preset name -> the choices it makes, read from ``conf/algorithm``."""
    return {path.stem: _names(path) for path in sorted(PRESETS_FOLDER.glob("*.yaml"))}


@cache
def default_names() -> dict[str, str]:
    """The choices of ``conf/config.yaml``."""
    return _names(PRESETS_FOLDER.parent / "config.yaml")


def _names(path: Path) -> dict[str, str]:
    entries = yaml.safe_load(path.read_text())["defaults"]
    pairs = [pair for entry in entries if isinstance(entry, dict) for pair in entry.items()]
    return {
        key.removeprefix("override /"): value
        for key, value in pairs
        if key != "algorithm" and "hydra" not in key
    }
