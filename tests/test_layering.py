"""The arrows of the house, and how light its doors are."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("gagar_core", "experiments", "sweeps", "analysis")

BASE = {"errors", "types", "seeds", "syntax", "protocols"}
ROOMS = {
    "errors": set(),
    "types": set(),
    "seeds": set(),
    "syntax": set(),
    "protocols": {"types", "advantages"},  # the latter for type checkers only
    "advantages": BASE,
    "records": BASE,
    "sandbox": BASE,
    "tasks": BASE | {"sandbox"},
    "agent": BASE | {"tasks"},
    "policies": BASE | {"agent", "tasks", "records"},
    "grading": BASE | {"agent", "tasks"},
    "sampling": BASE | {"agent", "tasks"},
    "training": BASE | {"agent", "tasks", "policies", "grading", "sampling", "advantages", "records"},
    "integrations": BASE | {"advantages"},
    "choices": BASE
    | {"advantages", "grading", "policies", "sampling", "tasks", "training", "sandbox", "agent"},
}
"""Room of the library -> rooms it may import, itself apart."""


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours(path: Path, package: str) -> set[str]:
    return {name for name in imports(path) if name == package or name.startswith(package + ".")}


@pytest.mark.parametrize("path", modules("gagar_core"), ids=lambda p: str(p.relative_to(ROOT)))
def test_rooms_of_the_library_import_only_what_they_may(path: Path) -> None:
    room = path.relative_to(ROOT / "gagar_core").parts[0].removesuffix(".py")
    if room == "__init__":
        return
    rooms = {name.split(".")[1] for name in ours(path, "gagar_core") if "." in name}
    assert rooms - {room} <= ROOMS[room]
    assert not any(ours(path, package) for package in PACKAGES[1:])


@pytest.mark.parametrize("path", modules("experiments"), ids=lambda p: str(p.relative_to(ROOT)))
def test_experiments_do_not_know_sweeps_or_analysis(path: Path) -> None:
    assert not ours(path, "sweeps")
    assert not ours(path, "analysis")


@pytest.mark.parametrize("path", modules("analysis"), ids=lambda p: str(p.relative_to(ROOT)))
def test_analysis_reads_files_only(path: Path) -> None:
    allowed = ("gagar_core.records", "gagar_core.errors")
    assert all(name.startswith(allowed) for name in ours(path, "gagar_core") if name != "gagar_core")
    assert not ours(path, "experiments")
    assert not ours(path, "sweeps")


@pytest.mark.parametrize("path", modules("sweeps"), ids=lambda p: str(p.relative_to(ROOT)))
def test_sweeps_do_not_know_analysis(path: Path) -> None:
    assert not ours(path, "analysis")


def test_trainer_names_no_algorithm() -> None:
    text = (ROOT / "gagar_core/training/trainer.py").read_text().lower()
    assert not [name for name in ("grpo", "rloo", "gagar.", "linear", "trajectory_rule") if name in text]


def test_no_import_cycle_between_modules() -> None:
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in modules(package)
    }
    graph = {}
    for name, path in paths.items():
        found = set()
        for node in ast.parse(path.read_text()).body:  # at the top only; TYPE_CHECKING blocks do not run
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {full if full in paths else node.module for full in names}
        graph[name] = found - {name}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name in done or name not in graph:
            return
        for other in sorted(graph[name]):
            visit(other, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


LIGHT = [
    ("import gagar_core.choices, experiments.schema", "torch mlflow optuna polars matplotlib submitit"),
    ("import gagar_core.advantages", "torch polars omegaconf hydra mlflow optuna"),
    ("import gagar_core.records", "torch polars numpy mlflow optuna"),
    ("import gagar_core.sandbox", "torch polars mlflow optuna"),
    ("import analysis.__main__", "torch mlflow optuna hydra matplotlib.pyplot submitit"),
    ("import sweeps.__main__", "torch mlflow optuna hydra matplotlib polars submitit"),
    ("import experiments.run", "torch mlflow optuna matplotlib polars submitit"),
    ("import experiments.__main__, experiments.show", "torch mlflow optuna matplotlib polars submitit hydra"),
    ("import experiments.recorded.page, experiments.recorded.terminal", "torch mlflow optuna polars jinja2"),
]


@pytest.mark.parametrize(("statement", "heavy"), LIGHT)
def test_doors_are_light(statement: str, heavy: str) -> None:
    code = f"import sys; {statement}; print([n for n in {heavy.split()!r} if n in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("command", [["experiments.run"], ["experiments"], ["sweeps"], ["analysis"]])
def test_help_is_light(command: list[str], tmp_path: Path) -> None:
    code = (
        f"import sys, runpy; sys.argv = ['x', '--help']\n"
        f"try: runpy.run_module({command[0]!r}, run_name='__main__', alter_sys=True)\n"
        f"except SystemExit: pass\n"
        f"heavy = [n for n in ('torch', 'mlflow', 'optuna', 'matplotlib.pyplot') if n in sys.modules]\n"
        f"print('HEAVY', heavy)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip().endswith("HEAVY []")
    assert len(result.stdout) > 400


def test_files_and_functions_keep_their_size() -> None:
    faults = []
    for package in PACKAGES:
        for path in modules(package):
            text = path.read_text()
            if text.count("\n") > 400:
                faults.append(f"{path}: {text.count(chr(10))} lines")
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef):
                    size = (node.end_lineno or 0) - node.lineno + 1
                    if ast.get_docstring(node, clean=False) is not None:
                        size -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
                    if size > 50:
                        faults.append(f"{path}:{node.lineno} {node.name}: {size} lines")
    assert not faults
