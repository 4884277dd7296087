"""A sweep before it is planned: a question, variants, seed blocks. From ``specs/NAME.yaml`` or from words.

question:    what the sweep is to answer
base:        override words that all variants share
baseline:    the variant that others are compared with, by its words or by its label; of a sweep with
             one_at_a_time, its base if nothing is said
factors:     which variants (see ``sweeps.factors``)
seeds:       a list of seed blocks, or their number
hypotheses:  what is claimed (see ``sweeps.claims``)
resources:   launcher words, used where a submission does not say otherwise
tiers:       {NAME: {base, seeds, resources}}: the same question at another price; chosen with tier=NAME
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from gagar_core.errors import ConfigError, check_folder_name, gather, noted
from sweeps.claims import read_hypotheses
from sweeps.factors import RESERVED, base_levels, grid, key_of, read_factors, read_words
from sweeps.words import Word, is_launcher_word, launcher_settings, merge, parse

MAX_SEEDS = 100_000
"""More seed blocks than this are a slip of the keyboard, and would fill the memory."""

SPECS = Path(__file__).parent / "specs"

KEYS = ("question", "base", "baseline", "factors", "seeds", "hypotheses", "resources", "tiers")
TIER_KEYS = ("base", "seeds", "resources")


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
    resources: tuple[str, ...] = ()
    """Launcher words, for submissions that say nothing else."""
    tiers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Other prices of the same question: what each changes of base, seeds and resources."""


def load_spec(path: Path) -> SweepSpec:
    """Read and check a spec file as a whole; every fault is named before anything is raised."""
    try:
        content = _read_yaml(path)
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


def _read_yaml(path: Path) -> Any:
    text = path.read_text()
    gather(
        _said_twice(yaml.compose(text, Loader=yaml.SafeLoader), set()),
        headline=f"{path} says some things twice",
    )
    return yaml.safe_load(text)


def _said_twice(node: Any, seen: set[int]) -> list[str]:
    """Keys that stand twice in one mapping, of which YAML would keep the last and say nothing."""
    if not isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) or id(node) in seen:
        return []  # an alias leads to a node for a second time
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [fault for item in node.value for fault in _said_twice(item, seen)]
    faults, lines = [], dict[str, int]()
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            faults.append(f"key {name} in line {line} is there before, in line {lines[name]}")
        lines.setdefault(name, line)
        faults += _said_twice(value, seen)
    return faults


def read_spec(name: str, content: Mapping[str, Any]) -> SweepSpec:
    """Build a spec from the content of its file."""
    faults = check_folder_name(name)
    faults += [f"unknown key {key!r}; valid: {', '.join(KEYS)}" for key in content if key not in KEYS]
    faults += [f"key {key} is missing" for key in ("question", "factors", "seeds") if key not in content]

    def part(key: str, reader: Callable[[Any], Any], default: Any) -> Any:
        read = noted(faults, lambda: reader(content[key])) if key in content else None
        return default if read is None else read

    implied_baseline = part("factors", base_levels, "")
    spec = SweepSpec(
        name=name,
        question=part("question", lambda v: _text("question", v), ""),
        base=part("base", lambda v: tuple(_base_words("base", v)), ()),
        baseline=part("baseline", lambda v: _text("baseline", v), "") or implied_baseline,
        variants=part("factors", read_factors, ()),
        seeds=part("seeds", read_seeds, (0,)),
        hypotheses=part("hypotheses", read_hypotheses, ()),
        resources=part("resources", lambda v: _resources("resources", v), ()),
        tiers=part("tiers", _read_tiers, {}),
    )
    gather(dict.fromkeys(faults), headline=f"invalid sweep {name[:80]}")
    return spec


def read_seeds(value: Any) -> tuple[int, ...]:
    """Seed blocks: a list of different non-negative integers, or how many (0, 1, ...)."""
    if type(value) is int and value > MAX_SEEDS:
        msg = f"seeds: {value} seed blocks are more than {MAX_SEEDS}"
        raise ConfigError(msg)
    if type(value) is int and value > 0:
        return tuple(range(value))
    good = isinstance(value, list) and value and all(type(v) is int and v >= 0 for v in value)
    if not good or len(set(value)) < len(value):
        msg = f"seeds must be a list of different integers >= 0, or their number >= 1; got {repr(value)[:80]}"
        raise ConfigError(msg)
    return tuple(value)


def _base_words(where: str, value: Any) -> list[str]:
    words = read_words(where, value)
    own = [
        word
        for word in words
        if key_of(word).split(".", 1)[0] in ("root", "name", "seed", "launcher", "workers")
    ]
    gather([f"{where}: {word} is no setting of a run; it has its own place" for word in own], headline=where)
    return words


def _resources(where: str, value: Any) -> tuple[str, ...]:
    words = read_words(where, value)
    other = [word for word in words if not is_launcher_word(word)]
    gather([f"{where}: {word} is no launcher word" for word in other], headline=where)
    launcher_settings(words)
    return tuple(words)


