"""Grading a change to a repository by hidden pytest tests.

Only a diff comes over from the agent; edits of tests and of what configures them are dropped and named. The
tests run in a throw-away child with a packed copy of the base tree on a file system of its own, next to
must-fail twins (one per assertion; ``twins`` says what these cannot catch), and everything that is missing,
doubled, skipped or odd is a failure.

**Known limit.** pytest imports the code under test, so candidate, hidden tests and reports share one process:
a program that reads the tests, or tells twins from real ones and forges its report, *is accepted here*. The
``flags`` of a verdict name changed lines that only a forger needs; they are a signal for people, not proof.
Prefer tasks whose functions are called by value (``calls_batch``, ``judge_batch``) for rewards that are
trained on, and re-grade a sample of passes with an independent judge.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import io
import json
import os
import re
import secrets
import tarfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from gagar_core.errors import InputError, SandboxError
from gagar_core.sandbox import diffs
from gagar_core.sandbox.channel import StoppedError
from gagar_core.sandbox.isolated import Isolated, verdict
from gagar_core.sandbox.levels import choose
from gagar_core.sandbox.scheduling import Task as Coroutine
from gagar_core.sandbox.scheduling import run_together
from gagar_core.sandbox.settings import SandboxSettings
from gagar_core.sandbox.twins import Twin, twin_of, twins_of
from gagar_core.sandbox.zygotes import LevelError, Zygote, ZygoteLostError
from gagar_core.types import CallResult, Program

_OPTIONS_OF_TESTS = ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "noxfile.py")
_HARNESS = ("pytest", "_pytest", "pluggy", "unittest")
PROTECTED = (
    *("tests/*", "test/*", "*/tests/*", "*/test/*", "test_*.py", "*/test_*.py", "*_test.py"),
    *("conftest.py", "*/conftest.py", "*.pth", ".github/*", ".gitlab-ci.yml", ".ci/*"),
    *("sitecustomize.py", "*/sitecustomize.py", "usercustomize.py", "*/usercustomize.py"),
    *(f"{above}{name}" for above in ("", "*/") for name in _OPTIONS_OF_TESTS),
    *(f"{above}{name}{end}" for above in ("", "*/") for name in _HARNESS for end in (".py", "/*")),
)
"""Edits of these paths are dropped: they decide how tests run, not what the code does."""
_FLAGS = re.compile(
    r"\b(_pytest|pytest|pluggy|gc|ctypes|atexit|inspect|_getframe|settrace|setprofile|os\._exit|__eq__|sys\.modules)\b"
)


@dataclass(frozen=True, slots=True)
class RepositoryTask:
    """A base tree and hidden tests.

    ``expected`` names the tests of each file (``test_x``, ``TestY::test_z``, ``test_p[1]``), all of which
    must be reported exactly once; ``RepositoryGrader.nodes`` finds them with a reference solution.
    """

    files: Mapping[str, bytes]
    tests: Mapping[str, str]
    expected: Mapping[str, tuple[str, ...]]
    roots: tuple[str, ...] = ("", "src")
    protected: tuple[str, ...] = PROTECTED

    @staticmethod
    def files_of_tar(archive: bytes) -> dict[str, bytes]:
        """Regular files of a tar archive, by path; links and devices are left out, and so is ``.git``."""
        found: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                handle = tar.extractfile(member) if member.isreg() else None
                path = member.name.removeprefix("./")
                if handle is not None and ".git" not in path.split("/"):
                    found[path] = handle.read()
        return found


@dataclass(frozen=True, slots=True)
class RepositoryVerdict:
    """How a change fared. ``status`` is a verdict of ``gagar_core.types.VERDICTS``."""

    status: str
    reason: str = ""
    passed: int = 0
    total: int = 0
    twins_passed: int = 0
    ignored: tuple[str, ...] = ()
    """Protected paths that the diff touches; these edits were dropped."""
    flags: tuple[str, ...] = ()
    """Changed lines that a forger of reports would need; a signal, never a reason for a reward."""


class RepositoryGrader:
    """A zygote with pytest loaded. Use as a context manager.

    ``cpu_s`` of the settings bounds one test file together with its twin; room for files is raised as needed.
    """

    def __init__(self, settings: SandboxSettings | None = None) -> None:
        settings = settings or SandboxSettings(cpu_s=10.0, wall_s=20.0)
        chosen = choose(settings)
        self.level, self.report = chosen.level, chosen.report
        site = _folder_of_pytest()
        self._settings = replace(
            settings,
            imports=[*settings.imports, "pytest", "_pytest.assertion.rewrite"],
            paths=[*settings.paths, site],
            workspace_mb=max(settings.workspace_mb, 64),
            workspace_files=max(settings.workspace_files, 20_000),
            file_bytes=max(settings.file_bytes, 16_000_000),
        )
        self._zygote = Zygote(self._settings, chosen.level)
        self._packed: dict[int, tuple[Mapping[str, bytes], int]] = {}  # holds the files: ids are used again

    def __enter__(self) -> RepositoryGrader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote; forget packed trees."""
        self._zygote.stop()
        for _, descriptor in self._packed.values():
            os.close(descriptor)
        self._packed.clear()

    def grade(self, task: RepositoryTask, diff: str) -> RepositoryVerdict:
        """Apply ``diff`` to the base tree and run the hidden tests. Never raises for what a diff contains."""
        try:
            patches = diffs.parse(diff)
        except diffs.DiffError as fault:
            return RepositoryVerdict("error", str(fault), total=_count(task))
        ignored = tuple(p.path for p in patches if _is_protected(p.path, task.protected))
        kept = [patch for patch in patches if patch.path not in ignored]
        flags = tuple(
            f"{p.path}: {line.strip()[:80]}" for p in kept for line in p.added if _FLAGS.search(line)
        )
        verdicts = [self._file(task, kept, name) for name in sorted(task.tests)]
        return replace(_worst(verdicts, task), ignored=ignored, flags=flags)

    def nodes(self, task: RepositoryTask, reference: str) -> dict[str, tuple[str, ...]]:
        """The tests that a reference diff makes pass, for ``RepositoryTask.expected``.

        Raises ``InputError`` if a test fails under the reference, or a twin does not (an assertion that is
        never reached, say): such a task cannot be graded.
        """
        found: dict[str, tuple[str, ...]] = {}
        patches = diffs.parse(reference)
        for name in sorted(task.tests):
            result = self._run(task, patches, {"test_all.py": [task.tests[name], ""]})
            outcomes = _outcomes(result.value[1]) if result.status == "ok" else {}
            nodes = tuple(node.partition("::")[2] for node in outcomes)
            judged = self._file(replace(task, expected={name: nodes}), patches, name)
            if judged.status != "pass":
                reason = result.message or judged.reason
                raise InputError(f"{name} does not tell the reference from its twin: {reason} {outcomes}")
            found[name] = nodes
        return found

    def _file(self, task: RepositoryTask, patches: list[diffs.FilePatch], name: str) -> RepositoryVerdict:
        source, expected = task.tests[name], task.expected.get(name, ())
        real, whole = _new_name(), _new_name()
        twins = [Ran.of(twin, expected) for twin in twins_of(source)]
        tests = {real: [source, ""], whole: [twin_of(source), ""]}
        tests |= {ran.name: [ran.twin.source, ran.test] for ran in twins}
        result = self._run(task, patches, dict(sorted(tests.items())))
        if result.status != "ok":
            return RepositoryVerdict(result.status, result.message)
        return _judged(result.value, (real, whole), twins, expected)

    def _run(
        self, task: RepositoryTask, patches: list[diffs.FilePatch], tests: dict[str, list[str]]
    ) -> CallResult:
        """One child, one pytest session; an infrastructure fault is tried once more."""
        preamble = [[patch.as_message() for patch in patches], list(task.roots)]
        results: deque[CallResult] = deque()
        for _ in range(2):
            run_together([self._session(preamble, self._archive(task), tests, results)])
            if results and results[-1].status != "infra":
                break
        return results[-1]

    def _session(
        self, preamble: list[Any], archive: int, tests: dict[str, list[str]], results: deque[CallResult]
    ) -> Coroutine[None]:
        child = Isolated(self._zygote, Program("", ""), "repository", self._settings, preamble, archive)
        try:
            self._zygote.start()
            results.append((yield from child.ask(tests)))
            yield from child.close()
        except StoppedError as stop:
            results.append(verdict(stop, child.usage))
        except (ZygoteLostError, LevelError) as fault:
            self._zygote.stop()
            results.append(CallResult("infra", None, str(fault)))

    def _archive(self, task: RepositoryTask) -> int:
        """The base tree packed once, in memory; children read it through a descriptor."""
        if id(task.files) not in self._packed:
            descriptor = os.memfd_create("repository")
            index = json.dumps([[path, len(content)] for path, content in task.files.items()])
            with open(descriptor, "wb", closefd=False) as file:
                file.write(index.encode() + b"\n")
                file.writelines(task.files.values())
            self._packed[id(task.files)] = task.files, descriptor
        return self._packed[id(task.files)][1]


