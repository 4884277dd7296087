"""Benchmarks in their own formats, hand-made: what becomes of their tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gagar_core.errors import InputError
from gagar_core.sandbox import ProcessSandbox
from gagar_core.tasks.assertions import split_program
from gagar_core.tasks.completion import completed
from gagar_core.tasks.format import TaskRecord
from gagar_core.tasks.importers import import_tasks, spaced
from gagar_core.tasks.trial import references_fail
from gagar_core.types import Case

PROMPT = 'def peak(numbers):\n    """ Largest value so far. """\n'
SOLUTION = "    out = []\n    for n in numbers:\n        out.append(n if not out else max(n, out[-1]))\n    return out\n"
HUMANEVAL = {
    "task_id": "HumanEval/900", "prompt": PROMPT, "entry_point": "peak", "canonical_solution": SOLUTION,
    "test": (
        "\n\nMETADATA = {'author': 'nobody'}\n\n\ndef check(candidate):\n"
        "    assert candidate([]) == []\n    assert candidate([1, 3, 2]) == [1, 3, 3]\n"
        "    assert [5] == candidate([5]), 'one'\n    assert candidate([-1, -2]) == [-1, -1]\n"
        "    assert candidate([2, 2]) == [2, 2]\n    assert candidate(list(range(3))) == [0, 1, 2]\n    assert True, 'end'\n"
    ),
}  # fmt: skip
HUMANEVAL_PLUS = {
    "task_id": "HumanEval/901", "prompt": PROMPT, "entry_point": "peak", "canonical_solution": SOLUTION,
    "contract": "", "atol": 0, "base_input": [[[1]], [[2, 1]], [[3]], [[]]],
    "plus_input": [[[i, -i]] for i in range(5)],
}  # fmt: skip
HUMANEVAL_TABLE = {
    **HUMANEVAL, "task_id": "HumanEval/902",
    "test": (
        "import math\n\ndef check(candidate):\n    inputs = [[[1, 0]], [[2]], [[]]]\n    results = [[1, 1], [2], []]\n"
        "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assert candidate(*inp) == exp\n"
    ),
}  # fmt: skip
MBPP = {
    "task_id": 700, "text": "Write a function to add two numbers.", "test_setup_code": "",
    "code": "def helper(a):\r\n    return a\r\ndef add(a, b):\r\n    return helper(a) + b\r\n",
    "test_list": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0", "assert add(1.5, 2) == 3.5"],
    "challenge_test_list": ["assert isinstance(add(1, 2), int)"],
}  # fmt: skip
MBPP_SANITIZED = {
    "task_id": 701, "prompt": "Write a function to find a root.", "source_file": "x", "test_imports": ["import math"],
    "code": "import math\ndef root(x):\n    return math.sqrt(x)\n",
    "test_list": ["assert root(4) == 2.0", "assert math.isclose(root(2), 1.41421356, rel_tol=0.001)"],
}  # fmt: skip
PATCH = "diff --git a/lib/core.py b/lib/core.py\n--- a/lib/core.py\n+++ b/lib/core.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
SWE = {
    "instance_id": "org__lib-12", "repo": "org/lib", "base_commit": "abc", "problem_statement": "x is wrong", "patch": PATCH,
    "test_patch": PATCH.replace("lib/core", "tests/test_core"), "hints_text": "set x to 2", "created_at": "2020", "version": "1",
    "FAIL_TO_PASS": '["tests/test_core.py::test_x"]', "PASS_TO_PASS": ["tests/test_core.py::test_y"],
}  # fmt: skip


def imported(tmp_path: Path, benchmark: str, *entries: dict[str, Any]) -> list[TaskRecord]:
    path = tmp_path / "entries.jsonl"
    path.write_text("\n".join(map(json.dumps, entries)))
    return import_tasks(path, benchmark)


def test_humaneval_assertions_become_data(tmp_path: Path) -> None:
    (record,) = imported(tmp_path, "humaneval", HUMANEVAL)
    task = record.task
    # 5 cases and one assertion that is no data: a third public, two thirds reward, the rest held back
    assert task.public == (Case(([],), []), Case(([1, 3, 2],), [1, 3, 3]))
    assert task.reward == (*task.public, Case(([5],), [5]), Case(([-1, -2],), [-1, -1]))
    assert task.audit == (Case(([2, 2],), [2, 2]),)
    assert task.test_programs == {"label": ("assert candidate(list(range(3))) == [0, 1, 2]",)}
    assert record.reference == PROMPT + SOLUTION
    assert task.statement == PROMPT


def test_references_of_every_form_pass_their_tests(tmp_path: Path, sandbox: ProcessSandbox) -> None:
    entries = (HUMANEVAL, HUMANEVAL_PLUS, HUMANEVAL_TABLE)
    records = imported(tmp_path, "humaneval", *entries) + imported(tmp_path, "mbpp", MBPP, MBPP_SANITIZED)
    done, broken = completed(records, sandbox)
    assert broken == []
    assert all(record.complete for record in done)
    assert references_fail(done, sandbox) == [[]] * 5


def test_plus_inputs_are_held_back(tmp_path: Path, sandbox: ProcessSandbox) -> None:
    (record,), _ = completed(imported(tmp_path, "humaneval", HUMANEVAL_PLUS), sandbox)
    task = record.task
    assert task.reward == (Case(([1],), [1]), Case(([2, 1],), [2, 2]), Case(([3],), [3]), Case(([],), []))
    assert task.public == task.reward[:1]
    assert task.audit == (Case(([0, 0],), [0, 0]), Case(([2, -2],), [2, 2]), Case(([4, -4],), [4, 4]))
    assert task.label == (Case(([1, -1],), [1, 1]), Case(([3, -3],), [3, 3]))


def test_a_table_of_inputs_and_results(tmp_path: Path) -> None:
    (record,) = imported(tmp_path, "humaneval", HUMANEVAL_TABLE)
    assert record.task.reward == (Case(([1, 0],), [1, 1]), Case(([2],), [2]))
    assert record.task.audit == (Case(([],), []),)


def test_mbpp(tmp_path: Path) -> None:
    plain, sanitized = imported(tmp_path, "mbpp", MBPP, MBPP_SANITIZED)
    task = plain.task
    assert (task.id, task.entry_point) == ("Mbpp/700", "add")
    assert task.public == (Case((1, 2), 3),)
    assert task.reward == (Case((1, 2), 3), Case((-1, 1), 0), Case((1.5, 2), 3.5, 1e-6))
    assert task.test_programs == {"audit": ("assert isinstance(add(1, 2), int)",)}
    assert task.statement.endswith("The function is called add. It must satisfy:\nassert add(1, 2) == 3")
    assert sanitized.task.test_programs["audit"] == (
        "import math\nassert math.isclose(root(2), 1.41421356, rel_tol=0.001)",
    )


def test_swe_bench(tmp_path: Path) -> None:
    (record,) = imported(tmp_path, "swe_bench", SWE)
    assert (record.task.id, record.task.kind) == ("org__lib-12", "repository")
    assert record.reference == PATCH
    assert record.origin["fail_to_pass"] == ["tests/test_core.py::test_x"]
    assert record.origin["pass_to_pass"] == ["tests/test_core.py::test_y"]
    assert "set x to 2" not in str(record)


def test_a_list_and_a_gzipped_file(tmp_path: Path) -> None:
    (tmp_path / "swe.json").write_text(json.dumps([SWE, {**SWE, "instance_id": "b"}]))
    assert [r.task.id for r in import_tasks(tmp_path / "swe.json", "swe_bench")] == ["org__lib-12", "b"]
    (tmp_path / "he.jsonl.gz").write_bytes(gzip.compress(json.dumps(HUMANEVAL).encode()))
    assert import_tasks(tmp_path / "he.jsonl.gz", "humaneval")[0].task.id == "HumanEval/900"


def test_faults_name_the_entries(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        imported(
            tmp_path,
            "mbpp",
            MBPP,
            SWE,
            {**MBPP, "test_list": ["assert other(1) == 2"], "challenge_test_list": []},
        )
    message = str(caught.value)
    assert "entry 2: field 'task_id' is missing; is this a mbpp file?" in message
    assert "entry 3: its tests call none of the functions that its code defines (helper, add)" in message
    (tmp_path / "bad").write_text("[]")
    with pytest.raises(InputError, match="holds no JSON objects"):
        import_tasks(tmp_path / "bad", "mbpp")


@pytest.mark.parametrize(
    "source",
    [
        "for i in range(3):\n    assert f(i) == i",
        "def check(g):\n    assert g(1) == 1",  # the name is not one of those that the judge binds
        "x = f(3)\nassert x == 3",
    ],
)
def test_what_is_more_than_assertions_stays_one_program(source: str) -> None:
    assert split_program(source, ("f", "candidate")) == ([], [source])


@pytest.mark.parametrize(
    ("assertion", "case"),
    [
        ("assert f(1) is True", Case((1,), True)),
        ("assert f(x=1) == 2", None),
        ("assert f(1) != 2", None),
        ("assert f(1) is 2", None),
        ("assert f(1) == f(2)", None),
        ("assert f(1)", None),
        ("assert f((1, 2), {'a': 0.5}) == {1, 2}", Case(((1, 2), {"a": 0.5}), {1, 2})),
        ("assert f(1) == (0.5, 1)", Case((1,), (0.5, 1), 1e-6)),
        ("assert f(1) == b'x'", None),
        ("assert f(1) == 1 == 1", None),
    ],
)  # fmt: skip
def test_which_assertions_are_data(assertion: str, case: Case | None) -> None:
    cases, programs = split_program(assertion, ("f",))
    assert cases == ([case] if case else [])
    assert len(cases) + len(programs) == 1


def test_spaced() -> None:
    assert spaced(range(10), 4) == [0, 2, 5, 7]
    assert spaced([1, 2], 4) == [1, 2]


def test_tests_find_the_helpers_that_the_prompt_gives(tmp_path: Path, sandbox: ProcessSandbox) -> None:
    helped = {
        **HUMANEVAL, "task_id": "HumanEval/903", "entry_point": "undo",
        "prompt": "import math\n\ndef shift(n):\n    return n + 3\n\ndef undo(n):\n    ''' undo shift '''\n",
        "canonical_solution": "    return n - 3\n",
        "test": "def check(candidate):\n    for n in range(5):\n        assert candidate(shift(n)) == n\n",
    }  # fmt: skip
    (record,) = imported(tmp_path, "humaneval", helped)
    assert record.task.test_programs["reward"][0].startswith("import math\ndef shift(n):\n    return n + 3\n")
    assert references_fail([record], sandbox) == [[]]


def test_separators_that_json_may_hold_end_no_line(tmp_path: Path) -> None:
    """U+2028 and U+0085 stand in JSON texts as they are; a byte order mark stands before them."""
    said = "Add\u2028two\u0085numbers \x7f é 漢."
    path = tmp_path / "entries.jsonl"
    lines = [json.dumps({**MBPP, "task_id": i, "text": said}, ensure_ascii=False) for i in (1, 2)]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert [record.task.id for record in import_tasks(path, "mbpp")] == ["Mbpp/1", "Mbpp/2"]
    assert import_tasks(path, "mbpp")[0].task.statement.startswith(said)


def test_a_cut_off_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "entries.jsonl"
    path.write_text(json.dumps(MBPP) + "\n" + json.dumps(MBPP)[:90])
    with pytest.raises(InputError, match="cannot be read: line 2: not JSON"):
        import_tasks(path, "mbpp")


@pytest.mark.parametrize("content", [b"[" * 100_000, gzip.compress(b"x" * 500)[:40], b"\x1f\x8bxxxxxxxx"])
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "entries"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        import_tasks(path, "mbpp")


def test_a_damaged_gzip_stream_is_refused(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(json.dumps(HUMANEVAL).encode()))
    content[30] ^= 0xFF
    path = tmp_path / "entries.gz"
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="cannot be read"):
        import_tasks(path, "humaneval")


@pytest.mark.parametrize(
    ("benchmark", "entry", "name", "valid"),
    [
        ("humaneval", HUMANEVAL, "entry_point", "text"),
        ("humaneval", HUMANEVAL, "prompt", "text"),
        ("humaneval", HUMANEVAL_PLUS, "base_input", "a list of lists"),
        ("humaneval", HUMANEVAL, "task_id", "text or a number"),
        ("mbpp", MBPP, "code", "text"),
        ("mbpp", MBPP, "test_list", "a list of texts"),
        ("swe_bench", SWE, "instance_id", "text"),
        ("swe_bench", SWE, "problem_statement", "text"),
        ("swe_bench", SWE, "patch", "text"),
    ],
)
def test_fields_of_another_type_are_named(
    benchmark: str, entry: dict[str, Any], name: str, valid: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"entry 1: field '{name}' must be {valid}; got \[1\]"):
        imported(tmp_path, benchmark, {**entry, name: [1]})


@pytest.mark.parametrize("names", ['"t"', "3", "[1]", None])
def test_names_of_tests_are_a_list_of_texts(names: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="entry 1: FAIL_TO_PASS and PASS_TO_PASS must be lists of texts"):
        imported(tmp_path, "swe_bench", {**SWE, "FAIL_TO_PASS": names})


@pytest.mark.parametrize("inputs", ["[[1, 2j]]", "[1]", "[[" + "[" * 70 + "]" * 70 + "]]"])
def test_a_table_that_no_candidate_can_be_sent_stays_a_program(inputs: str) -> None:
    source = f"def check(candidate):\n    inputs = {inputs}\n    results = [1]\n    assert candidate(*inputs[0]) == results[0]\n"
    assert split_program(source, ("candidate",)) == ([], [source])


@pytest.mark.parametrize("value", ["3" + " + 0" * 2000, "-" * 50_000 + "3"])
def test_code_nested_too_deeply_is_refused(value: str, tmp_path: Path) -> None:
    deep = {**HUMANEVAL, "test": f"def check(candidate):\n    assert candidate([1]) == {value}\n"}
    with pytest.raises(InputError, match="entry 1: its code is nested too deeply"):
        imported(tmp_path, "humaneval", deep)
