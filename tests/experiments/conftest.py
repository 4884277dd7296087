"""A recorded run that several files of tests only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.recorded_run import make_run


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make_run`` makes, for tests that write nothing but pages into it."""
    return make_run(tmp_path_factory.mktemp("recorded"))
