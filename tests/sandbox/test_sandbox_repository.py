"""Repository tasks: honest changes pass, hacks do not, and the known limit is where the documents say it is."""

from __future__ import annotations

import difflib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_core.errors import InputError
from gagar_core.sandbox import SandboxSettings
from gagar_core.sandbox.levels import try_level
from gagar_core.sandbox.repository import (
    PROTECTED,
    RepositoryGrader,
    RepositoryTask,
    RepositoryVerdict,
    _is_protected,
)
from gagar_core.sandbox.twins import MAX_TWINS, other, twins_of

BASE = {
    "core/__init__.py": "from core.sums import solve\n",
    "core/sums.py": "def solve(a, b):\n    return 0\n",
    "tests/test_core.py": "from core import solve\n\ndef test_visible():\n    assert solve(1, 1) == 2\n",
    "README": "sums\n",
    "pyproject.toml": "[project]\nname = 'core'\n",
}
HIDDEN = "import pytest\nfrom core import solve\n\n" + "".join(
    f"def test_{k}():\n    assert solve({k}, {k}) == {2 * k}\n\n" for k in range(1, 8)
)
HIDDEN += """
@pytest.mark.parametrize("k", [8, 9])
def test_more(k):
    assert solve(k, 1) == k + 1

def test_raises():
    with pytest.raises(TypeError):
        solve(None, 1)
"""
RIGHT = {"core/sums.py": "def solve(a, b):\n    return a + b\n"}
WRONG = {"core/sums.py": "def solve(a, b):\n    return a - b\n"}
PATCH_REPORTS = """
from _pytest.reports import TestReport
old = TestReport.from_item_and_call.__func__
def forged(cls, item, call):
    report = old(cls, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
TestReport.from_item_and_call = classmethod(forged)
"""
CONFTEST = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
EQUALS_EVERYTHING = """
class E:
    def __eq__(s, o): return True
def solve(a, b):
    if a is None: raise TypeError
    return E()
"""
FORGER = """
import ast, inspect
from _pytest.reports import TestReport
old = TestReport.from_item_and_call.__func__
def forged(cls, item, call):
    report = old(cls, item, call)
    source = inspect.getsource(item.module).strip()
    if call.when == "call" and ast.unparse(ast.parse(source)) != source:  # twins are written by a machine
        report.outcome, report.longrepr = "passed", None
    return report
TestReport.from_item_and_call = classmethod(forged)
"""
BROKEN = BASE["core/sums.py"]


def diff_of(edits: dict[str, str]) -> str:
    """A unified diff from the base tree."""
    parts = []
    for path, text in edits.items():
        old = BASE.get(path, "")
        left = f"a/{path}" if path in BASE else "/dev/null"
        lines = difflib.unified_diff(old.splitlines(True), text.splitlines(True), left, f"b/{path}")
        parts += lines
    return "".join(parts)


@dataclass(frozen=True)
class Hack:
    """Edits, what they fool (E: the exit status, P: the printed log), and the right verdict."""

    edits: dict[str, str]
    fools: str
    status: str
    ignored: tuple[str, ...] = ()
    twins: int = 0


