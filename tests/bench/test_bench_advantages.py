"""The ratios of the bench hold. Slow lane; run on a machine that does little else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_ratios():
    script = Path(__file__).with_name("bench_advantages.py")
    run = subprocess.run([sys.executable, script, "--json"], capture_output=True, text=True)
    assert run.stdout, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert not found["missed"], found
