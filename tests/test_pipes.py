"""A reader that has seen enough (``| head``) is no fault: every command ends quietly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gagar_core.errors import until_reader_leaves

ROOT = Path(__file__).parent.parent
COMMANDS = (
    "experiments.run --help",
    "sweeps --help",
    "sweeps submit --help",
    "analysis --help",
    "gagar_core.tasks format",
    "gagar_core.sandbox --help",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_pipe_ends_a_command_quietly(command: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", *command.split()], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()  # long before anything is printed
    _, said = process.communicate()
    assert (process.returncode, said) == (0, b"")


def test_other_faults_and_results_pass_through() -> None:
    @until_reader_leaves()
    def command(fault: type[BaseException] | None) -> int:
        if fault:
            raise fault
        return 3

    assert command(None) == 3
    with pytest.raises(ValueError):
        command(ValueError)
    with pytest.raises(SystemExit):
        command(SystemExit)
