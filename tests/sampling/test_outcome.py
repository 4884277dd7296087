"""Which groups are kept, by hand."""

from __future__ import annotations

from dataclasses import replace

from gagar_core.sampling.outcome import KeepAll, MixedOnly
from gagar_core.tasks.suite import Suite
from gagar_core.types import Group, Trajectory


def groups(suite: Suite) -> list[Group]:
    plain = Trajectory(
        task_id="t", segments=(), files={}, verdict="pass", stop_reason="submit", gen_tokens=1, obs_tokens=0, turns=1,
        tool_calls=1, tool_errors=0, test_runs=0, redundant_test_runs=0, edits=0, program_lines=0, program_nodes=0,
    )  # fmt: skip
    rows = ["pass wrong", "pass pass", "error timeout", "pass infra", "pass infra wrong", "pass pass infra"]
    return [
        Group(i, suite.train[0], tuple(replace(plain, verdict=v) for v in row.split()))
        for i, row in enumerate(rows)
    ]


def test_mixed_only_looks_at_valid_trajectories(suite: Suite) -> None:
    reasons = ["", "all_pass", "all_fail", "too_few_valid", "", "all_pass"]
    assert MixedOnly().select(groups(suite)) == reasons


def test_keep_all_drops_only_what_cannot_be_compared(suite: Suite) -> None:
    assert KeepAll().select(groups(suite)) == ["", "", "", "too_few_valid", "", ""]
