"""Levels: found by trying, told truthfully, refused for training when they are not good enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gagar_core.errors import SandboxError
from gagar_core.sandbox import LEVELS, ProcessSandbox, SandboxSettings, levels, open_sandbox
from gagar_core.sandbox.levels import Choice, Report, try_level
from gagar_core.sandbox.probes import PROBES, sweep
from gagar_core.types import CallResult, Program
from tests.sandbox.gauntlet import PretendingSettings, readable_python

REPO = Path(__file__).resolve().parents[2]
LACKING = str(Path(__file__).with_name("lacking.py"))


REFUSED: dict[str, str] = {}
REPORTS: dict[str, Report | None] = {}


@pytest.fixture(scope="module")
def missing() -> dict[str, str]:
    """Levels that this machine does not have, with the reason."""
    for level in LEVELS[:3]:
        REPORTS[level] = try_level(level, SandboxSettings(), REFUSED)
    return REFUSED


def need(level: str, missing: dict[str, str]) -> None:
    if level in missing:
        pytest.skip(f"level {level} is not to be had here: {missing[level]}")


@pytest.mark.parametrize("level", LEVELS[:3])
def test_a_level_blocks_every_probe_and_every_control_bites(level: str, missing: dict[str, str]) -> None:
    need(level, missing)
    report = REPORTS[level]
    assert report is not None
    assert (report.blocked, report.controls, report.probes) == (len(PROBES),) * 3
    assert report.line().startswith(f"sandbox level={level} probes=9/9 controls=9/9 kernel=")
    assert report.as_dict()["probe_set"] == levels.PROBE_SET


def test_without_a_wall_the_probes_succeed() -> None:
    report = try_level("rlimits", SandboxSettings(), {})
    assert report is not None
    assert report.blocked < report.probes
    assert "(not isolated)" in report.line()


def test_no_isolation_is_refused_unless_allowed_and_never_for_training() -> None:
    with pytest.raises(SandboxError, match="allow_no_isolation"):
        open_sandbox(SandboxSettings(level="rlimits"))
    with open_sandbox(SandboxSettings(level="rlimits", allow_no_isolation=True)) as sandbox:
        assert sandbox.level == "rlimits"
        assert sandbox.calls_batch([(Program("def f(): return 1", "f"), [()])]) == [[CallResult("ok", 1)]]
        with pytest.raises(SandboxError, match=r"not good enough to train with.*sandbox check"):
            sandbox.check_for_training()


@pytest.mark.parametrize(("allowed", "level", "good"), [
    (False, "namespaces", True),
    (False, "landlock", True),
    (False, "landlock-weak", False),
    (True, "landlock-weak", True),
    (True, "rlimits", False),
])  # fmt: skip
def test_which_levels_may_train(allowed: bool, level: str, good: bool) -> None:
    settings = SandboxSettings(allow_weak_training=allowed, allow_no_isolation=True)
    sandbox = ProcessSandbox(settings, Choice(level, Report(level=level, refused={"namespaces": "because"})))
    if good:
        sandbox.check_for_training()
    else:
        with pytest.raises(SandboxError, match="namespaces: because"):
            sandbox.check_for_training()
    sandbox.close()


def test_a_vacuous_probe_is_a_failed_probe(monkeypatch: pytest.MonkeyPatch, missing: dict[str, str]) -> None:
    need("landlock", missing)
    monkeypatch.setitem(PROBES, "read file", "\n        return False")
    refused: dict[str, str] = {}
    assert try_level("landlock", SandboxSettings(), refused) is None
    assert refused["landlock"] == "read file proves nothing here: it fails outside as well"


@pytest.mark.parametrize(
    ("cap", "expected"),
    [(3, "landlock"), (2, "landlock-weak"), (0, None)],
)
def test_lower_landlock_versions_mean_lower_levels(
    cap: int, expected: str | None, missing: dict[str, str]
) -> None:
    need("landlock", missing)
    for level in ("landlock", "landlock-weak"):
        refused: dict[str, str] = {}
        report = try_level(level, PretendingSettings(lacks={"landlock_cap": cap}), refused)
        if report is None:
            assert f"Landlock ABI {cap}" in refused[level]
        else:
            assert level == expected or (level, expected) == ("landlock-weak", "landlock")


OPEN = """
from gagar_core.sandbox import open_sandbox
with open_sandbox() as sandbox:
    sandbox.check_for_training()
    print(sandbox.report.refused)
    print("may train:", sandbox.level)
"""


def run_lacking(
    *what: str, python: str = sys.executable, command: tuple[str, ...] = ("-c", OPEN)
) -> subprocess.CompletedProcess[str]:
    """Open a sandbox, or run another Python command, on a machine that lacks something."""
    full = [python, "-S", "-B", LACKING, *what, "--", python, "-S", "-B", *command]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO)}
    return subprocess.run(full, capture_output=True, text=True, env=environment, cwd="/")


@pytest.mark.parametrize(
    "what",
    [
        "unshare",
        pytest.param("mount", marks=pytest.mark.slow),
        pytest.param("pivot_root", marks=pytest.mark.slow),
        pytest.param("mount_setattr", marks=pytest.mark.slow),
    ],
)
def test_it_degrades_by_itself_where_namespaces_are_refused(what: str, missing: dict[str, str]) -> None:
    need("landlock", missing)
    run = run_lacking(what)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("{'namespaces': ")
    assert run.stdout.endswith("may train: landlock\n")


def test_it_degrades_where_the_quota_of_user_namespaces_is_zero(missing: dict[str, str]) -> None:
    need("landlock", missing)
    need("namespaces", missing)
    python = readable_python() if os.geteuid() == 0 else sys.executable
    if python is None:
        pytest.skip("no Python 3.11 or newer that another user may start")
    run = run_lacking("userns", python=python)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "{'namespaces': 'unshare: No space left on device'}\nmay train: landlock\n"


def test_root_in_name_only_is_not_taken_for_root(missing: dict[str, str]) -> None:
    need("landlock", missing)
    need("namespaces", missing)
    run = run_lacking("fakeroot")
    assert run.returncode == 0, run.stderr
    assert "may train: " in run.stdout


def test_a_machine_without_any_wall_is_told_so() -> None:
    run = run_lacking("unshare", "landlock")
    assert run.returncode == 1
    assert "SandboxError: no isolation level is good enough (asked for: auto)" in run.stderr
    assert "  - landlock: Landlock ABI 0 is below 3" in run.stderr


def test_the_check_command_tells_what_there_is() -> None:
    run = run_lacking("landlock", command=("-m", "gagar_core.sandbox", "check", "--level", "rlimits"))
    assert run.returncode == 1
    assert run.stdout.startswith("sandbox level=rlimits (not isolated) probes=")
    assert "sandbox level=rlimits (" not in run.stderr
    assert "programs of 10 tests per CPU second" in run.stdout
    assert "sandbox level rlimits is not good enough to train with" in run.stdout


def test_a_level_that_is_asked_for_is_not_replaced(missing: dict[str, str]) -> None:
    need("landlock", missing)
    with open_sandbox(SandboxSettings(level="landlock")) as sandbox:
        assert sandbox.level == "landlock"
    with pytest.raises(SandboxError, match=r"asked for: landlock\)"):
        open_sandbox(PretendingSettings(level="landlock", lacks={"landlock_cap": 2}))


def test_only_old_probe_folders_are_swept(tmp_path: Path) -> None:
    for name in ("gagar-probe-old", "gagar-probe-new", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text("x")
    for name in ("gagar-probe-old", "other"):
        os.utime(tmp_path / name, (1, 1))
    sweep(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gagar-probe-new", "other"]
