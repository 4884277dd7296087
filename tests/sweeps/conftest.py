"""Fixtures of the sweep tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the helpers in plans.py

from gates import Gate


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate for the jobs of a puller."""
    made = Gate(tmp_path / "gate")
    yield made
    made.close()
