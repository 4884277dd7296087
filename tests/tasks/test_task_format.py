"""Files of tasks: what is written is read back, and every fault is named with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_core.errors import InputError
from gagar_core.sandbox import ProcessSandbox
from gagar_core.tasks.completion import completed
from gagar_core.tasks.format import (
    Generator,
    TaskRecord,
    content_hash,
    plain,
    read_tasks,
    record_of,
    to_json,
    to_lines,
)
from gagar_core.tasks.suite import Suite
from gagar_core.types import Case, Task

DOUBLE = {
    "id": "double", "statement": "Write f(n) that returns n doubled.", "entry_point": "f",
    "tests": {"public": [{"args": [2], "expected": 4}], "reward": "public", "audit": [{"args": [-3], "expected": -6}]},
    "reference": "def f(n):\n    return n * 2\n",
}  # fmt: skip


def write(tmp_path: Path, *objects: Any) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(o if isinstance(o, str) else json.dumps(o) for o in objects) + "\n")
    return path


def faults(tmp_path: Path, *objects: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_tasks(write(tmp_path, *objects))
    return str(caught.value)


def test_a_plain_record(tmp_path: Path) -> None:
    (record,) = read_tasks(write(tmp_path, DOUBLE, ""))
    task = record.task
    assert (task.id, task.kind, task.entry_point, record.line) == ("double", "code", "f", 1)
    assert task.public == task.reward == (Case((2,), 4),)
    assert task.audit == (Case((-3,), -6),)
    assert task.label == ()
    assert record.complete


def test_values_that_json_has_no_word_for(tmp_path: Path) -> None:
    test = {"args": [{"t": [1, [2]]}, {"d": [["a", 1], [2, None]]}], "expected": {"s": [1, 2]}, "atol": 0.5}
    (record,) = read_tasks(write(tmp_path, {**DOUBLE, "tests": {"reward": [test]}}))
    assert record.task.reward == (Case(((1, [2]), {"a": 1, 2: None}), {1, 2}, 0.5),)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
cases = st.lists(
    st.builds(Case, st.lists(values, max_size=2).map(tuple), values, st.sampled_from([0.0, 0.5])), max_size=3
)


@given(
    public=cases,
    audit=cases,
    same=st.booleans(),
    statement=st.text(min_size=1, max_size=20).filter(str.strip),
)
def test_what_is_written_is_read_back(
    public: list[Case], audit: list[Case], same: bool, statement: str
) -> None:
    task = Task(
        id="t", kind="code", statement=statement, spec=("@a", "@b"), entry_point="f", public=tuple(public),
        reward=tuple(public if same else audit), label=(), audit=tuple(audit), difficulty=0.25, tags=("x",),
        files={"f.py": "def f():\n    pass\n"}, test_programs={"label": ("assert f() is None",)}, limits={"fuel": 2000},
    )  # fmt: skip
    record = TaskRecord(
        task, "def f():\n    pass\n", "held_out", Generator("def generate(seed): ...", 3, {"audit": 2}),
        {"label": ((1, [2]),)}, {"from": "here"},
    )  # fmt: skip
    assert record_of(json.loads(json.dumps(to_json(record)))) == record


def test_a_suite_survives_the_format(suite: Suite) -> None:
    lines = to_lines(TaskRecord(task) for task in suite.train).splitlines()
    assert tuple(record_of(json.loads(line)).task for line in lines) == suite.train


def test_the_hash_covers_every_test(suite: Suite) -> None:
    tasks = list(suite.train[:5])
    raw = to_json(TaskRecord(tasks[2]))
    raw["tests"]["audit"][7]["expected"] += 1
    assert content_hash([*tasks[:2], record_of(raw).task, *tasks[3:]]) != content_hash(tasks)
    assert content_hash(tasks) == content_hash(list(tasks))


def test_faults_are_gathered_over_all_lines(tmp_path: Path) -> None:
    message = faults(
        tmp_path,
        DOUBLE,
        "{not json",
        {"id": "x", "statement": ""},
        {**DOUBLE, "kind": "poem", "difficulty": 2, "colour": "red"},
        {**DOUBLE, "tests": {"public": [{"expected": 3}], "secret": []}},
        {**DOUBLE, "tests": {"reward": [{"args": [1]}]}, "reference": ""},
        {**DOUBLE, "entry_point": ""},
        {**DOUBLE, "tests": {"reward": [{"args": [{"zz": [1]}], "expected": 1}]}},
        {**DOUBLE, "files": {"../up.py": "", "f.py": ""}, "limits": {"lives": 9}},
        [1],
    )
    for said in (
        "line 2: not JSON",
        "line 3: task 'x': statement is empty",
        "line 4: task 'double': unknown field 'colour'",
        "line 4: task 'double': kind must be one of code, answer, repository; got 'poem'",
        "line 4: task 'double': difficulty must be a number in [0, 1]; got 2",
        "line 5: task 'double': tests has unknown kind 'secret'",
        "line 5: task 'double': tests public[0] must have args, or program, and not both",
        "line 6: task 'double': tests without an expected value need a reference",
        "line 7: task 'double': entry_point is missing",
        "line 8: task 'double': a value cannot be read: unknown tag 'zz'",
        "line 9: task 'double': files '../up.py' must be a relative path",
        "line 9: task 'double': limits has unknown name 'lives'",
        "line 10: a task is a JSON object, not list",
    ):
        assert said in message, said
    assert "line 1:" not in message


def test_sizes_are_bounded(tmp_path: Path) -> None:
    huge = {**DOUBLE, "statement": "x" * 200_001}
    many = {**DOUBLE, "tests": {"reward": [{"args": [1], "expected": 2}] * 5_001}}
    message = faults(tmp_path, huge, many)
    assert "statement has 200,001 characters; at most 200,000" in message
    assert "tests reward has 5,001 tests; at most 5,000" in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no task in it" in faults(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_tasks(tmp_path / "missing.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        read_tasks(tmp_path / "binary")


GENERATED: dict[str, Any] = {
    "id": "sum", "statement": "Write f(xs) that returns the sum.", "entry_point": "f",
    "tests": {"public": [{"args": [[1, 2]]}]},
    "reference": "def f(xs):\n    return sum(xs)\n",
    "generator": {
        "source": "import random\ndef generate(seed):\n    r = random.Random(seed)\n    return [[r.randint(-9, 9) for _ in range(3)]]\n",
        "reward": 3, "audit": 4,
    },
}  # fmt: skip


def test_tests_are_made_by_generator_and_reference(sandbox: ProcessSandbox) -> None:
    (record,), broken = completed([record_of(GENERATED)], sandbox)
    assert broken == []
    assert record.complete
    task = record.task
    assert task.public == (Case(([1, 2],), 3),)
    assert (len(task.reward), len(task.audit), len(task.label)) == (3, 4, 0)
    assert all(case.expected == sum(case.args[0]) for case in (*task.reward, *task.audit))
    assert len({str(case.args) for case in (*task.reward, *task.audit)}) == 7  # separate draws
    again, _ = completed([record_of(GENERATED)], sandbox)
    assert again == [record]
    other, _ = completed(
        [record_of({**GENERATED, "generator": {**GENERATED["generator"], "seed": 1}})], sandbox
    )
    assert other[0].task.audit != task.audit


def test_what_cannot_be_made_is_named(sandbox: ProcessSandbox) -> None:
    bad_reference = record_of({**GENERATED, "reference": "def f(xs):\n    return xs[9]\n"})
    bad_generator = record_of(
        {**GENERATED, "id": "g", "generator": {"source": "def generate(s):\n    return 1\n", "audit": 1}}
    )
    good = record_of(DOUBLE)
    records, broken = completed([bad_reference, good, bad_generator], sandbox)
    assert records[1] == good
    assert not records[0].complete
    assert any(
        text.startswith("task 'sum': its reference on ([1, 2]) gave error: IndexError") for text in broken
    )
    assert any(text.startswith("task 'g': generate(") and text.endswith("gave 1") for text in broken)


def test_faults_that_would_surface_late_are_found_at_once(tmp_path: Path) -> None:
    message = faults(
        tmp_path,
        {**DOUBLE, "tests": {"reward": [{"program": "assert f(1) == 2", "expected": 2, "atol": 1}]}},
        {**DOUBLE, "limits": {"fuel": float("inf"), "memory_mb": 1}},
        {**DOUBLE, "limits": {"cpu_s": 1e300, "memory_mb": 10**9}},
        {**DOUBLE, "entry_point": "class"},
        {**DOUBLE, "entry_point": "\ufb01nd"},
        {"id": "q", "kind": "answer", "statement": "2 + 2?", "reference": "4", "tests": {"reward": [{"args": []}]}},
    )  # fmt: skip
    for said in (
        "line 1: task 'double': tests reward[0] has expected, which a program does not need",
        "line 1: task 'double': tests reward[0] has atol, which a program does not need",
        "line 2: task 'double': limits fuel must be a number in [1000, 1e+12]; got inf",
        "line 2: task 'double': limits memory_mb must be a number in [64, 1e+06]; got 1",
        "line 3: task 'double': limits cpu_s must be a number in [0.05, 3600]; got 1e+300",
        "line 3: task 'double': limits memory_mb must be a number in [64, 1e+06]; got 1000000000",
        "line 4: task 'double': entry_point 'class' is no identifier",
        "line 5: task 'double': entry_point '\ufb01nd' is not how Python spells a name; write 'find'",
        "line 6: task 'q': tests of a task of kind answer need an expected value: nothing is executed",
    ):
        assert said in message, said


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "marked.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(DOUBLE).encode())
    assert [record.task.id for record in read_tasks(path)] == ["double"]


def test_a_set_is_written_the_same_in_every_process() -> None:
    words = {"north", "south", "east", "west", "up", "down"}
    assert plain([words]) == [{"s": ["down", "east", "north", "south", "up", "west"]}]
    assert plain({3: {(2, "a"), (1, "b")}}) == {"d": [[3, {"s": [{"t": [1, "b"]}, {"t": [2, "a"]}]}]]}


def test_tests_that_differ_in_a_type_alone_stay_two_tests() -> None:
    """Python says 1 == 1.0 == True; a test does not."""
    raw = {
        **DOUBLE, "tests": {"public": [{"args": [2], "expected": 4}], "reward": [{"args": [2], "expected": 4.0}]}
    }  # fmt: skip
    written = to_json(record_of(raw))
    assert written["tests"] == raw["tests"]
    same = {**raw, "tests": {"public": raw["tests"]["public"], "reward": "public"}}  # type: ignore[index]
    assert content_hash([record_of(raw).task]) != content_hash([record_of(same).task])
