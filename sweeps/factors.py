"""The language of ``factors``: which variants a sweep compares.

    grid:           {key: [values]}; the product of all keys, the last one changing fastest
    zip:            {key: [values]}; lists of one length, walked together
    random:         {count, seed, space: {key: [values] | {low, high, log}}}; the same points for ever
    when:           [{if: words, grid|zip|random: ...}]; further factors for the variants that hold the words
    exclude:        [words]; variants that hold all words of an entry are dropped
    one_at_a_time:  {key: [base level, others ...]}; the base, and every other level alone
    list:           [words]; further variants; seed=K among the words gives that seed block alone

``grid``, ``zip`` and ``random`` are crossed with one another, then come ``when`` and ``exclude``; the
variants of ``one_at_a_time`` and ``list`` follow them.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from gagar_core.errors import ConfigError, gather, noted
from gagar_core.seeds import derive
from sweeps.words import merge, parse, to_word

Words = tuple[str, ...]
"""One variant: its words beside those of ``base``."""

RESERVED = ("root", "name", "seed", "launcher", "workers", "hydra", "tracking")
"""Keys that no factor may hold: they say where, not what."""

MAX_VARIANTS = 100_000
"""A product above this is a slip of the keyboard, and would fill the memory before anybody could say so."""


def read_factors(value: Any) -> tuple[Words, ...]:
    """All variants, in the order in which they are planned; raises one ``ConfigError`` with every fault."""
    if not isinstance(value, dict) or not value:
        msg = f"factors must be a mapping with some of {', '.join(FACTORS)}; got {value!r}"
        raise ConfigError(msg)
    faults = [f"factors: unknown {key!r}; valid: {', '.join(FACTORS)}" for key in value if key not in FACTORS]
    read: dict[str, Any] = {}
    for key, reader in FACTORS.items():
        if key in value:
            read[key] = noted(faults, partial(reader, value[key]))
    gather(faults, headline="factors")
    products = _cross_all("factors", {key: read[key] for key in CROSSED if key in read})
    products = _apply_when(products, read.get("when", []))
    products = _apply_exclude(products, read.get("exclude", []))
    variants = [*products, *read.get("one_at_a_time", []), *read.get("list", [])]
    if not variants:
        msg = "factors leave no variant: give a grid, zip, random, one_at_a_time or list"
        raise ConfigError(msg)
    _check_reserved(variants, read.get("list", []))
    return tuple(variants)


def base_levels(value: Any) -> str:
    """Words of the base of ``one_at_a_time``, which changes are compared with; "" if there is none."""
    levels = value.get("one_at_a_time") if isinstance(value, dict) else None
    return " ".join(one_at_a_time(_levels("one_at_a_time", levels))[0]) if levels else ""


def _cross_all(where: str, parts: Mapping[str, Sequence[Words]]) -> list[Words]:
    owners: dict[str, str] = {}
    faults = []
    for part, variants in parts.items():
        for key in dict.fromkeys(key_of(word) for words in variants for word in words):
            if key in owners:
                faults.append(f"{where}: {key} is in {owners[key]} and in {part}")
            owners[key] = part
    number = math.prod(len(variants) for variants in parts.values())
    if number > MAX_VARIANTS:
        faults.append(f"{where}: {number} variants are more than {MAX_VARIANTS}")
    gather(faults, headline="factors")
    if not parts:
        return []
    return [tuple(itertools.chain(*combination)) for combination in itertools.product(*parts.values())]


def _apply_when(products: list[Words], rules: Iterable[tuple[Words, list[Words]]]) -> list[Words]:
    for condition, further in rules:
        said = " ".join(condition)
        if not any(holds(words, condition) for words in products):
            msg = f"factors.when: no variant holds {said}"
            raise ConfigError(msg)
        extended = []
        for words in products:
            if not holds(words, condition):
                extended.append(words)
                continue
            extended += _cross_all(f"factors.when {said}", {"the variant": [words], "when": further})
        products = extended
    return products


def _apply_exclude(products: list[Words], excluded: Iterable[Words]) -> list[Words]:
    for condition in excluded:
        left = [words for words in products if not holds(words, condition)]
        if len(left) == len(products):
            msg = f"factors.exclude: no variant holds {' '.join(condition)}"
            raise ConfigError(msg)
        products = left
    return products


def holds(words: Words, condition: Words) -> bool:
    """Whether a variant has every word of a condition, however numbers are spelled."""
    return _normal(condition) <= _normal(words)


def _normal(words: Words) -> set[tuple[str, str]]:
    return {(word.key, repr(word.value)) for word in parse(words)}


def _check_reserved(variants: Iterable[Words], listed: Iterable[Words]) -> None:
    entries = {words for words in listed if words}
    taken = {
        key_of(word)
        for words in variants
        for word in words
        if not (words in entries and key_of(word) == "seed")
    }
    reserved = sorted(key for key in taken if key.split(".", 1)[0] in RESERVED)
    if reserved:
        msg = f"factors must not choose {', '.join(reserved)}; seeds have a key, others are given on submit"
        raise ConfigError(msg)


def key_of(word: str) -> str:
    """What stands before the first ``=``."""
    return word.split("=", 1)[0]


def _levels(where: str, value: Any) -> dict[str, list[str]]:
    """Words of each key of a mapping to lists of different values."""
    if not isinstance(value, dict) or not value:
        msg = f"factors.{where} must map keys to lists of values; got {value!r}"
        raise ConfigError(msg)
    faults = []
    for key, levels in value.items():
        if not isinstance(levels, list) or not levels:
            faults.append(f"factors.{where}.{key} must be a non-empty list; got {levels!r}")
    gather(faults, headline="factors")
    words = {str(key): [to_word(str(key), level) for level in levels] for key, levels in value.items()}
    parse(word for some in words.values() for word in some)  # every key and value is one in Hydra's grammar
    return words


def _read_grid(value: Any) -> list[Words]:
    return grid(_levels("grid", value))


def grid(levels: Mapping[str, Sequence[str]]) -> list[Words]:
    """The product of the words of each key, the last key changing fastest."""
    number = math.prod(len(words) for words in levels.values())
    if number > MAX_VARIANTS:
        msg = f"factors.grid: {number} variants are more than {MAX_VARIANTS}"
        raise ConfigError(msg)
    return list(itertools.product(*levels.values()))


def _read_zip(value: Any) -> list[Words]:
    levels = _levels("zip", value)
    lengths = {key: len(words) for key, words in levels.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key} has {number}" for key, number in lengths.items())
        msg = f"factors.zip: lists must have one length; {told}"
        raise ConfigError(msg)
    return list(zip(*levels.values(), strict=True))


def _read_random(value: Any) -> list[Words]:
    keys = ("count", "seed", "space")
    if not isinstance(value, dict) or not isinstance(value.get("space"), dict) or not value["space"]:
        msg = f"factors.random must be a mapping with {', '.join(keys)}; got {value!r}"
        raise ConfigError(msg)
    count, seed = value.get("count"), value.get("seed", 0)
    faults = [
        f"factors.random: unknown key {key!r}; valid: {', '.join(keys)}" for key in value if key not in keys
    ]
    if type(count) is not int or not 1 <= count <= MAX_VARIANTS:
        faults.append(f"factors.random.count must be an integer >= 1; got {count!r}")
    if type(seed) is not int or seed < 0:
        faults.append(f"factors.random.seed must be an integer >= 0; got {seed!r}")
    faults += [fault for key, domain in value["space"].items() for fault in _check_domain(key, domain)]
    gather(faults, headline="factors")
    return draw(int(value["count"]), seed, value["space"])


def _check_domain(key: str, domain: Any) -> list[str]:
    where = f"factors.random.space.{key}"
    if isinstance(domain, list):
        return [] if domain else [f"{where} must be a non-empty list"]
    if not isinstance(domain, dict) or not {"low", "high"} <= set(domain) <= {"low", "high", "log"}:
        return [f"{where} must be a list of values, or low, high and log (true or false); got {domain!r}"]
    low, high, log = domain["low"], domain["high"], domain.get("log", False)
    if any(type(end) not in (int, float) or not math.isfinite(end) for end in (low, high)) or low >= high:
        return [f"{where}: low < high must be finite numbers; got {low!r} and {high!r}"]
    if type(log) is not bool or (log and low <= 0):
        return [f"{where}: log is true or false, and needs low > 0; got log {log!r}, low {low!r}"]
    return []


def draw(count: int, seed: int, space: Mapping[str, Any]) -> list[Words]:
    """``count`` points of a space; a point depends on ``seed``, its number and the key alone.

    So a higher count or one more key keeps all earlier values. Numbers have six significant digits: they
    are the same on every machine, and can be read.
    """
    return [
        tuple(
            to_word(str(key), _point(domain, _uniform(seed, str(key), number)))
            for key, domain in space.items()
        )
        for number in range(count)
    ]


def _uniform(seed: int, key: str, number: int) -> float:
    # a hash and no generator: values must not depend on a library's version
    return (derive(seed, "random factors", key, number) >> 10) / 2.0**53


def _point(domain: Any, uniform: float) -> Any:
    if isinstance(domain, list):
        return domain[int(uniform * len(domain))]
    low, high = domain["low"], domain["high"]
    whole = type(low) is int and type(high) is int
    if domain.get("log", False):
        value = math.exp(math.log(low) + uniform * (math.log(high) - math.log(low)))
    else:
        value = low + uniform * (high + whole - low)
    return min(int(value), high) if whole else min(max(float(f"{value:.6g}"), low), high)


def _read_when(value: Any) -> list[tuple[Words, list[Words]]]:
    if not isinstance(value, list) or not value:
        msg = f"factors.when must list mappings with if and some of {', '.join(CROSSED)}; got {value!r}"
        raise ConfigError(msg)
    return [_read_rule(entry) for entry in value]


def _read_rule(entry: Any) -> tuple[Words, list[Words]]:
    if not isinstance(entry, dict) or "if" not in entry or not set(entry) - {"if"} <= set(CROSSED):
        msg = f"factors.when: an entry has if and some of {', '.join(CROSSED)}; got {entry!r}"
        raise ConfigError(msg)
    parts = {key: FACTORS[key](entry[key]) for key in CROSSED if key in entry}
    if not parts:
        msg = f"factors.when {entry['if']!r}: give one of {', '.join(CROSSED)}"
        raise ConfigError(msg)
    return tuple(read_words("factors.when.if", entry["if"])), _cross_all("factors.when", parts)


def _read_list(value: Any) -> list[Words]:
    return _entries("list", value, seeds=True)


def _read_exclude(value: Any) -> list[Words]:
    return _entries("exclude", value)


def _entries(where: str, value: Any, *, seeds: bool = False) -> list[Words]:
    if not isinstance(value, list) or not value:
        msg = f"factors.{where} must be a non-empty list of override words; got {value!r}"
        raise ConfigError(msg)
    own = ("seed",) if seeds else ()
    return [tuple(read_words(f"factors.{where}", entry, may_sweep=own)) for entry in value]


def _read_one_at_a_time(value: Any) -> list[Words]:
    return one_at_a_time(_levels("one_at_a_time", value))


def one_at_a_time(levels: Mapping[str, Sequence[str]]) -> list[Words]:
    """The base (every key's first level), then for each key its other levels with all else at the base."""
    base = tuple(words[0] for words in levels.values())
    changes = [
        tuple(other if key_of(word) == key else word for word in base)
        for key, words in levels.items()
        for other in words[1:]
    ]
    return [base, *changes]


def read_words(key: str, value: Any, may_sweep: Sequence[str] = ()) -> list[str]:
    """Override words from a text or a list; a word that sweeps is refused unless its key may."""
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as err:
            msg = f"{key}: {value!r} cannot be split into words ({err})"
            raise ConfigError(msg) from err
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        msg = f"{key} must be override words; got {value!r}"
        raise ConfigError(msg)
    swept = [word.text for word in parse(value) if len(word.values) > 1 and word.key not in may_sweep]
    gather([f"{key}: {word} sweeps; use factors.grid" for word in swept], headline="sweep")
    return merge(value)


CROSSED = ("grid", "zip", "random")
"""Kinds of factors that are crossed with one another."""

FACTORS: dict[str, Callable[[Any], Any]] = {
    "grid": _read_grid,
    "zip": _read_zip,
    "random": _read_random,
    "when": _read_when,
    "exclude": _read_exclude,
    "one_at_a_time": _read_one_at_a_time,
    "list": _read_list,
}
"""Reader of each key of ``factors``."""


__all__ = ["FACTORS", "RESERVED", "base_levels", "grid", "key_of", "read_factors", "read_words"]
