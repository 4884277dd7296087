"""A sweep before it is planned: a question, variants, seed blocks. From ``specs/NAME.yaml`` or from words.

question:    what the sweep is to answer
base:        override words that all variants share
baseline:    the variant that others are compared with, by its words or by its label
factors:
  grid:      {key: [values]}; the product of all keys
  list:      further variants, one string of override words each
seeds:       a list of seed blocks, or their number
hypotheses:  [{metric, variant, against, kind: superior|non_inferior|equivalent, margin, direction}]
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from gagar_core.errors import ConfigError, check_choice, gather
from gagar_core.records.measures import REPORT_METRICS
from sweeps.ledger import check_name
from sweeps.words import Word, merge, parse, to_word

SPECS = Path(__file__).parent / "specs"

KEYS = ("question", "base", "baseline", "factors", "seeds", "hypotheses")
KINDS = ("superior", "non_inferior", "equivalent")
_HYPOTHESIS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("metric", "variant", "against", "kind", "direction"), (str,)),
    "margin": (int, float),
}
RESERVED = ("root", "name", "seed", "launcher", "workers", "hydra", "tracking")
"""Keys that no factor may hold: they say where, not what."""


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """What is to be compared. ``variants`` are the words of each variant beside ``base``."""

    name: str
    question: str = ""
    base: tuple[str, ...] = ()
    baseline: str = ""
    variants: tuple[tuple[str, ...], ...] = ()
    seeds: tuple[int, ...] = (0,)
    hypotheses: tuple[Mapping[str, Any], ...] = ()
    root: str = "runs"
    overrides: tuple[str, ...] = field(default=())
    """Words of the command line; they win over ``base``, and must not touch what the factors choose."""


def load_spec(path: Path) -> SweepSpec:
    """Read and check a spec file as a whole; every fault is named before anything is raised."""
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as err:
        known = ", ".join(sorted(p.stem for p in SPECS.glob("*.yaml")))
        msg = f"there is no spec {path}; shipped ones: {known}. Without a spec: submit algorithm=grpo,gagar"
        raise ConfigError(msg) from err
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        msg = f"{path} is not valid YAML: {err}"
        raise ConfigError(msg) from err
    if not isinstance(content, dict):
        msg = f"{path} must be a mapping with the keys {', '.join(KEYS)}"
        raise ConfigError(msg)
    return read_spec(path.stem, content)


def read_spec(name: str, content: Mapping[str, Any]) -> SweepSpec:
    """Build a spec from the content of its file."""
    faults = check_name(name)
    faults += [f"unknown key {key!r}; valid: {', '.join(KEYS)}" for key in content if key not in KEYS]
    faults += [f"key {key} is missing" for key in ("question", "factors", "seeds") if key not in content]

    def part(key: str, reader: Callable[[Any], Any], default: Any) -> Any:
        try:
            return reader(content[key]) if key in content else default
        except ConfigError as err:
            faults.append(str(err))
            return default

    spec = SweepSpec(
        name=name,
        question=part("question", lambda v: _text("question", v), ""),
        base=part("base", lambda v: tuple(_words("base", v)), ()),
        baseline=part("baseline", lambda v: _text("baseline", v), ""),
        variants=part("factors", read_factors, ()),
        seeds=part("seeds", read_seeds, (0,)),
        hypotheses=part("hypotheses", read_hypotheses, ()),
    )
    gather(faults, headline=f"invalid sweep {name}")
    return spec


def read_factors(value: Any) -> tuple[tuple[str, ...], ...]:
    """Variants of ``factors``: the product of ``grid``, then those of ``list``."""
    if not isinstance(value, dict) or not value:
        msg = f"factors must be a mapping with {' and/or '.join(FACTORS)}; got {value!r}"
        raise ConfigError(msg)
    unknown = [key for key in value if key not in FACTORS]
    if unknown:
        msg = f"factors: unknown {', '.join(map(repr, unknown))}; valid: {', '.join(FACTORS)}"
        raise ConfigError(msg)
    variants = [variant for key, reader in FACTORS.items() if key in value for variant in reader(value[key])]
    taken = {word.split("=", 1)[0] for variant in variants for word in variant}
    reserved = sorted(taken & set(RESERVED))
    if reserved:
        msg = f"factors must not choose {', '.join(reserved)}; seeds have a key, others are given on submit"
        raise ConfigError(msg)
    return tuple(variants)


def _read_grid(value: Any) -> list[tuple[str, ...]]:
    if not isinstance(value, dict) or not value:
        msg = f"factors.grid must map keys to lists of values; got {value!r}"
        raise ConfigError(msg)
    faults = [
        f"factors.grid.{key} must be a non-empty list; got {levels!r}"
        for key, levels in value.items()
        if not isinstance(levels, list) or not levels
    ]
    gather(faults, headline="factors")
    return grid({str(key): [to_word(str(key), level) for level in levels] for key, levels in value.items()})


def grid(levels: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """The product of the words of each key, the last key changing fastest."""
    return list(itertools.product(*levels.values()))


def _read_list(value: Any) -> list[tuple[str, ...]]:
    if not isinstance(value, list) or not value:
        msg = f"factors.list must be a non-empty list of override words; got {value!r}"
        raise ConfigError(msg)
    return [tuple(_words("factors.list", entry)) for entry in value]


FACTORS: dict[str, Callable[[Any], list[tuple[str, ...]]]] = {"grid": _read_grid, "list": _read_list}
"""Kinds of factors, in the order in which their variants are planned."""


def read_seeds(value: Any) -> tuple[int, ...]:
    """Seed blocks: a list of different non-negative integers, or how many (0, 1, ...)."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return tuple(range(value))
    good = isinstance(value, list) and value and all(type(v) is int and v >= 0 for v in value)
    if not good or len(set(value)) < len(value):
        msg = f"seeds must be a list of different integers >= 0, or their number >= 1; got {value!r}"
        raise ConfigError(msg)
    return tuple(value)