def _folder_of_pytest() -> str:
    spec = importlib.util.find_spec("pytest")
    if spec is None or spec.origin is None:
        raise SandboxError("repository tasks need pytest in this environment: pip install pytest")
    return str(Path(spec.origin).parents[1])


def _new_name() -> str:
    """A name for a test file or twin that tells a program nothing; they sort by chance."""
    return f"test_{secrets.token_hex(6)}.py"


@dataclass(frozen=True, slots=True)
class Ran:
    """A twin as it is run: under which name, and what it must report."""

    twin: Twin
    name: str
    test: str
    nodes: frozenset[str]

    @staticmethod
    def of(twin: Twin, expected: tuple[str, ...]) -> Ran:
        """Run the test that holds the assertion, or all where that is not known."""
        own = {node for node in expected if twin.test and node.partition("[")[0] == twin.test}
        name, test = _new_name(), twin.test if own else ""
        return Ran(twin, name, test, frozenset(f"{name}::{node}" for node in own or expected))

    def survives(self, outcomes: dict[str, str]) -> bool:
        """Whether the changed assertion held where it has to fail."""
        kept = [node for node in self.nodes if outcomes.get(node) == "passed"]
        must_all_fail = self.twin.is_sure and bool(self.test)
        return bool(kept) if must_all_fail else len(kept) == len(self.nodes)


