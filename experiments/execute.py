"""Executes one claimed attempt in this process: read the configuration, train, write records and result."""

from __future__ import annotations

from pathlib import Path


def execute(folder: Path, attempt: int) -> None:
    """Run the configuration in ``folder/config.json`` as attempt number ``attempt``.

    Writes tables and, at the end, ``result.json``; the caller (the parent process) writes the exit file.
    Raises ``GagarError`` for faults a user can act on.
    """
    raise NotImplementedError  # wired with the trainer
