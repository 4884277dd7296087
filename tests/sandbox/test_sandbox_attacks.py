"""The attack list: every program ends right behind each wall, and bites where there is none."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gagar_core.sandbox import ProcessSandbox, SandboxSettings
from gagar_core.sandbox.levels import try_level
from tests.sandbox.attacks import ATTACKS, Attack
from tests.sandbox.gauntlet import ORDINARY, Control, Outside, faults_of, readable_python, sandbox_at

GAUNTLET = Path(__file__).with_name("gauntlet.py")
IDS = [attack.id for attack in ATTACKS]


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    place = Outside()
    yield place
    place.close()


@pytest.fixture(scope="module")
def walls() -> Iterator[dict[str, ProcessSandbox | str]]:
    """A sandbox per level, or the machine's reason for not having it."""
    found: dict[str, ProcessSandbox | str] = {}
    with ExitStack() as stack:
        for level in ("namespaces", "landlock"):
            refused: dict[str, str] = {}
            if try_level(level, SandboxSettings(), refused) is None:
                found[level] = refused[level]
            else:
                found[level] = stack.enter_context(sandbox_at(level))
        yield found


@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_the_wall_holds(
    level: str, attack: Attack, walls: dict[str, ProcessSandbox | str], outside: Outside
) -> None:
    wall = walls[level]
    if isinstance(wall, str):
        pytest.skip(f"level {level} is not to be had here: {wall}")
    assert faults_of(attack, wall, outside) == []


@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
def test_the_attack_bites_without_the_wall(attack: Attack, outside: Outside) -> None:
    assert Control(attack, outside).bites()


def test_the_list_is_whole() -> None:
    assert len(ATTACKS) == len(set(IDS)) == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "lacks"),
    [
        ("namespaces", {}),
        ("landlock", {}),
        ("landlock", {"landlock_cap": 3}),
        ("landlock-weak", {"landlock_cap": 2}),
        ("landlock-weak", {"landlock_cap": 1}),
    ],
)
def test_the_wall_holds_for_an_ordinary_user(level: str, lacks: dict[str, int]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; the other tests have run as an ordinary one")
    python = readable_python()
    if python is None:
        pytest.skip("no Python 3.11 or newer that another user may start")
    run = subprocess.run(
        [python, "-S", "-B", str(GAUNTLET), level, json.dumps(lacks)],
        user=ORDINARY,
        group=ORDINARY,
        extra_groups=[],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
    )
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert [r["id"] for r in results] == IDS
    assert [r for r in results if r["faults"]] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "lacks"),
    [
        ("namespaces", {"forbid_user_namespaces": True}),
        ("namespaces", {"landlock_cap": 0}),
        ("landlock", {"landlock_cap": 3}),
        ("landlock-weak", {"landlock_cap": 1}),
    ],
)
def test_the_wall_holds_on_a_lesser_machine(level: str, lacks: dict[str, int], outside: Outside) -> None:
    if "forbid_user_namespaces" in lacks and os.geteuid() != 0:
        pytest.skip("namespaces without user namespaces need root")
    with sandbox_at(level, **lacks) as sandbox:
        found = {attack.id: faults for attack in ATTACKS if (faults := faults_of(attack, sandbox, outside))}
    assert found == {}
