"""Runs of other code than most are named in a report."""

from __future__ import annotations

from pathlib import Path

from analysis.cautions import _other_code
from analysis.study import FINISHED, Run, Sweep


def sweep_of(*codes: str) -> Sweep:
    """A sweep whose runs were begun with these codes."""
    runs = tuple(Run(Path(f"r{i}"), f"r{i}", "grpo", i, FINISHED, code=code) for i, code in enumerate(codes))
    return Sweep("s", Path("s"), "", None, (), "", {"grpo": tuple(range(len(codes)))}, True, runs)


def test_the_minority_is_named_and_unknown_code_is_no_fault() -> None:
    (warning,) = _other_code(sweep_of("a", "b", "a", ""))
    assert (warning["code"], warning["runs"]) == ("other_code", ["r1"])
    assert "1 runs were begun with other code (b)" in warning["text"]
    assert _other_code(sweep_of("a", "a", "")) == []
    assert _other_code(sweep_of("", "")) == []
