"""What the wheel ships, and that nobody else owns the names of the checkout's packages."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_wheel_ships_the_library_only(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"gagar_core", "gagar_core-0.1.0.dist-info"}
    assert "gagar_core/advantages/compute.py" in names
    assert "gagar_core/py.typed" in names


def test_no_other_distribution_owns_our_names() -> None:
    owners = importlib.metadata.packages_distributions()
    for name in ("experiments", "sweeps", "analysis"):
        rivals = set(owners.get(name, [])) - {"gagar-core"}
        assert not rivals, f"{rivals} also ships a package {name}; uninstall it"
