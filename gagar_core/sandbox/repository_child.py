"""The child's side of a repository task: unpack, patch, run pytest on hidden tests and their twins, report.

pytest imports the candidate's code, so from then on this process is the candidate's. What it reports is
checked by the broker and believed only where nothing is missing, doubled or skipped.
"""

# ruff: noqa: PTH100, PTH102, PTH103, PTH108, PTH118, PTH120, PTH123
from __future__ import annotations

import json
import os
import sys
from typing import Any

from gagar_core.sandbox import diffs
from gagar_core.sandbox.framing import receive, send
from gagar_core.sandbox.runner import Sink

_INI = "[pytest]\naddopts =\nxfail_strict = true\n"
_OPTIONS = (
    *(
        "-p",
        "no:cacheprovider",
        "-p",
        "no:terminal",
        "-p",
        "no:logging",
        "-p",
        "no:junitxml",
        "-p",
        "no:doctest",
    ),
    *("--noconftest", "--import-mode=importlib", "--capture=no"),
)


class _Recorder:
    """Collects what pytest reports, phase by phase."""

    def __init__(self) -> None:
        self.phases: list[list[str]] = []
        self.unreadable: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of one test."""
        self.phases.append([report.nodeid, report.when, report.outcome])

    def pytest_collectreport(self, report: Any) -> None:
        """A file that could not be collected."""
        if report.outcome != "passed":
            self.unreadable.append(report.nodeid)


def serve(requests: int, answers: int, archive: int, output_bytes: int) -> None:
    """Read ``[patches, roots]`` and the packed tree, then run the tests of each request."""
    program = receive(requests)
    if program is None:
        return
    patches, roots = program
    try:
        unpack(archive, "repo")
        apply_patches("repo", patches)
        failure = ""
    except (OSError, diffs.DiffError) as fault:
        failure = str(fault)[:200]
    os.close(archive)
    while (request := receive(requests)) is not None:
        token, tests = request
        outcome = ["error", None, failure] if failure else _tested(tests, roots, output_bytes)
        send(answers, [token, outcome])


def unpack(archive: int, root: str) -> None:
    """Write a packed tree: a line of JSON ``[[path, bytes], ...]``, then the contents one after the other."""
    with open(archive, "rb", closefd=False) as file:
        file.seek(0)
        for path, size in json.loads(file.readline()):
            target = os.path.join(root, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as handle:
                handle.write(file.read(size))


def apply_patches(root: str, patches: list[Any]) -> None:
    """Apply parsed patches below ``root``."""
    for path, action, hunks in patches:
        target = os.path.join(root, path)
        if action == "create":
            if os.path.lexists(target):
                raise diffs.DiffError(f"{path} exists already")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            text = ""
        else:
            with open(target, encoding="utf-8", errors="surrogateescape", newline="") as file:
                text = file.read()
        patched = diffs.apply(text, hunks)
        if action == "delete":
            os.unlink(target)
        else:
            with open(target, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(patched)


def _tested(tests: dict[str, list[str]], roots: list[str], output_bytes: int) -> list[Any]:
    """Run the test files (name to source and test to run, "" = all) in one pytest session."""
    import pytest

    sys.stdout = sys.stderr = Sink(output_bytes)
    sys.path[:0] = [os.path.abspath(os.path.join("repo", root)) for root in roots]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    folder = os.path.abspath("hidden")
    os.mkdir(folder)
    for name, (source, _) in {**tests, "pytest.ini": [_INI, ""]}.items():
        descriptor = os.open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY, 0o444)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(source)
    recorder = _Recorder()
    paths = [os.path.join(folder, name) + (test and f"::{test}") for name, (_, test) in tests.items()]
    ini = os.path.join(folder, "pytest.ini")
    try:
        status = int(pytest.main([*_OPTIONS, "-c", ini, "--rootdir", folder, *paths], plugins=[recorder]))
    except BaseException as fault:
        return ["error", None, f"pytest: {type(fault).__name__}"]
    phases = [[str(field) for field in phase] for phase in recorder.phases]
    return ["ok", [status, phases, [str(name) for name in recorder.unreadable]], ""]