def _read_tiers(value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(entry, dict) and entry for entry in value.values()):
        msg = f"tiers must map names to mappings with some of {', '.join(TIER_KEYS)}; got {value!r}"
        raise ConfigError(msg)
    faults = [fault for name in value for fault in check_folder_name(str(name))]
    faults += [
        f"tier {name}: unknown key {key!r}; valid: {', '.join(TIER_KEYS)}"
        for name, entry in value.items()
        for key in entry
        if key not in TIER_KEYS
    ]
    gather(faults, headline="tiers")
    return {str(name): _read_tier(f"tier {name}", entry) for name, entry in value.items()}


def _read_tier(where: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    readers: dict[str, Callable[[Any], Any]] = {
        "base": lambda value: tuple(_base_words(where, value)),
        "seeds": read_seeds,
        "resources": lambda value: _resources(where, value),
    }
    return {key: readers[key](value) for key, value in entry.items()}


def with_tier(spec: SweepSpec, name: str) -> SweepSpec:
    """The spec at another price; its sweep is called ``NAME-TIER``, so that no two tiers share a folder."""
    if name not in spec.tiers:
        known = ", ".join(spec.tiers) or "none"
        msg = f"tier={name}: {spec.name or 'a sweep without a spec'} has the tiers: {known}"
        raise ConfigError(msg)
    tier = spec.tiers[name]
    return replace(
        spec,
        name=f"{spec.name}-{name}",
        base=tuple(merge(spec.base, tier.get("base", ()))),
        seeds=tier.get("seeds", spec.seeds),
        resources=tuple(merge(spec.resources, tier.get("resources", ()))),
    )


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        msg = f"{key} must be a non-empty text; got {value!r}"
        raise ConfigError(msg)
    return " ".join(value.split())


def with_words(spec: SweepSpec, words: Sequence[str], found: list[str] | None = None) -> SweepSpec:
    """Apply command-line words (without launcher words) to a spec.

    Faults that leave something to look at are added to ``found`` if it is given, and raised if it is not.
    """
    faults: list[str] = []
    parsed = parse(words)
    for tier in [word for word in parsed if word.key == "tier"]:
        spec = with_tier(spec, tier.values[0])
    spec, rest = _take_own(spec, [word for word in parsed if word.key != "tier"], faults)
    chosen = {key_of(word) for variant in spec.variants for word in variant}
    faults += [f"{w.text}: the factors of {spec.name} choose {w.key}" for w in rest if w.key in chosen]
    faults += [
        f"{w.text}: a spec sweeps by its factors; leave the spec's name out to sweep from the command line"
        for w in rest
        if len(w.values) > 1
    ]
    _tell(faults, found, headline=f"cannot change sweep {spec.name}")
    good = [w.text for w in rest if w.key not in chosen and len(w.values) == 1]
    return replace(spec, overrides=tuple(merge(good)))


def from_words(words: Sequence[str], found: list[str] | None = None) -> SweepSpec:
    """A sweep without a spec file: words with several values span the grid. Its name is left to the plan.

    ``found`` is as for ``with_words``.
    """
    faults: list[str] = []
    spec, rest = _take_own(SweepSpec(name=""), parse(words), faults)
    swept = {w.key: [f"{w.key}={value}" for value in w.values] for w in rest if len(w.values) > 1}
    fixed = [w.text for w in rest if len(w.values) == 1]
    reserved = sorted(key for key in swept if key in (*RESERVED, "tier"))
    faults += [f"{key} cannot be swept" for key in reserved]
    _tell(faults, found, headline="cannot sweep")
    return replace(spec, variants=tuple(grid(swept)), overrides=tuple(merge(fixed)))


def _tell(faults: list[str], found: list[str] | None, *, headline: str) -> None:
    if found is None:
        gather(faults, headline=headline)
    else:
        found += faults


def _take_own(spec: SweepSpec, words: Sequence[Word], faults: list[str]) -> tuple[SweepSpec, list[Word]]:
    """Words that are about the sweep itself (name, root, baseline, seed), and the others."""
    rest = []
    for word in words:
        if word.key == "seed":
            seeds = noted(faults, partial(_seeds_of, word))
            spec = replace(spec, seeds=seeds or spec.seeds)
        elif word.key in ("name", "root", "baseline"):
            if word.key == "root" and not word.value:
                faults.append("root= needs a folder, for instance root=runs")
            spec = replace(spec, **{word.key: word.value})
        else:
            rest.append(word)
    if spec.name:
        faults += check_folder_name(spec.name)
    return spec, rest


def _seeds_of(word: Word) -> tuple[int, ...]:
    try:
        return read_seeds([int(value) for value in word.values])
    except ValueError as err:
        if isinstance(err, ConfigError):
            raise
        msg = f"{word.text}: seed blocks are integers >= 0, for instance seed=0,1,2 or 'seed=range(5)'"
        raise ConfigError(msg) from err


def find_spec(name: str) -> Path:
    """Path of a shipped spec, or of the user's file."""
    return Path(name) if name.endswith((".yaml", ".yml")) or "/" in name else SPECS / f"{name}.yaml"


__all__ = [
    "KEYS",
    "SweepSpec",
    "find_spec",
    "from_words",
    "load_spec",
    "read_spec",
    "with_tier",
    "with_words",
]