def read_hypotheses(value: Any) -> tuple[dict[str, Any], ...]:
    """Checked hypotheses; ``margin`` is 0 and ``direction`` the metric's own where they do not say."""
    if not isinstance(value, list):
        msg = f"hypotheses must be a list; got {value!r}"
        raise ConfigError(msg)
    faults: list[str] = []
    read = [_read_hypothesis(f"hypothesis {number}", entry, faults) for number, entry in enumerate(value, 1)]
    gather(faults, headline="hypotheses")
    return tuple(read)


def _read_hypothesis(where: str, entry: Any, faults: list[str]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        faults.append(f"{where} must be a mapping; got {entry!r}")
        return {}
    own = REPORT_METRICS.get(str(entry.get("metric")), "") or "higher"
    full = {"against": "", "margin": 0.0, "direction": own, **entry}
    faults += [
        f"{where}: unknown key {k!r}; valid: {', '.join(_HYPOTHESIS)}" for k in full if k not in _HYPOTHESIS
    ]
    missing = [key for key in ("metric", "variant", "kind") if key not in full]
    faults += [f"{where}: key {key} is missing" for key in missing]
    wrong = [key for key, kinds in _HYPOTHESIS.items() if key in full and type(full[key]) not in kinds]
    faults += [f"{where}: {key} has the wrong type; got {full[key]!r}" for key in wrong]
    if missing or wrong:
        return {}
    faults += check_choice(f"{where}: metric", full["metric"], REPORT_METRICS)
    faults += check_choice(f"{where}: kind", full["kind"], KINDS)
    faults += check_choice(f"{where}: direction", full["direction"], ("higher", "lower"))
    needs_margin = full["kind"] in ("non_inferior", "equivalent")
    if full["margin"] < 0 or (needs_margin and not full["margin"] > 0):
        faults.append(f"{where}: margin must be {'> 0' if needs_margin else '>= 0'}; got {full['margin']!r}")
    return full


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        msg = f"{key} must be a non-empty text; got {value!r}"
        raise ConfigError(msg)
    return " ".join(value.split())


def _words(key: str, value: Any) -> list[str]:
    if isinstance(value, str):
        value = shlex.split(value)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        msg = f"{key} must be override words; got {value!r}"
        raise ConfigError(msg)
    swept = [word.text for word in parse(value) if len(word.values) > 1]
    gather([f"{key}: {word} sweeps; use factors.grid" for word in swept], headline="sweep")
    return list(value)


def with_words(spec: SweepSpec, words: Sequence[str]) -> SweepSpec:
    """Apply command-line words (without launcher words) to a spec."""
    parsed = parse(words)
    spec, rest = _take_own(spec, parsed)
    chosen = {word.split("=", 1)[0] for variant in spec.variants for word in variant}
    faults = [f"{w.text}: the factors of {spec.name} choose {w.key}" for w in rest if w.key in chosen]
    faults += [
        f"{w.text}: a spec sweeps by its factors; leave the spec's name out to sweep from the command line"
        for w in rest
        if len(w.values) > 1
    ]
    gather(faults, headline=f"cannot change sweep {spec.name}")
    return replace(spec, overrides=tuple(merge([w.text for w in rest])))


def from_words(words: Sequence[str]) -> SweepSpec:
    """A sweep without a spec file: words with several values span the grid. Its name is left to the plan."""
    spec, rest = _take_own(SweepSpec(name=""), parse(words))
    swept = {w.key: [f"{w.key}={value}" for value in w.values] for w in rest if len(w.values) > 1}
    fixed = [w.text for w in rest if len(w.values) == 1]
    reserved = sorted(set(swept) & set(RESERVED))
    gather([f"{key} cannot be swept" for key in reserved], headline="cannot sweep")
    return replace(spec, variants=tuple(grid(swept)), overrides=tuple(merge(fixed)))


def _take_own(spec: SweepSpec, words: Sequence[Word]) -> tuple[SweepSpec, list[Word]]:
    """Words that are about the sweep itself (name, root, baseline, seed), and the others."""
    rest = []
    for word in words:
        if word.key == "seed":
            spec = replace(spec, seeds=read_seeds([_whole(word, value) for value in word.values]))
        elif word.key in ("name", "root", "baseline"):
            value: Any = word.text.split("=", 1)[1].strip("\"'")
            spec = replace(spec, **{word.key: value})
        else:
            rest.append(word)
    if spec.name:
        gather(check_name(spec.name), headline="invalid sweep")
    return spec, rest


def _whole(word: Word, value: str) -> int:
    try:
        return int(value)
    except ValueError as err:
        msg = f"{word.text}: seed blocks are integers >= 0, for instance seed=0,1,2 or 'seed=range(5)'"
        raise ConfigError(msg) from err


def find_spec(name: str) -> Path:
    """Path of a shipped spec, or of the user's file."""
    return Path(name) if name.endswith((".yaml", ".yml")) or "/" in name else SPECS / f"{name}.yaml"


__all__ = ["FACTORS", "KEYS", "KINDS", "SweepSpec", "find_spec", "from_words", "load_spec", "with_words"]
