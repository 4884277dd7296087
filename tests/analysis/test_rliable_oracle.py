"""Agreement with rliable where it is right, and where it is not. Needs a Python that has it and pandas < 3:

RLIABLE_PYTHON=/path/to/python python -m pytest tests/analysis/test_rliable_oracle.py
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from analysis.bootstrap import generator, iqm_of_rows, row_bootstrap
from analysis.statistics import (
    interquartile_mean,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)

PYTHON = os.environ.get("RLIABLE_PYTHON")

pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="RLIABLE_PYTHON names no Python with rliable and pandas < 3"
)

SHAPES = [(1, 5), (2, 3), (3, 4), (5, 10), (7, 13)]

_SCRIPT = """
import json
import numpy as np
from rliable import library, metrics

found = {"cases": []}
for n, k in SHAPES:
    rng = np.random.default_rng([n, k])
    x, y = rng.random((n, k)), rng.random((n, k))
    profile = library.create_performance_profile({"a": x}, np.array([0.2, 0.5, 0.8]), reps=10)[0]["a"]
    found["cases"].append({
        "iqm": metrics.aggregate_iqm(x), "gap": metrics.aggregate_optimality_gap(x, 0.7),
        "improvement": metrics.probability_of_improvement(x, y), "profile": profile.tolist(),
    })

def interval(x, state):
    _, bounds = library.get_interval_estimates(
        {"a": x}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps=400,
        random_state=np.random.RandomState(state))
    return bounds["a"].ravel().tolist()

x = np.random.default_rng(0).random((5, 8))
np.random.seed(1)
found["state_3_first"] = interval(x, 3)
found["state_3_again"] = interval(x, 3)

rng, hits = np.random.default_rng(1), 0
for study in range(120):
    runs = 0.6 + rng.normal(0, 0.03, (3, 1)) + rng.normal(0, 0.15, (3, 100))
    _, bounds = library.get_interval_estimates(
        {"a": runs}, lambda s: np.array([metrics.aggregate_mean(s)]), reps=200)
    low, high = bounds["a"].ravel()
    hits += bool(low <= 0.6 <= high)
found["coverage"] = hits / 120
print(json.dumps(found))
"""


@lru_cache(maxsize=1)
def rliable() -> dict[str, Any]:
    assert PYTHON is not None
    script = _SCRIPT.replace("SHAPES", repr(SHAPES))
    done = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_aggregates_agree() -> None:
    for (n, k), theirs in zip(SHAPES, rliable()["cases"], strict=True):
        rng = np.random.default_rng([n, k])
        x, y = rng.random((n, k)), rng.random((n, k))
        assert interquartile_mean(x) == pytest.approx(theirs["iqm"], abs=1e-12)
        assert optimality_gap(x, 0.7) == pytest.approx(theirs["gap"], abs=1e-12)
        assert probability_of_improvement(list(x.T), list(y.T)) == pytest.approx(theirs["improvement"])
        assert performance_profile(x, [0.2, 0.5, 0.8]).tolist() == pytest.approx(theirs["profile"])


def test_its_random_state_is_ignored_and_ours_is_not() -> None:
    assert rliable()["state_3_first"] != rliable()["state_3_again"]
    x = np.random.default_rng(0).random((5, 8))
    ours = [row_bootstrap(x, iqm_of_rows, generator("same"), 400) for _ in range(2)]
    assert np.array_equal(*ours)


def test_its_interval_covers_far_too_rarely_when_one_run_is_scored_on_all_tasks() -> None:
    assert rliable()["coverage"] < 0.75
