"""Axis ``tracking``: whether finished runs are mirrored to an MLflow store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class NoTracking:
    """Records only."""


@dataclass(kw_only=True)
class Mlflow:
    """Mirror finished runs to MLflow; a dead server costs a run nothing."""

    uri: str = ""
    """Tracking server or database; "" = sqlite file ``<root>/mlflow.db``."""
    experiment: str = ""
    """Name of the MLflow experiment; "" = name of the sweep."""


TRACKING = {"none": NoTracking, "mlflow": Mlflow}
