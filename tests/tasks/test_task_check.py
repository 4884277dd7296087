"""``check`` finds what is wrong with a file of tasks, and nothing where nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gagar_core.errors import InputError
from gagar_core.sandbox import ProcessSandbox
from gagar_core.tasks.__main__ import main
from gagar_core.tasks.execution import answer, run_tests
from gagar_core.tasks.format import read_tasks, record_of
from gagar_core.tasks.mutants import mutants, stubs
from gagar_core.types import Case, Task

CLAMP = {
    "id": "clamp", "statement": "Write f(n): n, at least 0 and at most 5.", "entry_point": "f", "split": "train",
    "tests": {
        "public": [{"args": [3], "expected": 3}, {"args": [9], "expected": 5}],
        "reward": [{"args": [n], "expected": v} for n, v in ((3, 3), (9, 5), (-1, 0))],
        "label": [{"args": [8], "expected": 5}],
        "audit": [{"args": [n], "expected": v} for n, v in ((5, 5), (6, 5), (0, 0), (-7, 0), (1, 1), (4, 4))],
    },
    "reference": "def f(n):\n    if n < 0:\n        return 0\n    return n if n < 5 else 5\n",
}  # fmt: skip
HELD = {**CLAMP, "id": "held", "split": "held_out", "statement": "Write f(n): the sign.", "reference": "def f(n):\n    return (n > 0) - (n < 0)\n",
        "tests": {"public": [{"args": [1], "expected": 1}], "reward": [{"args": [n], "expected": v} for n, v in ((1, 1), (0, 0), (-2, -1))],
                  "label": [{"args": [8], "expected": 1}], "audit": [{"args": [n], "expected": v} for n, v in ((5, 1), (-9, -1), (2, 1), (-1, -1))]}}  # fmt: skip


def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], *objects: dict[str, Any]) -> tuple[int, str]:
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, objects)))
    code = main(["check", str(path)])
    return code, capsys.readouterr().out


def made(**kinds: list[tuple[int, Any]]) -> dict[str, Any]:
    return {kind: [{"args": [n], "expected": v} for n, v in found] for kind, found in kinds.items()}


def test_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(tmp_path, capsys, CLAMP, HELD)
    assert code == 0
    assert "FAULT" not in out
    assert out.splitlines()[-1].endswith("0 faults, 0 notes")


def test_faults_of_every_sort_are_found_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {**CLAMP, "id": "wrong", "statement": "a", "reference": "def f(n):\n    return min(n, 5)\n"}
    again = {**CLAMP, "statement": "b", "reference": "def f(n):\n    return [0, n][n > 0]\n"}
    leak = {**CLAMP, "id": "leak", "split": "held_out"}
    untested = {**CLAMP, "id": "untested", "statement": "c", "tests": {}}
    idle = {
        **CLAMP,
        "id": "idle",
        "statement": "d",
        "tests": made(public=[(1, 1)], reward=[(1, 1)], audit=[(1, 1)]),
    }
    code, out = check(tmp_path, capsys, CLAMP, wrong, again, leak, untested, idle)
    assert code == 1
    for line in (
        "FAULT  line 2 'wrong': the reference does not pass its reward tests: (-1) gave -1, expected 0",
        "FAULT  line 3 'clamp': the same id as 'clamp' of line 1",
        "FAULT  line 4 'leak': the same statement as 'clamp' of line 1: a held-out task leaks into training",
        "FAULT  line 4 'leak': the same reference as 'clamp' of line 1: a held-out task leaks into training",
        "FAULT  line 5 'untested': no reward tests: nothing decides whether an attempt passes",
        "FAULT  line 6 'idle': every audit test is a public or reward test as well: it measures nothing",
        "FAULT  line 6 'idle': tests do not discriminate: a program that always returns 1 passes",
    ):
        assert line in out, line


def test_weak_tests_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weak = {
        **CLAMP,
        "id": "weak",
        "tests": made(public=[(9, 5)], reward=[(9, 5)], audit=[(1, 1), (-4, 0), (5, 5)]),
    }
    code, out = check(tmp_path, capsys, weak, HELD)
    assert code == 0
    assert "reward tests can be hacked: a program that always returns 5 passes them" in out
    assert "a single reward test: luck passes" in out
    assert "audit tests reject changed references that reward tests pass" in out
    assert "no label tests" in out


def test_tests_that_every_program_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lazy = {
        **CLAMP,
        "id": "lazy",
        "tests": {"reward": [{"program": "assert True"}, {"program": "x = 1\nassert x"}]},
    }
    code, out = check(tmp_path, capsys, lazy, HELD)
    assert code == 1
    assert "tests do not discriminate: a program that raises an error passes" in out
    assert "changed references: they test nothing" in out


def test_test_programs_and_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = {
        **CLAMP, "id": "slow", "reference": "def f(n):\n    r = 0\n    for i in range(n * 1000):\n        r += 1\n    return r\n",
        "tests": {"reward": [{"program": "assert f(2) == 2000\nassert f(1) == 1000"}, {"args": [90], "expected": 90000}]},
    }  # fmt: skip
    assert check(tmp_path, capsys, slow)[0] == 1  # the default fuel is 50,000 steps
    code, out = check(tmp_path, capsys, {**slow, "limits": {"fuel": 200_000}})
    assert code == 0, out


def test_the_solution_in_the_statement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = {**CLAMP, "statement": "Write this:\n" + str(CLAMP["reference"])}
    code, out = check(tmp_path, capsys, told, HELD)
    assert code == 1
    assert "the statement contains the reference's body" in out


def test_repository_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    patch = "--- a/lib.py\n+++ b/lib.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    origin = {"fail_to_pass": ["t::a"], "pass_to_pass": ["t::a"], "test_patch": patch}
    record = {
        "id": "r",
        "kind": "repository",
        "statement": "x is wrong",
        "reference": patch,
        "origin": origin,
    }
    code, out = check(tmp_path, capsys, record)
    assert code == 1
    for said in (
        "1 tests are in fail_to_pass and in pass_to_pass",
        "patch and test_patch both change lib.py",
        "base_commit is missing",
        "not executed: a repository task needs its own environment",
    ):
        assert said in out
    good = {
        **origin,
        "pass_to_pass": ["t::b"],
        "test_patch": patch.replace("lib", "test_lib"),
        "base_commit": "a1",
    }
    assert check(tmp_path, capsys, {**record, "origin": good})[0] == 0
    assert "is empty" in check(tmp_path, capsys, {**record, "origin": {**good, "fail_to_pass": []}})[1]


def test_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sums = {
        "id": "q",
        "kind": "answer",
        "statement": "What is 3 + 4?",
        "reference": "7",
        "tests": made(reward=[(0, 7)]),
    }
    sums["tests"]["reward"][0]["args"] = []  # type: ignore[index]
    assert check(tmp_path, capsys, sums)[0] == 0
    code, out = check(tmp_path, capsys, {**sums, "reference": "8"})
    assert code == 1
    assert "() gave 8, expected 7" in out
    assert answer({"f.py": " -12\n"}).value == -12
    assert answer({"f.py": "twelve"}).value == "twelve"
    assert answer({}).value == ""


def test_convert_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.tasks.test_task_importers import HUMANEVAL, HUMANEVAL_PLUS

    broken = {**HUMANEVAL_PLUS, "task_id": "HumanEval/1", "canonical_solution": "    return numbers[0]\n"}
    (tmp_path / "he.jsonl").write_text("\n".join(map(json.dumps, (HUMANEVAL, HUMANEVAL_PLUS, broken))))
    out = tmp_path / "tasks.jsonl"
    assert main(["convert", "humaneval", str(tmp_path / "he.jsonl"), "-o", str(out)]) == 0
    captured = capsys.readouterr()
    assert "left out: task 'HumanEval/1': its reference on ([]) gave error: IndexError" in captured.err
    assert "2 code tasks" in captured.out
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    main(["check", str(out)])
    assert "'HumanEval/901': the same statement as 'HumanEval/900'" in capsys.readouterr().out


def test_a_repository_task_is_not_judged_here(sandbox: ProcessSandbox) -> None:
    task = record_of({"id": "r", "kind": "repository", "statement": "x"}).task
    with pytest.raises(InputError, match="judged in its own environment"):
        run_tests(sandbox, [({}, task)], "reward")


def test_mutants_by_hand() -> None:
    assert mutants("def f(n):\n    return n + 1", 9) == [
        "def f(n):\n    return n - 1",
        "def f(n):\n    return n + 2",
    ]
    assert mutants("def f(a):\n    return max(a) if a else 0", 9) == [
        "def f(a):\n    return max(a) if not a else 0",
        "def f(a):\n    return max(a) if a else 1",
        "def f(a):\n    return min(a) if a else 0",
    ]
    assert len(mutants("x = 1 + 2 * 3 < 4 - 5", 4)) == 4
    assert mutants("def f(:", 5) == []


def test_stubs_return_the_commonest_value() -> None:
    found = stubs("g", [Case((1,), 0), Case((2,), 7), Case((3,), 7)])
    assert found["always returns 7"] == "def g(*args):\n    return 7\n"
    assert "always returns" not in " ".join(stubs("g", []))


def test_cases_and_programs_run_together(sandbox: ProcessSandbox) -> None:
    both = Task(
        id="t", kind="code", statement="s", spec=(), entry_point="f", public=(), reward=(Case((1,), 2), Case((2,), 9)),
        label=(), audit=(), test_programs={"reward": ("assert f(1) == 2", "assert f(1) == 3")},
    )  # fmt: skip
    good, bad = {"f.py": "def f(n):\n    return n * 2\n"}, {"f.py": "def f(n):\n    while 1: pass\n"}
    first, second = run_tests(sandbox, [(good, both), (bad, both)], "reward")
    assert [r.status for r in first] == ["ok", "ok", "ok", "wrong"]
    assert [r.status for r in second] == ["timeout"] * 4
    from gagar_core.tasks.checks import num_tests, num_tests_passed, verdict_of

    assert num_tests(both, "reward") == 4
    assert num_tests_passed(both, "reward", first) == 2
    assert verdict_of(both, "reward", first) == "wrong"
    assert verdict_of(both, "reward", second) == "timeout"


def test_audit_tests_that_graders_are_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests: dict[str, Any] = CLAMP["tests"]  # type: ignore[assignment]
    audit, label = tests["audit"], tests["label"]
    code, out = check(tmp_path, capsys, {**CLAMP, "tests": {**tests, "label": [*label, *audit]}}, HELD)
    assert code == 1
    assert "every audit test is a label test as well: graders would be trained on what measures them" in out
    code, out = check(tmp_path, capsys, {**CLAMP, "tests": {**tests, "label": [*label, audit[2]]}}, HELD)
    assert code == 0
    assert "note   line 1 'clamp': 1 of 6 audit tests are label tests as well" in out


def test_tests_are_the_same_however_a_set_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"s": ["north", "south", "east", "west", "up", "down"]}
    backwards = {"s": words["s"][::-1]}
    tests = {
        "reward": [{"args": [words], "expected": 6}, {"args": [{"s": []}], "expected": 0}],
        "audit": [{"args": [backwards], "expected": 6}],
    }
    size = {**CLAMP, "id": "size", "tests": tests, "reference": "def f(s):\n    return len(s)\n"}
    code, out = check(tmp_path, capsys, size, HELD)
    assert code == 1
    assert "every audit test is a public or reward test as well" in out


def test_a_renamed_copy_is_a_leak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copied = {
        **CLAMP, "id": "copy", "split": "held_out", "entry_point": "bound", "statement": "Write bound(n), from 0 to 5.",
        "reference": str(CLAMP["reference"]).replace("def f", "def bound"),
    }  # fmt: skip
    code, out = check(tmp_path, capsys, CLAMP, copied)
    assert code == 1
    assert (
        "line 2 'copy': the same reference as 'clamp' of line 1: a held-out task leaks into training" in out
    )


def test_tests_that_every_program_passes_need_no_reference_to_be_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unsolved = {name: value for name, value in CLAMP.items() if name != "reference"}
    code, out = check(tmp_path, capsys, unsolved, HELD)
    assert code == 0
    assert "no reference: its tests are not run" in out
    code, out = check(tmp_path, capsys, {**unsolved, "tests": {"reward": [{"program": "assert True"}]}}, HELD)
    assert code == 1
    assert "tests do not discriminate: a program that raises an error passes" in out


DEEP = {
    "sum": "def f(n):\n    return max(0, min(n, 5))" + " + 0" * 800 + "\n",
    "branches": "def f(n):\n    if n == -50:\n        return 0\n"
    + "".join(f"    elif n == {i}:\n        return 5\n" for i in range(100, 500))
    + "    return max(0, min(n, 5))\n",
    "signs": "def f(n):\n    return max(0, min(n, 5))\ndef g(n):\n    return " + "-" * 50_000 + "n\n",
}


@pytest.mark.parametrize("name", DEEP)
def test_references_nested_deeply_are_checked_all_the_same(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = check(tmp_path, capsys, {**CLAMP, "reference": DEEP[name]}, HELD)
    assert out.splitlines()[-1].startswith("2 code tasks; 1 train, 1 held_out;")
    assert code == (name == "signs")  # which Python itself cannot compile
    assert mutants(DEEP[name], 12) == []


def test_integers_that_python_does_not_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = 10**5000
    exact = {"args": [{"i": hex(long)}], "expected": {"i": hex(2 * long)}}
    tests = {"reward": [exact, {"args": [1], "expected": 2}], "audit": [{"args": [4], "expected": 8}]}
    double = {**CLAMP, "id": "double", "tests": tests, "reference": "def f(n):\n    return 2 * n\n"}
    code, out = check(tmp_path, capsys, double, HELD)
    assert code == 0, out
    code, out = check(
        tmp_path, capsys, {**double, "reference": "def f(n):\n    return n + n + n // 10\n"}, HELD
    )
    assert code == 1
    told = "a value with an integer too long to print"
    assert f"does not pass its reward tests: ({told}) gave {told}, expected {told}" in out


def test_what_is_converted_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = {
        "instance_id": "a", "repo": "org/lib", "base_commit": "abc", "problem_statement": "x is wrong",
        "patch": "--- a/x\n+++ b/x\n", "FAIL_TO_PASS": ["t"], "PASS_TO_PASS": [],
    }  # fmt: skip
    entries = [
        good,
        {**good, "instance_id": "b", "problem_statement": "x" * 200_001},
        {**good, "instance_id": "c", "problem_statement": " "},
    ]
    source, out = tmp_path / "swe.jsonl", tmp_path / "tasks.jsonl"
    source.write_text("\n".join(map(json.dumps, entries)))
    assert main(["convert", "swe_bench", str(source), "-o", str(out)]) == 0
    told = capsys.readouterr().err
    assert "left out: task 'b': statement has 200,001 characters; at most 200,000" in told
    assert (
        "left out: task 'c': statement is missing" in told or "left out: task 'c': statement is empty" in told
    )
    assert [record.task.id for record in read_tasks(out)] == ["a"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    source, out = tmp_path / "swe.jsonl", tmp_path / "folder"
    out.mkdir()
    source.write_text(
        '{"instance_id": "a", "repo": "r", "problem_statement": "s", "patch": "p", "FAIL_TO_PASS": [], "PASS_TO_PASS": []}'
    )
    with pytest.raises(InputError, match="cannot be written"):
        main(["convert", "swe_bench", str(source), "-o", str(out)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "swe.jsonl"]


def test_references_have_the_limits_of_their_task_when_tests_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Solutions of the benchmarks may need more than the default of 50,000 steps on plus inputs."""
    entry = {
        "task_id": "HumanEval/1", "entry_point": "count", "prompt": 'def count(n):\n    """ Count up to n. """\n',
        "canonical_solution": "    r = 0\n    for _ in range(n):\n        r += 1\n    return r\n",
        "base_input": [[3], [90_000]], "plus_input": [[200_000], [7]],
    }  # fmt: skip
    source, out = tmp_path / "plus.jsonl", tmp_path / "tasks.jsonl"
    source.write_text(json.dumps(entry))
    assert main(["convert", "humaneval", str(source), "-o", str(out)]) == 0
    (record,) = read_tasks(out)
    assert record.task.reward == (Case((3,), 3), Case((90_000,), 90_000))
    assert record.task.audit == (Case((200_000,), 200_000),)
    slow = {
        **CLAMP, "reference": "def f(n):\n    for _ in range(n * 1000):\n        pass\n    return n\n",
        "tests": {"reward": [{"args": [90]}, {"args": [2]}]}, "limits": {"fuel": 200_000},
    }  # fmt: skip
    code, told = check(tmp_path, capsys, HELD, slow, {**slow, "id": "short", "statement": "?", "limits": {}})
    assert code == 1
    assert "task 'short': its reference on (90) gave timeout: out of fuel" in told
    assert "'clamp': its reference" not in told
    assert told.splitlines()[-1].startswith("3 code tasks;")


def test_statements_are_compared_by_words_and_signs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add = {**CLAMP, "statement": "Write f(n) that returns n + 2."}
    code, out = check(tmp_path, capsys, add, {**HELD, "statement": "Write f(n) that returns n - 2."})
    assert (code, "the same statement" in out) == (0, False), out
    code, out = check(tmp_path, capsys, add, {**HELD, "statement": "write f(n) that \n returns n + 2"})
    assert code == 1
    assert (
        "line 2 'held': the same statement as 'clamp' of line 1: a held-out task leaks into training" in out
    )


def test_an_answer_beyond_floats_is_a_wrong_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half = {
        **CLAMP, "id": "half", "reference": "def f(n):\n    return n / 2 if n < 9 else 10**400\n",
        "tests": {"reward": [{"args": [n], "expected": n / 2, "atol": 1e-6} for n in (1, 4, 9)]},
    }  # fmt: skip
    code, out = check(tmp_path, capsys, half, HELD)
    assert code == 1
    assert "the reference does not pass its reward tests: (9) gave 1000" in out
