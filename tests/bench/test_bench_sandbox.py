"""The ratios of the bench hold. Slow lane; run on a machine that does little else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gagar_core.errors import SandboxError

sys.path.insert(0, str(Path(__file__).parent))
import bench_sandbox


@pytest.mark.slow
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_ratios_and_sizes(level: str) -> None:
    try:
        figures = bench_sandbox.measure(level)
    except SandboxError as refusal:
        pytest.skip(f"level {level} is not to be had here: {refusal}")
    for name, (ratio, wanted) in figures.ratios().items():
        assert ratio >= wanted, (name, figures)
    assert figures.zygote_mb <= 40
    assert figures.pytest_zygote_mb <= 60
