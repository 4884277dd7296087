"""The README tells the truth: its example computes, its commands run, its table lists every choice."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.help import axes_table
from gagar_core import records
from sweeps.cli import VERBS
from sweeps.factors import FACTORS
from sweeps.spec import SPECS, load_spec

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_python_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        example = doctest.DocTestParser().get_doctest(block, {}, "README", "README.md", 0)
        assert doctest.DocTestRunner().run(example).failed == 0


def test_table_of_axes_lists_every_choice() -> None:
    assert axes_table() in README, "paste what `experiments.help.axes_table()` returns into the README"


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_verb_kind_of_factor_and_shipped_tier_is_mentioned() -> None:
    tiers = load_spec(SPECS / "main.yaml").tiers
    named = [*VERBS, *FACTORS, *(["tier=full"] if "full" in tiers else [])]
    assert [name for name in named if f"`{name}`" not in README and f" {name}`" not in README] == []


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    shown = [
        line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")
    ]
    inline = re.findall(r"^`(algorithm=\w+ [^|`]+)`", README, re.MULTILINE)
    assert inline
    return (
        shown[:1] + [f"python -m experiments.run {words} seed=0 budget=smoke" for words in inline] + shown[1:]
    )


def test_commands_run(tmp_path: Path) -> None:
    ran = 0
    for command in commands():
        words = [word.replace("runs/", f"{tmp_path}/") for word in shlex.split(command)]
        assert words[0] == "python"
        if words[2] != "analysis":
            words.append(f"root={tmp_path}")
        done = subprocess.run(
            [sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        ran += 1
    assert ran >= 7
    assert all(run.finished for run in records.find_runs(tmp_path))
    assert (tmp_path / "single" / "report" / "report.html").exists()
    assert (tmp_path / "demo" / "report" / "report.json").exists()


@pytest.mark.parametrize("folder", ["gagar_core", "experiments", "sweeps", "analysis", "tests"])
def test_the_tree_names_every_room(folder: str) -> None:
    assert f"{folder}/" in README
    for room in (ROOT / folder).iterdir():
        if (
            folder == "gagar_core"
            and room.is_dir()
            and (room / "__init__.py").exists()
            and room.name != "integrations"
        ):
            assert room.name in README
