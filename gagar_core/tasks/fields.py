"""Whether a JSON object is a task: names, types and sizes of its fields, before anything is built from it."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Callable
from typing import Any

from gagar_core.types import MAIN_FILE, TASK_KINDS, TEST_KINDS

MAX_LINE = 50_000_000
"""Characters of one line of a file."""
MAX_TEXT = 200_000
"""Characters of a statement, a reference or a starter file."""
MAX_PROGRAM = 2_000_000
"""Characters of a test program; some benchmarks write thousands of cases into one."""
MAX_TESTS = 5_000
"""Tests of one kind."""

SPLITS = ("sft", "train", "held_out")
"""sft: demonstrated as well as trained on. train: trained on. held_out: only evaluated."""

_LIMITS = {"fuel": (1_000, 1e12), "cpu_s": (0.05, 3_600), "memory_mb": (64, 1_000_000)}
"""Smallest and largest value of each."""
_GENERATOR = ("source", "seed", *TEST_KINDS)
_TEST = ("args", "expected", "atol", "program")


def faults_of(raw: Any) -> list[str]:
    """One sentence per fault of a task's object, each with the id where there is one."""
    if not isinstance(raw, dict):
        return [f"a task is a JSON object, not {type(raw).__name__}"]
    name = raw.get("id")
    faults = [f"unknown field {key!r}; choose from {', '.join(_CHECKS)}" for key in raw if key not in _CHECKS]
    faults += [f"{key} is missing" for key in ("id", "statement") if key not in raw]
    for key, value in raw.items():
        if key in _CHECKS:
            faults += [f"{key} {fault}" for fault in _CHECKS[key](value)]
    if not faults:
        faults = _consistency(raw)
    return [f"task {name!r}: {fault}" if isinstance(name, str) and name else fault for fault in faults]


def _consistency(raw: dict[str, Any]) -> list[str]:
    kind, tests = raw.get("kind", "code"), raw.get("tests", {})
    given = [test for found in tests.values() if isinstance(found, list) for test in found]
    faults = []
    if kind == "code" and not raw.get("entry_point"):
        faults.append("entry_point is missing: which function do tests call?")
    if kind == "code" and raw.get("files") and MAIN_FILE not in raw["files"]:
        faults.append(f"starter files of a code task must include {MAIN_FILE}")
    needs = "generator" in raw or any("args" in test and "expected" not in test for test in given)
    if kind == "code" and needs and not raw.get("reference"):
        faults.append("tests without an expected value need a reference")
    if kind != "code" and needs and "generator" not in raw:
        faults.append(f"tests of a task of kind {kind} need an expected value: nothing is executed")
    if kind != "code" and ("generator" in raw or any("program" in test for test in given)):
        faults.append(f"a task of kind {kind} has neither a generator nor test programs")
    return faults


def _text(value: Any, longest: int = MAX_TEXT) -> list[str]:
    if not isinstance(value, str):
        return [f"must be text, not {type(value).__name__}"]
    return [f"has {len(value):,} characters; at most {longest:,}"] if len(value) > longest else []


def _name(value: Any) -> list[str]:
    return _text(value) or ([] if value.strip() else ["is empty"])


def _identifier(value: Any) -> list[str]:
    faults = _text(value)
    if faults or not value:
        return faults
    if not value.isidentifier() or keyword.iskeyword(value):
        return [f"{value!r} is no identifier"]
    plain = unicodedata.normalize("NFKC", value)
    return [] if value == plain else [f"{value!r} is not how Python spells a name; write {plain!r}"]


def _one_of(*names: str) -> Callable[[Any], list[str]]:
    return lambda value: [] if value in names else [f"must be one of {', '.join(names)}; got {value!r}"]


def _number(low: float, high: float) -> Callable[[Any], list[str]]:
    def check(value: Any) -> list[str]:
        good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        return [] if good else [f"must be a number in [{low:g}, {high:g}]; got {value!r}"]

    return check


def _words(value: Any) -> list[str]:
    good = isinstance(value, list) and all(isinstance(word, str) for word in value)
    return [] if good else ["must be a list of texts"]


def _files(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return ["must be an object: name -> text"]
    bad = [name for name in value if not name or name.startswith("/") or ".." in name.split("/")]
    faults = [f"{name!r} must be a relative path inside the workspace" for name in bad]
    return faults + [f"{name!r} {fault}" for name, text in value.items() for fault in _text(text)]


def _tests(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return ["must be an object: kind of test -> list of tests"]
    faults = [
        f"has unknown kind {kind!r}; choose from {TEST_KINDS}" for kind in value if kind not in TEST_KINDS
    ]
    for kind in TEST_KINDS:
        found = value.get(kind, [])
        if kind == "reward" and found == "public":
            continue
        if not isinstance(found, list):
            faults.append(f"{kind} must be a list of tests")
        elif len(found) > MAX_TESTS:
            faults.append(f"{kind} has {len(found):,} tests; at most {MAX_TESTS:,}")
        else:
            faults += [f"{kind}[{i}] {fault}" for i, test in enumerate(found) for fault in _test(test)]
    return faults


def _test(test: Any) -> list[str]:
    if not isinstance(test, dict):
        return ["must be an object with args, or with program"]
    faults = [
        f"has unknown field {key!r}; choose from {', '.join(_TEST)}" for key in test if key not in _TEST
    ]
    if ("program" in test) == ("args" in test):
        return [*faults, "must have args, or program, and not both"]
    if "program" in test:
        faults += [f"has {key}, which a program does not need" for key in ("expected", "atol") if key in test]
        return faults + _text(test["program"], MAX_PROGRAM)
    if not isinstance(test["args"], list):
        faults.append("args must be a list, one entry per argument")
    return faults + [f"atol {fault}" for fault in _number(0, 1e9)(test.get("atol", 0))]


def _generator(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return ["must be an object with source and numbers of tests"]
    faults = [f"has unknown field {key!r}" for key in value if key not in _GENERATOR]
    faults += [f"source {fault}" for fault in _name(value.get("source", ""))]
    counts = [value.get(kind, 0) for kind in TEST_KINDS]
    if not all(isinstance(c, int) and 0 <= c <= MAX_TESTS for c in counts) or not any(counts):
        faults.append(f"must say how many tests of some kind, each at most {MAX_TESTS:,}")
    return faults + ([] if isinstance(value.get("seed", 0), int) else ["seed must be an integer"])


def _limits(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return ["must be an object"]
    faults = [
        f"has unknown name {key!r}; choose from {', '.join(_LIMITS)}" for key in value if key not in _LIMITS
    ]
    known = {key: v for key, v in value.items() if key in _LIMITS}
    return faults + [f"{key} {fault}" for key, v in known.items() for fault in _number(*_LIMITS[key])(v)]


def _anything(value: Any) -> list[str]:
    return [] if isinstance(value, dict) else ["must be an object"]


_CHECKS: dict[str, Callable[[Any], list[str]]] = {
    "id": _name,
    "kind": _one_of(*TASK_KINDS),
    "statement": _name,
    "entry_point": _identifier,
    "spec": _words,
    "files": _files,
    "tests": _tests,
    "generator": _generator,
    "reference": _text,
    "split": _one_of(*SPLITS),
    "difficulty": _number(0, 1),
    "tags": _words,
    "limits": _limits,
    "origin": _anything,
}
