"""Parts that many rooms' tests share: one sandbox, one suite, one tiny policy that can already write programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from gagar_core.sandbox import ProcessSandbox, open_sandbox
from gagar_core.tasks.list_functions import ListFunctions
from gagar_core.tasks.suite import Suite

# how long an example takes says nothing on a shared machine; CI must not fail on another day's luck
settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("project")

torch.set_num_threads(1)  # as every run does; two workers with two threads each only wait for each other

TINY = [
    "budget=smoke",
    "budget.sft_demos=400",
    "budget.sft_epochs=1",
    "budget.steps=3",
    "budget.groups_per_step=6",
    "budget.group_size=4",
    "budget.eval_tasks=6",
    "budget.eval_attempts=1",
    "tracking=none",
]
"""Overrides of a run that takes about two seconds with its warm start."""


@pytest.fixture(scope="session")
def sandbox() -> Iterator[ProcessSandbox]:
    with open_sandbox() as opened:
        yield opened


@pytest.fixture(scope="session")
def tasks_settings() -> ListFunctions:
    return ListFunctions()


@pytest.fixture(scope="session")
def suite(tasks_settings: ListFunctions) -> Suite:
    return tasks_settings.load()


@pytest.fixture(scope="session")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose artifacts are built once for all tests that take it."""
    return tmp_path_factory.mktemp("root")