def _count(task: RepositoryTask) -> int:
    return sum(len(nodes) for nodes in task.expected.values())


def _is_protected(path: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in globs)


def _outcomes(phases: list[list[str]]) -> dict[str, str]:
    """One outcome per test: ``passed`` if its three phases passed, ``failed`` if the call did, else
    ``odd``."""
    by_node: dict[str, list[tuple[str, str]]] = {}
    for node, when, outcome in phases:
        by_node.setdefault(node, []).append((when, outcome))
    passed = [("setup", "passed"), ("call", "passed"), ("teardown", "passed")]
    failed = [("setup", "passed"), ("call", "failed"), ("teardown", "passed")]
    return {n: "passed" if p == passed else "failed" if p == failed else "odd" for n, p in by_node.items()}


def _judged(
    value: Any, names: tuple[str, str], twins: list[Ran], expected: tuple[str, ...]
) -> RepositoryVerdict:
    """Believe a report only if it is complete; ``names`` are those of the tests and of their whole twin."""
    total = len(expected)
    if not _well_formed(value):
        return RepositoryVerdict("violation", "malformed report", total=total)
    status, phases, unreadable = value
    outcomes = _outcomes(phases)
    real, whole = ({f"{name}::{node}" for node in expected} for name in names)
    passed = sum(outcomes.get(node) == "passed" for node in real)
    lived = sum(outcomes.get(node) == "passed" for node in whole)
    lines = [ran.twin.line for ran in twins if ran.survives(outcomes)] if passed == total else []
    if lived or lines:
        reason = f"{lived + len(lines)} must-fail twins passed" + (f" (lines {lines})" if lines else "")
        return RepositoryVerdict("violation", reason, passed, total, lived + len(lines))
    is_whole = set(outcomes) == real.union(whole, *(ran.nodes for ran in twins))
    twins_fail = all(outcomes.get(node) == "failed" for node in whole)
    twins_ran = all(outcomes.get(node) in ("passed", "failed") for ran in twins for node in ran.nodes)
    if passed == total and is_whole and twins_fail and twins_ran and status == 1 and not unreadable and total:
        return RepositoryVerdict("pass", "", passed, total)
    reason = f"{passed} of {total} tests pass, exit status {status}"
    return RepositoryVerdict(
        "wrong", reason if passed < total or is_whole else f"{reason}, report incomplete", passed, total
    )


def _well_formed(value: Any) -> bool:
    if type(value) is not list or len(value) != 3 or type(value[0]) is not int:
        return False
    phases, unreadable = value[1:]
    if type(phases) is not list or type(unreadable) is not list:
        return False
    return all(type(p) is list and len(p) == 3 and all(type(f) is str for f in p) for p in phases)


def _worst(verdicts: list[RepositoryVerdict], task: RepositoryTask) -> RepositoryVerdict:
    """All files must pass; tampering in one file condemns the change."""
    order = ("infra", "violation", "timeout", "memory", "output", "error", "wrong", "pass")
    if not verdicts:
        return RepositoryVerdict("error", "the task has no tests")
    worst = min(verdicts, key=lambda v: order.index(v.status))
    passed, twins = sum(v.passed for v in verdicts), sum(v.twins_passed for v in verdicts)
    return replace(worst, passed=passed, total=_count(task), twins_passed=twins)
