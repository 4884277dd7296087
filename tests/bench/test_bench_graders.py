"""Grading stays cheap beside sampling, with threefold slack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.bench_graders import batch_rate, in_own_process


@pytest.mark.slow
def test_grading_is_cheap(tmp_path: Path) -> None:
    none, agentic = (in_own_process(grader, 20, tmp_path) for grader in ("none", "agentic_s"))
    assert agentic["share of a step"] < 0.3
    assert agentic["peak memory, MB"] - none["peak memory, MB"] < 300
    assert batch_rate(tmp_path) > 1000 / 3
