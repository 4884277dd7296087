"""The training loop keeps its speed, with threefold slack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.bench_training import measure


@pytest.mark.slow
def test_training_is_fast_enough(tmp_path: Path) -> None:
    figures = measure(60, tmp_path)
    assert figures["rollouts per CPU second"] > 300 / 3
    assert figures["record share"] < 0.03 * 3
    assert figures["CPU us per token, second half"] < 1.5 * figures["CPU us per token, first half"]
    assert figures["peak memory, MB"] < 1000
