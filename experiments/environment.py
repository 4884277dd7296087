"""What a run was executed with: versions, machine, code, sandbox. Facts, not part of the result."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
from typing import TYPE_CHECKING, Any

from experiments import code
from experiments.artifacts import required
from gagar_core.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from experiments.build import LiveRun
    from experiments.schema import RunConfig

_PACKAGES = ("gagar-core", "torch", "numpy", "polars", "hydra-core", "omegaconf")


def describe(config: RunConfig, live: LiveRun) -> dict[str, Any]:
    """Content of ``meta.json``."""
    return {
        "schema_version": SCHEMA_VERSION,
        "sandbox_level": live.process.level,
        "sandbox": live.process.report.line(),
        "suite": live.suite.name,
        "suite_digest": live.suite.digest(),
        "parameters": sum(p.numel() for p in live.policy.network.parameters()),
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "code": code.facts(),
        "artifacts": {spec.kind: spec.digest for spec in required(config)},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
