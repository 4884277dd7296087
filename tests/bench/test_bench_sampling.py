"""Deciding stays cheap, with threefold slack."""

from __future__ import annotations

import pytest

from tests.bench.bench_sampling import measure


@pytest.mark.slow
def test_sampling_and_loading_are_cheap() -> None:
    figures = measure()
    assert not {
        name: value for name, value in figures.items() if name.endswith("decisions, ms") and value > 3
    }
    assert not {name: value for name, value in figures.items() if name.endswith("load, s") and value > 3}
