"""A real Slurm cluster on this machine for the tests marked ``slurm``; started here, stopped afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sweeps"))  # for run_cli in gates.py

FOLDER = "/tmp/gagar-slurm-tests"  # short: it holds unix sockets, whose paths may have 107 characters
SETTINGS = {"GAGAR_SLURM_DIR": FOLDER, "GAGAR_SLURM_PORT": "19817"}


def control(script: str, *arguments: str) -> None:
    """Run one of the cluster's scripts; fails with its output."""
    command = ["bash", str(HERE / script), *arguments]
    done = subprocess.run(
        command, env={**os.environ, **SETTINGS}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """Four nodes with accounting; SLURM_CONF points at them while the tests run."""
    control("start_slurm.sh", "--fresh")
    os.environ["SLURM_CONF"] = f"{FOLDER}/slurm.conf"
    yield
    del os.environ["SLURM_CONF"]
    control("stop_slurm.sh", "--wipe")


@pytest.fixture(scope="session")
def cluster_without_accounting(cluster: None) -> None:
    """The same cluster without a database; tests that use it must come last."""
    control("start_slurm.sh", "--fresh", "--no-accounting")
