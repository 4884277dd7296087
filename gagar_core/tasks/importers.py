"""Records of known benchmarks, from files that the user has: HumanEval(+), MBPP(+), SWE-bench.

Their tests become the four kinds of this workbench. Where a benchmark has one list of tests, its first third
is public, its first two thirds are the reward, and the rest is held back, in turns for audit and label tests.
Where it has base and plus inputs, base inputs are the reward (the first third of them public) and plus inputs
are held back; their expected values come from the benchmark's own solution.
"""

from __future__ import annotations

import ast
import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gagar_core.errors import InputError, gather
from gagar_core.syntax import parse
from gagar_core.tasks.assertions import split_program
from gagar_core.tasks.format import TaskRecord
from gagar_core.types import Case, Task

_Test = Case | str
FUEL = 1_000_000
"""Loop steps per test: some of the benchmarks' own solutions need several hundred thousand."""
MAX_HELD_BACK = 200
"""Tests held back per task; of more, evenly spaced ones are taken."""


def import_tasks(path: Path, benchmark: str) -> list[TaskRecord]:
    """Records of a file of JSON lines or of one JSON list, gzipped or not.

    Raises ``InputError`` naming every entry that lacks what the benchmark's format promises.
    """
    records, faults = [], []
    for number, raw in enumerate(_entries(path), start=1):
        try:
            _check_types(raw)
            records.append(IMPORTERS[benchmark](raw))
        except KeyError as err:
            faults.append(f"entry {number}: field {err} is missing; is this a {benchmark} file?")
        except (RecursionError, MemoryError):
            faults.append(f"entry {number}: its code is nested too deeply")
        except (InputError, SyntaxError, TypeError, ValueError) as err:
            faults.append(f"entry {number}: {err}")
    gather(faults, headline=f"{path} cannot be read as {benchmark}", error=InputError)
    return records


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8-sig")
        entries = json.loads(text) if text.lstrip().startswith("[") else _lines(text)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as err:
        msg = f"{path} cannot be read: {err}"
        raise InputError(msg) from err
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        msg = f"{path} holds no JSON objects"
        raise InputError(msg)
    return list(entries)


def _lines(text: str) -> list[Any]:
    """The values of JSON lines. Only line feeds end a line: JSON may hold other separators as they are."""
    entries = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            if line.strip():
                entries.append(json.loads(line))
        except ValueError as err:
            msg = f"line {number}: not JSON ({err})"
            raise InputError(msg) from err
    return entries


_TEXTS = (
    "prompt", "canonical_solution", "entry_point", "test", "text", "code", "test_setup_code",
    "instance_id", "repo", "problem_statement", "patch", "test_patch", "base_commit",
)  # fmt: skip
_OPTIONAL = ("test", "text", "test_setup_code", "test_patch", "base_commit")
_LISTS: dict[str, tuple[type, str]] = {
    "test_list": (str, "texts"), "challenge_test_list": (str, "texts"), "test_imports": (str, "texts"),
    "base_input": (list, "lists"), "plus_input": (list, "lists"),
}  # fmt: skip


def _check_types(raw: dict[str, Any]) -> None:
    """Raise ``InputError`` for fields of the benchmarks that are not of the type that they promise."""
    faults = [
        f"field {name!r} must be text; got {raw[name]!r:.60}"
        for name in _TEXTS
        if name in raw and not (isinstance(raw[name], str) or (raw[name] is None and name in _OPTIONAL))
    ]
    for name, (kind, plural) in _LISTS.items():
        value = raw.get(name)
        if value is None and name != "test_list":
            continue
        if name in raw and not (isinstance(value, list) and all(isinstance(item, kind) for item in value)):
            faults.append(f"field {name!r} must be a list of {plural}; got {value!r:.60}")
    if not isinstance(raw.get("task_id", ""), str | int):
        faults.append(f"field 'task_id' must be text or a number; got {raw['task_id']!r:.60}")
    if faults:
        raise InputError("; ".join(faults))


def humaneval(raw: dict[str, Any]) -> TaskRecord:
    """A record of HumanEval, or of HumanEval+ in either of its forms (plus inputs, or a table of tests)."""
    name = raw["entry_point"]
    plus = _plus_inputs(raw)
    source = raw.get("test") or ""
    tests = {} if plus else _shared_out(_tests_of(_helpers(raw["prompt"], name, source) + source, name))
    return _code_record(
        str(raw["task_id"]), raw["prompt"], name, raw["prompt"] + raw["canonical_solution"], tests, plus
    )