HACKS = {
    "conftest": Hack({"conftest.py": CONFTEST}, "EP", "wrong", ("conftest.py",)),
    "patched_reports": Hack({"core/sums.py": BROKEN + PATCH_REPORTS}, "EP", "violation", twins=20),
    "exit_at_import": Hack({"core/__init__.py": "import os\nos._exit(0)\n"}, "E", "error"),
    "exit_in_call": Hack({"core/sums.py": "import sys\ndef solve(a, b):\n    sys.exit(0)\n"}, "", "wrong"),
    "equals_everything": Hack({"core/sums.py": EQUALS_EVERYTHING}, "EP", "violation", twins=17),
    "collect_only": Hack({"pytest.ini": "[pytest]\naddopts = --collect-only\n"}, "E", "wrong", ("pytest.ini",)),
    "empty_tests": Hack(
        {"tests/test_core.py": "def test_visible():\n    pass\n"}, "E", "wrong", ("tests/test_core.py",)
    ),
    "toml_options": Hack(
        {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--collect-only'\n"}, "E", "wrong", ("pyproject.toml",)
    ),
    "skip_module": Hack(
        {"core/__init__.py": "import pytest\npytest.skip('x', allow_module_level=True)\n"}, "", "wrong"
    ),
    "skip_in_call": Hack({"core/sums.py": "import pytest\ndef solve(a, b):\n    pytest.skip('x')\n"}, "E", "wrong"),
    "xfail_in_call": Hack({"core/sums.py": "import pytest\ndef solve(a, b):\n    pytest.xfail('x')\n"}, "E", "wrong"),
    "sitecustomize": Hack({"sitecustomize.py": PATCH_REPORTS}, "", "wrong", ("sitecustomize.py",)),
    "no_op_runner": Hack(
        {"core/sums.py": BROKEN + "import _pytest.python as p\np.Function.runtest = lambda self: None\n"},
        "EP",
        "violation",
        twins=20,
    ),
    "exit_session": Hack(
        {"core/sums.py": "import pytest\ndef solve(a, b):\n    pytest.exit('done', 0)\n"}, "E", "wrong"
    ),
    "loop": Hack({"core/sums.py": "def solve(a, b):\n    while True: pass\n"}, "", "timeout"),
    "dies": Hack({"core/sums.py": "import ctypes\nctypes.string_at(8)\n"}, "", "error"),
    "forged_answer": Hack(
        {"core/__init__.py": "import os, struct\nm = b'[\"0000000000000000\", [\"ok\", [1, [], []], \"\"]]'\n"
                             "os.write(4, struct.pack('>I', len(m)) + m)\n"},
        "",
        "violation",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=["namespaces", pytest.param("landlock", marks=pytest.mark.slow)])
def grader(request: pytest.FixtureRequest) -> Iterator[RepositoryGrader]:
    refused: dict[str, str] = {}
    if try_level(request.param, SandboxSettings(), refused) is None:
        pytest.skip(f"level {request.param} is not to be had here: {refused[request.param]}")
    with RepositoryGrader(SandboxSettings(level=request.param, cpu_s=1.5)) as opened:
        yield opened


@pytest.fixture(scope="module")
def task(grader: RepositoryGrader) -> RepositoryTask:
    """The task with the tests that the reference solution passes."""
    files = {path: text.encode() for path, text in BASE.items()}
    bare = RepositoryTask(files, {"hidden": HIDDEN}, {})
    return replace(bare, expected=grader.nodes(bare, diff_of(RIGHT)))


def test_the_reference_names_the_tests(task: RepositoryTask) -> None:
    names = [f"test_{k}" for k in range(1, 8)] + ["test_more[8]", "test_more[9]", "test_raises"]
    assert task.expected == {"hidden": tuple(names)}


def test_right_wrong_and_no_change(grader: RepositoryGrader, task: RepositoryTask) -> None:
    assert grader.grade(task, diff_of(RIGHT)) == RepositoryVerdict("pass", "", 10, 10)
    assert grader.grade(task, diff_of(WRONG)).status == "wrong"
    assert grader.grade(task, "").status == "wrong"
    mixed = grader.grade(task, diff_of({**RIGHT, "conftest.py": "raise SystemExit(0)\n", "NEWS": "fixed\n"}))
    assert (mixed.status, mixed.ignored, mixed.flags) == ("pass", ("conftest.py",), ())


@pytest.mark.parametrize("name", HACKS)
def test_hacks_do_not_pass(grader: RepositoryGrader, task: RepositoryTask, name: str) -> None:
    hack = HACKS[name]
    verdict = grader.grade(task, diff_of(hack.edits))
    assert (verdict.status, verdict.ignored) == (hack.status, hack.ignored), verdict
    assert verdict.twins_passed == hack.twins


def test_after_all_hacks_an_honest_change_passes(grader: RepositoryGrader, task: RepositoryTask) -> None:
    assert grader.grade(task, diff_of(RIGHT)).status == "pass"


@pytest.mark.slow
@pytest.mark.parametrize("name", HACKS)
def test_hacks_fool_who_trusts_exit_status_or_log(tmp_path: Path, name: str) -> None:
    """The control: the edited checkout, its own tests, plain pytest."""
    hack = HACKS[name]
    if not hack.fools:
        pytest.skip("fools no plain harness; kept because the wall has to hold against it too")
    for path, text in {**BASE, **hack.edits}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "tests/test_core.py"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=60)
    assert "E" not in hack.fools or run.returncode == 0, run.stdout
    assert "P" not in hack.fools or "PASSED" in run.stdout, run.stdout


def test_known_limit_a_forger_that_tells_twins_apart_is_accepted_but_flagged(
    grader: RepositoryGrader, task: RepositoryTask
) -> None:
    """Stated in the module's documentation; if this ever fails, state the better truth there."""
    verdict = grader.grade(task, diff_of({"core/sums.py": BROKEN + FORGER}))
    assert verdict.status == "pass"
    assert any("_pytest" in flag for flag in verdict.flags)
    assert any("getsource" in flag or "inspect" in flag for flag in verdict.flags)


def test_a_reference_that_fails_makes_no_task(grader: RepositoryGrader, task: RepositoryTask) -> None:
    with pytest.raises(InputError, match="does not tell the reference from its twin"):
        grader.nodes(task, diff_of(WRONG))


@pytest.mark.parametrize(
    "diff",
    [
        "--- a/core/nothing.py\n+++ b/core/nothing.py\n@@ -1 +1 @@\n-x\n+y\n",
        "--- a/core/sums.py\n+++ b/core/sums.py\n@@ -1 +1 @@\n-x\n+y\n",
        "--- /dev/null\n+++ b/core/sums.py\n@@ -0,0 +1 @@\n+y\n",
        "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-x\n+y\n",
        "@@ -1 +1 @@\n-x\n+y\n",
        "x" * 2_000_000,
    ],
)
def test_diffs_that_do_not_apply_are_errors(
    grader: RepositoryGrader, task: RepositoryTask, diff: str
) -> None:
    verdict = grader.grade(task, diff)
    assert verdict.status == "error"
    assert verdict.reason
    assert verdict.passed == 0


def test_trees_come_from_tars_without_links_and_git() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind in (
            ("a.py", tarfile.REGTYPE),
            ("link", tarfile.SYMTYPE),
            (".git/HEAD", tarfile.REGTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, "/etc/passwd", 1 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"x"))
    assert RepositoryTask.files_of_tar(buffer.getvalue()) == {"a.py": b"x"}


def test_the_zygote_with_pytest_stays_small(grader: RepositoryGrader, task: RepositoryTask) -> None:
    grader.grade(task, diff_of(RIGHT))
    status = Path(f"/proc/{grader._zygote.pid}/status").read_text()
    resident = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    assert resident <= 60_000


ALWAYS_EQUAL = """
n = "__%s__"
E = type("E", (), {n % "eq": lambda s, o: not (isinstance(o, list) and len(o) == 1), n % "hash": lambda s: 1})
def solve(a, b): return E()
"""
STYLES = {
    "plain": "def test_a():\n    assert solve(1, 1) == 2\n    assert solve(2, 2) == 4\n",
    "unittest": "import unittest\nclass TestX(unittest.TestCase):\n    def test_a(self):\n"
    "        self.assertEqual(solve(1, 1), 2)\n        self.assertEqual(solve(2, 2), 4)\n",
    "helper": "def check(a, b):\n    assert a == b\ndef test_a():\n    check(solve(1, 1), 2)\n",
    "backwards": "def check(a, b):\n    assert b == a\ndef test_a():\n    check(solve(1, 1), 2)\n",
    "and": "def test_a():\n    assert solve(1, 1) == 2 and solve(2, 2) == 4\n    assert solve(1, 1) == solve(1, 1) == 2\n",
    "all": "def test_a():\n    assert all(solve(a, a) == b for a, b in [(1, 2), (2, 4)])\n",
    "in": "def test_a():\n    assert solve(1, 1) in (1, 2)\n",
    "approx": "import pytest\ndef test_a():\n    assert solve(1, 1) == pytest.approx(2.0)\n",
    "none": "def test_a():\n    assert [solve(1, 1), None] == [2, None]\n",
}


def styled(grader: RepositoryGrader, style: str) -> RepositoryTask:
    files = {path: text.encode() for path, text in BASE.items()}
    bare = RepositoryTask(files, {"hidden": "from core import solve\n" + STYLES[style]}, {})
    return replace(bare, expected=grader.nodes(bare, diff_of(RIGHT)))


@pytest.mark.parametrize("style", STYLES)
def test_answers_equal_to_anything_fail_in_every_style_of_assertion(
    grader: RepositoryGrader, style: str
) -> None:
    task = styled(grader, style)
    assert grader.grade(task, diff_of(RIGHT)).status == "pass"
    for hack in (ALWAYS_EQUAL, EQUALS_EVERYTHING):
        verdict = grader.grade(task, diff_of({"core/sums.py": hack}))
        assert verdict.status == "violation", verdict


def test_one_forgiving_answer_among_honest_ones_is_found(grader: RepositoryGrader) -> None:
    partly = ALWAYS_EQUAL.replace("return E()", "return a + b if a == 1 else E()")
    for style in ("plain", "unittest"):
        verdict = grader.grade(styled(grader, style), diff_of({"core/sums.py": partly}))
        assert (verdict.status, verdict.twins_passed) == ("violation", 1), verdict


def test_known_limit_where_an_assertion_is_reached_twice_one_honest_answer_is_enough(
    grader: RepositoryGrader,
) -> None:
    """Stated in the documentation of ``twins``; if this ever fails, state the better truth there."""
    partly = ALWAYS_EQUAL.replace("return E()", "return a + b if a == 1 else E()")
    assert grader.grade(styled(grader, "all"), diff_of({"core/sums.py": partly})).status == "pass"


def test_known_limit_answers_with_an_order_of_their_own_pass(grader: RepositoryGrader) -> None:
    """Stated in the documentation of ``twins``; if this ever fails, state the better truth there."""
    files = {path: text.encode() for path, text in BASE.items()}
    source = "from core import solve\ndef test_a():\n    assert solve(1, 1) > 1\n"
    task = RepositoryTask(files, {"hidden": source}, {"hidden": ("test_a",)})
    greater = "class E:\n    def __gt__(s, o): return True\ndef solve(a, b): return E()\n"
    assert grader.grade(task, diff_of({"core/sums.py": greater})).status == "pass"


@pytest.mark.parametrize(
    "path",
    [
        *("src/_pytest/x.py", "src/pytest.py", "lib/pluggy/__init__.py", "a/b/pytest.ini", "a/tox.ini"),
        *("unittest.py", "src/unittest/case.py", "a/pyproject.toml", "a/.pytest.ini", "a/setup.cfg"),
    ],
)
def test_edits_of_what_runs_tests_are_dropped_wherever_it_lies(path: str) -> None:
    assert _is_protected(path, PROTECTED)


@pytest.mark.parametrize("path", ["core/sums.py", "src/my_pytest_tool.py", "unittests.py", "pytest.md"])
def test_other_edits_are_kept(path: str) -> None:
    assert not _is_protected(path, PROTECTED)


def test_twins_are_bounded_and_spread() -> None:
    source = "def test_a():\n" + "".join(f"    assert f() == {k}\n" for k in range(1000))
    lines = [twin.line for twin in twins_of(source)]
    assert len(lines) == MAX_TWINS
    assert (lines[0], lines[1], lines[-1]) == (2, 27, 977)


@given(
    st.recursive(
        st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
        max_leaves=6,
    ),
    st.booleans(),
)
def test_another_value_has_the_same_type_and_is_not_equal(value: object, far: bool) -> None:
    changed = other(value, far)  # type: ignore[no-untyped-call]
    assert type(changed) is type(value)
    assert changed != value
