"""The copy of the code that a submission runs from, and what happens when the tree has changed since."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from plans import write_plan

from experiments import code
from gagar_core.errors import LaunchError
from gagar_core.records import read_json
from sweeps.launchers import Local
from sweeps.ledger import Submission
from sweeps.status import look_at
from sweeps.submit import check_code, imports_from, submit


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small checkout of its own."""
    root = tmp_path / "tree"
    for package in code.COPIED:
        (root / package / "__pycache__").mkdir(parents=True)
        (root / package / "__init__.py").write_text("")
        (root / package / "__pycache__" / "x.pyc").write_text("")
        (root / package / "a.yaml").write_text("a: 1")
    return root


def fresh(root: Path) -> dict[str, str]:
    """Digests as another process would see them."""
    code.file_digests.cache_clear()
    return dict(code.file_digests(root))


def test_only_deciding_packages_decide(tree: Path) -> None:
    before = code.digest(fresh(tree))
    (tree / "sweeps" / "a.yaml").write_text("a: 2")
    assert code.digest(fresh(tree)) == before
    whole = code.digest(fresh(tree), code.COPIED)
    assert whole != before
    (tree / "sweeps" / "results" / "main").mkdir(parents=True)
    (tree / "sweeps" / "results" / "main" / "report.md").write_text("# Published")
    assert code.digest(fresh(tree), code.COPIED) == whole  # what was found out is no code
    (tree / "gagar_core" / "results").mkdir()
    (tree / "gagar_core" / "results" / "a.py").write_text("")
    assert code.digest(fresh(tree), code.COPIED) != whole  # a package of that name is
    (tree / "experiments" / "new.py").write_text("")  # not known to git: it counts all the same
    assert code.digest(fresh(tree)) != before


def test_a_copy_is_whole_read_only_and_made_once(tree: Path, tmp_path: Path) -> None:
    fresh(tree)
    copy = code.snapshot(tmp_path / "code", tree)
    assert code.snapshot(tmp_path / "code", tree) == copy
    assert [path.name for path in (tmp_path / "code").iterdir()] == [copy.name]
    files = {p.relative_to(copy).as_posix() for p in copy.rglob("*") if p.is_file()}
    assert files == {*fresh(tree), "code.json"}
    assert (copy / "sweeps" / "a.yaml").stat().st_mode & 0o222 == 0
    assert code.facts(copy)["digest"] == code.digest(fresh(tree))
    assert code.differences(copy, tree) == []
    (tree / "gagar_core" / "a.yaml").write_text("a: 3")
    (tree / "sweeps" / "a.yaml").write_text("a: 3")
    fresh(tree)
    assert code.differences(copy, tree) == ["gagar_core/a.yaml"]


def test_workers_import_the_copy_wherever_they_start(tmp_path: Path) -> None:
    copy = code.snapshot(tmp_path / "tiny" / "code")
    submission = Submission(tmp_path / "tiny" / "submissions" / "n")
    submission.__dict__["intent"] = {"code": {"copy": copy.name}}
    program = "import sweeps.worker, experiments.execute, gagar_core; from experiments import code; " + (
        "print(sweeps.__file__, experiments.__file__, gagar_core.__file__, code.facts()['digest'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=imports_from(submission),
        cwd=code.ROOT,  # the tree itself lies in front of the user, and must not be what is imported
        capture_output=True,
        text=True,
        check=True,
    )
    *files, digest = done.stdout.split()
    assert all(Path(file).is_relative_to(copy) for file in files)
    assert digest == code.facts()["digest"]


def test_other_code_is_refused_or_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.submit.start_local", lambda ledger, submission: None)
    ledger = write_plan(tmp_path)
    first = submit(look_at(ledger), Local(), todo=4)
    assert first.intent["code"]["other"] is False
    assert read_json(ledger.path / "code" / first.intent["code"]["copy"] / "code.json")["digest"]
    assert check_code(ledger, allow=False) is False
    changed = tmp_path / "changed"
    for package in code.COPIED:
        shutil.copytree(code.ROOT / package, changed / package, ignore=shutil.ignore_patterns("__pycache__"))
    (changed / "gagar_core" / "seeds.py").write_text("raise ImportError")
    original = code.file_digests
    monkeypatch.setattr(code, "file_digests", lambda root=changed: original(changed))
    with pytest.raises(LaunchError, match=r"changed: gagar_core/seeds\.py\), .*--other-code"):
        submit(look_at(ledger), Local(), todo=4)
    assert len(ledger.submissions()) == 1
    second = submit(look_at(ledger), Local(), todo=4, other_code=True)
    assert second.intent["code"]["other"] is True
    assert second.intent["code"]["digest"] != first.intent["code"]["digest"]
    with pytest.raises(LaunchError):  # having been allowed once is no leave for ever
        submit(look_at(ledger), Local(), todo=4)