def mbpp(raw: dict[str, Any]) -> TaskRecord:
    """A record of MBPP, its sanitized form, or MBPP+ in either of its forms."""
    plus = _plus_inputs(raw)
    task_id = str(raw["task_id"])
    task_id = task_id if "/" in task_id else f"Mbpp/{task_id}"
    if plus:
        reference = raw["prompt"] + raw["canonical_solution"]
        return _code_record(task_id, raw["prompt"], raw["entry_point"], reference, {}, plus)
    head = "\n".join([raw.get("test_setup_code") or "", *(raw.get("test_imports") or [])]).strip()
    lines = [*raw["test_list"], *(raw.get("challenge_test_list") or [])]
    reference = raw["code"].replace("\r\n", "\n")
    name = _called_function(reference, lines)
    source = raw.get("test") or "\n".join([head, *lines])
    tests = _shared_out(_tests_of(source, name))
    shown = "\n".join(raw["test_list"][: len(tests["public"])])
    statement = (
        f"{raw.get('text') or raw['prompt']}\nThe function is called {name}. It must satisfy:\n{shown}"
    )
    return _code_record(task_id, statement, name, reference, tests, {})


def swe_bench(raw: dict[str, Any]) -> TaskRecord:
    """A record of SWE-bench and its relatives. Hints are left out: they may hold the solution."""
    names = ("repo", "base_commit", "test_patch", "version", "environment_setup_commit", "created_at")
    origin = {name: raw[name] for name in names if raw.get(name)}
    origin["fail_to_pass"] = _test_names(raw["FAIL_TO_PASS"])
    origin["pass_to_pass"] = _test_names(raw["PASS_TO_PASS"])
    task = Task(
        id=raw["instance_id"], kind="repository", statement=raw["problem_statement"], spec=(), entry_point="",
        public=(), reward=(), label=(), audit=(), tags=(raw["repo"],),
    )  # fmt: skip
    return TaskRecord(task, reference=raw["patch"], origin=origin)


IMPORTERS: dict[str, Callable[[dict[str, Any]], TaskRecord]] = {
    "humaneval": humaneval,
    "mbpp": mbpp,
    "swe_bench": swe_bench,
}
"""Benchmark -> how one of its entries becomes a record."""


def _test_names(value: Any) -> list[str]:
    names = json.loads(value) if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        msg = f"FAIL_TO_PASS and PASS_TO_PASS must be lists of texts; got {value!r:.60}"
        raise InputError(msg)
    return names


def _tests_of(source: str, name: str) -> list[_Test]:
    cases, programs = split_program(source, ("candidate", name))
    return [*cases, *programs]


def _helpers(prompt: str, name: str, test: str) -> str:
    """What a test uses of the functions that the prompt gives beside the one to write; "" if nothing."""
    body = parse(prompt).body
    others = [s for s in body if isinstance(s, ast.FunctionDef) and s.name != name and s.name in test]
    if not others:
        return ""
    imports = [s for s in body if isinstance(s, ast.Import | ast.ImportFrom)]
    return "".join(ast.unparse(s) + "\n" for s in (*imports, *others))


def _shared_out(tests: list[_Test]) -> dict[str, list[_Test]]:
    public, reward = max(1, len(tests) // 3), max(1, round(len(tests) * 2 / 3))
    held_back = spaced(tests[reward:], MAX_HELD_BACK)
    return {
        "public": tests[:public],
        "reward": tests[:reward],
        "audit": held_back[0::2],
        "label": held_back[1::2],
    }


def spaced(items: Sequence[Any], most: int) -> list[Any]:
    """At most ``most`` of the items, evenly spaced, the first among them."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]


def _plus_inputs(raw: dict[str, Any]) -> dict[str, tuple[tuple[Any, ...], ...]]:
    """Arguments by kind of test where the record has base and plus inputs; {} where it has not."""
    if not raw.get("base_input"):
        return {}
    base, plus = (list(map(tuple, raw.get(name) or [])) for name in ("base_input", "plus_input"))
    held_back = spaced(plus, MAX_HELD_BACK)
    found = {
        "public": base[: max(1, len(base) // 3)],
        "reward": base,
        "audit": held_back[0::2],
        "label": held_back[1::2],
    }
    return {kind: tuple(inputs) for kind, inputs in found.items() if inputs}


def _code_record(
    task_id: str,
    statement: str,
    name: str,
    reference: str,
    tests: dict[str, list[_Test]],
    inputs: dict[str, tuple[tuple[Any, ...], ...]],
) -> TaskRecord:
    cases: dict[str, Any] = {
        kind: tuple(t for t in tests.get(kind, []) if isinstance(t, Case))
        for kind in ("public", "reward", "label", "audit")
    }
    programs = {kind: tuple(t for t in found if isinstance(t, str)) for kind, found in tests.items()}
    task = Task(
        id=task_id, kind="code", statement=statement, spec=(), entry_point=name, **cases,
        test_programs={kind: found for kind, found in programs.items() if found}, limits={"fuel": FUEL},
    )  # fmt: skip
    return TaskRecord(task, reference=reference, inputs=inputs)


def _called_function(reference: str, tests: Sequence[str]) -> str:
    """The function of the reference that the tests call."""
    defined = [s.name for s in parse(reference).body if isinstance(s, ast.FunctionDef)]
    called = {
        node.func.id
        for text in tests
        for node in ast.walk(parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    found = [name for name in defined if name in called]
    if not found:
        msg = f"its tests call none of the functions that its code defines ({', '.join(defined) or 'none'})"
        raise InputError(msg)
    return found[-1]
