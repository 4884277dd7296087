"""What every suite keeps: separate splits, known words, right references, tests that tell programs apart."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest

from gagar_core.agent.codec import Codec
from gagar_core.choices import CHOICES
from gagar_core.errors import ConfigError
from gagar_core.sandbox import ProcessSandbox
from gagar_core.tasks.execution import run_tests
from gagar_core.tasks.format import TaskRecord
from gagar_core.tasks.list_variants import Hard, WeakTests
from gagar_core.tasks.mixed import Mixed, question
from gagar_core.tasks.program_styles import write_program
from gagar_core.tasks.repair import Repair, fault_of, respellings
from gagar_core.tasks.scalar_hard_coding import ScalarHardCoding
from gagar_core.tasks.structure import structure_findings
from gagar_core.tasks.suite import Suite
from gagar_core.tasks.trial import trial_findings
from gagar_core.types import MAIN_FILE, Case, Task

NAMES = sorted(CHOICES["tasks"])
CODEC = Codec()


@cache
def load(name: str) -> Suite:
    suite: Suite = CHOICES["tasks"][name]().load()
    return suite


def everything(suite: Suite) -> list[Task]:
    return list({task.id: task for task in (*suite.sft, *suite.train, *suite.held_out)}.values())


def reference(task: Task) -> str:
    """A right program, file or answer; for an arbitrary table the special cases that pass."""
    if task.kind == "answer":
        return str(task.reward[0].expected)
    if task.files:
        place, right = fault_of(task)
        lines = task.files[MAIN_FILE].splitlines()
        return "\n".join([*lines[:place], right, *lines[place + 1 :]]) + "\n"
    if task.id.startswith("opaque/"):
        table = {c.args[0]: c.expected for c in (*task.public, *task.label, *task.audit)}
        return f"def f(n):\n    return {table}[n]\n"
    return "\n".join(write_program(task.spec, "loop", False, np.random.default_rng(0))) + "\n"


@pytest.mark.parametrize("name", NAMES)
class TestSuite:
    def test_splits_do_not_overlap(self, name: str) -> None:
        suite = load(name)
        assert suite.name == name
        for tasks in (suite.sft, suite.train, suite.held_out):
            assert len(tasks) >= 50
            assert len({task.id for task in tasks}) == len(tasks)
        shown = {task.id for task in (*suite.sft, *suite.train)}
        assert not shown & {task.id for task in suite.held_out}

    def test_an_embedded_policy_has_met_every_word_and_every_line(self, name: str) -> None:
        suite = load(name)
        met = {word for task in suite.sft for word in task.spec}
        assert {word for task in everything(suite) for word in task.spec} == met
        for task in everything(suite):
            assert len(CODEC.encode_spec(task.spec)) == 5
            for line in task.files.get(MAIN_FILE, "").splitlines():
                assert CODEC.decode(CODEC.encode(line)) == line

    def test_a_check_finds_no_fault(self, name: str, sandbox: ProcessSandbox) -> None:
        suite = load(name)
        sample = [*suite.sft[:12], *suite.train[-10:], *suite.held_out[:8], *suite.held_out[-8:]]
        splits = {t.id: "train" for t in (*suite.sft, *suite.train)} | {
            t.id: "held_out" for t in suite.held_out
        }
        whole = [TaskRecord(task, reference(task), splits[task.id]) for task in everything(suite)]
        assert [str(found) for found in structure_findings(whole) if found.fault] == []
        chosen = {task.id for task in sample}
        some = [record for record in whole if record.task.id in chosen]
        found = [str(f) for f in trial_findings(some, lambda limits: nullcontext(sandbox)) if f.fault]
        assert found == []

    def test_another_seed_gives_another_suite_of_the_same_sizes(self, name: str) -> None:
        other = CHOICES["tasks"][name](suite_seed=3).load()
        suite = load(name)
        assert other.digest() != suite.digest()
        assert [len(x) for x in (other.sft, other.train, other.held_out)] == [
            len(x) for x in (suite.sft, suite.train, suite.held_out)
        ]


GOLDEN = {
    "list_functions": "4d959564ef24",
    "weak_tests": "d4dde079a170",
    "scalar_hard_coding": "d3e3ab8491fa",
    "hard": "71fc24295de5",
    "mixed": "6d4f8304f9e4",
    "repair": "6de1f42515e1",
}
"""Content of every suite: another one makes old and new runs incomparable; then raise CONFIG_EPOCH."""


def test_suites_are_the_same_everywhere_and_always() -> None:
    assert {name: load(name).digest() for name in NAMES} == GOLDEN
    code = (
        "from gagar_core.choices import CHOICES\n"
        "print({name: cls().load().digest() for name, cls in CHOICES['tasks'].items()})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "11"}
    )
    assert ast.literal_eval(done.stdout) == GOLDEN


def test_weak_tests_are_the_first_of_list_functions() -> None:
    weak, usual = load("weak_tests"), load("list_functions")
    assert [task.id for task in everything(weak)] == [task.id for task in everything(usual)]
    for a, b in zip(everything(weak), everything(usual), strict=True):
        assert a.public == a.reward == b.public[:1]
        assert (a.label, a.audit) == (b.label, b.audit)


def test_hard_tasks_have_every_part_and_demonstrations_at_most_one() -> None:
    hard = load("hard")
    assert {task.difficulty for task in (*hard.train, *hard.held_out)} == {1.0}
    assert max(task.difficulty for task in hard.sft) < 0.5
    assert {len(task.public) for task in hard.train} == {5}


def test_mixed_has_both_kinds_in_every_split() -> None:
    suite = load("mixed")
    for tasks, count in ((suite.sft, 120), (suite.train, 200), (suite.held_out, 98)):
        assert Counter(task.kind for task in tasks) == {"code": count, "answer": count}


@pytest.mark.parametrize(
    ("parts", "value", "words"),
    [
        (("add", 3, 4), 7, "Write down 3 plus 4."),
        (("sub", 2, 7), -5, "Write down 2 minus 7."),
        (("mul", 7, 7), 49, "Write down 7 times 7."),
        (("max", 2, 6), 6, "Write down the larger of 2 and 6."),
        (("dist", 1, 5), 4, "Write down the distance between 1 and 5."),
    ],
)
def test_questions_by_hand(
    parts: tuple[str, int, int], value: int, words: str, sandbox: ProcessSandbox
) -> None:
    task = question(*parts)
    assert task.statement == words
    assert task.reward == task.audit == (Case((), value),)
    (found,) = run_tests(sandbox, [({MAIN_FILE: f"{value}\n"}, task)], "reward")
    assert [result.value for result in found] == [value]


def test_a_table_can_only_be_special_cased(sandbox: ProcessSandbox) -> None:
    suite = load("scalar_hard_coding")
    tables = [task for task in everything(suite) if task.id.startswith("opaque/")]
    assert len(tables) == 60
    assert [sum(t.id.startswith("opaque/") for t in tasks) for tasks in (suite.sft, suite.train)] == [20, 40]
    for task in everything(suite):
        numbers = [case.args[0] for case in (*task.public, *task.label, *task.audit)]
        assert len(set(numbers)) == len(numbers) == 10  # no number decides twice
    (first, second) = tables[0].public
    source = f"def f(n):\n    if n == {first.args[0]}:\n        return {first.expected}\n    return {second.expected}\n"
    rewarded, audited = (
        run_tests(sandbox, [({MAIN_FILE: source}, tables[0])], kind)[0] for kind in ("reward", "audit")
    )
    assert [r.value for r in rewarded] == [first.expected, second.expected]
    assert [r.value for r in audited] != [c.expected for c in tables[0].audit]


def test_repair_files_have_one_fault_that_a_public_test_shows(sandbox: ProcessSandbox) -> None:
    suite = load("repair")
    tasks = [*suite.train[:60], *suite.held_out[:40]]
    as_they_are = run_tests(sandbox, [(task.files, task) for task in tasks], "public")
    repaired = run_tests(sandbox, [({MAIN_FILE: reference(task)}, task) for task in tasks], "audit")
    for task, before, after in zip(tasks, as_they_are, repaired, strict=True):
        assert before[0].value != task.public[0].expected
        assert [r.value for r in after] == [case.expected for case in task.audit]
        source = task.files[MAIN_FILE]
        assert source.count("def ") == 3
        changed = [a != b for a, b in zip(source.splitlines(), reference(task).splitlines(), strict=True)]
        assert sum(changed) == 1


def test_respellings_mean_the_same(sandbox: ProcessSandbox) -> None:
    lines = {line for task in load("repair").train for line in task.files[MAIN_FILE].splitlines()}
    pairs = [(line.strip(), other.strip()) for line in sorted(lines) for other in respellings(line)]
    assert len(pairs) > 10
    for line, other in pairs:
        for n in (-3, 0, 4):
            before, after = ({"n": n, "x": n, "r": 5, "ys": [1], "max": max} for _ in range(2))
            body = [text.replace("return ", "result = ") for text in (line, other)]
            exec(body[0], before)
            exec(body[1], after)
            assert before["ys"] == after["ys"]
            assert (before["r"], before.get("result")) == (after["r"], after.get("result"))


def test_settings_are_checked() -> None:
    for make, said in (
        (
            lambda: ScalarHardCoding(opaque_share=0.9, public_tests=3),
            "opaque_share must be in [0, 0.5]; got 0.9",
        ),
        (lambda: Mixed(train_questions=400), "train_questions must be in [120, 319]; got 400"),
        (lambda: ScalarHardCoding(train_tasks=300).load(), "only 157 differ"),
        (lambda: Repair(train_tasks=800, held_out_tasks=400).load(), "differ"),
        (lambda: Hard(sft_tasks=180).load(), "ask for 168 list functions; only 126 differ"),
        (lambda: WeakTests(public_tests=0), "public_tests must be in [1, 20]; got 0"),
    ):
        with pytest.raises(ConfigError) as caught:
            make()
        assert said in str(caught.value)


def test_too_few_demonstrated_tasks_to_show_every_word_are_refused() -> None:
    from gagar_core.seeds import stream
    from gagar_core.tasks.list_functions import distinct_compositions, draw_compositions

    with pytest.raises(ConfigError, match="do not show all 28 words; raise sft_tasks"):
        draw_compositions(stream(0, "x"), distinct_compositions(), 50, 3)
