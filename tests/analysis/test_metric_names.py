"""Sweeps declare hypotheses on metrics by name: both sides must know the same ones."""

from __future__ import annotations

from analysis.metrics import METRICS
from gagar_core.records.measures import REPORT_METRICS


def test_names_and_directions_agree() -> None:
    assert {key: metric.better for key, metric in METRICS.items()} == REPORT_METRICS
