"""Long use leaves nothing: 600 honest and 200 hostile programs through one zygote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gagar_core.sandbox import ProcessSandbox, SandboxSettings
from gagar_core.sandbox.levels import try_level
from gagar_core.types import Program
from tests.sandbox.attacks import ATTACKS
from tests.sandbox.gauntlet import TESTS, Outside, children_of, passed, sandbox_at

SLOW = {"sleep", "c_block", "loop_without_fuel", "ignore_sig", "flood_descriptor", "diskfill_workspace"}


def footprint(sandbox: ProcessSandbox) -> dict[str, Any]:
    """What could leak, in this process and in the zygote."""
    zygote = sandbox._lanes[0].zygote
    place = Path(f"/proc/{zygote.pid}")
    return {
        "descriptors here": len(list(Path("/proc/self/fd").iterdir())),
        "descriptors of the zygote": len(list((place / "fd").iterdir())),
        "mounts": len((place / "mounts").read_text().splitlines()),
        "processes": children_of(sandbox),
        "files": list(Path(zygote.scratch).iterdir()) if zygote.scratch else [],
        "zygote": zygote.pid,
        "starts": zygote.starts,
    }


def resident_kb(sandbox: ProcessSandbox) -> int:
    status = Path(f"/proc/{sandbox._lanes[0].zygote.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


@pytest.mark.slow
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_nothing_grows(level: str) -> None:
    refused: dict[str, str] = {}
    if try_level(level, SandboxSettings(), refused) is None:
        pytest.skip(f"level {level} is not to be had here: {refused[level]}")
    outside = Outside()
    hostile = [attack for attack in ATTACKS if attack.id not in SLOW]
    with sandbox_at(level) as sandbox:

        def round_of(k: int) -> None:
            honest = [
                (Program(f"def solve(a, b): return a + b  # {k}.{j}", "solve"), TESTS) for j in range(3)
            ]
            attack = hostile[k % len(hostile)]
            attacked = (Program(outside.fill(attack.source), "solve"), TESTS)
            results = sandbox.calls_batch([honest[0], attacked, *honest[1:]])
            assert [passed(row) for row in (results[0], *results[2:])] == [len(TESTS)] * 3, attack.id
            assert attack.right != "Z" or passed(results[1]) == 0, attack.id

        for k in range(len(hostile)):
            round_of(k)
        before, resident = footprint(sandbox), resident_kb(sandbox)
        state = outside.state()
        for k in range(200):
            round_of(k)
        assert footprint(sandbox) == before
        assert resident_kb(sandbox) <= resident + 1024
        assert outside.state() == state
        assert sandbox.counters.infra == 0
    outside.close()


def test_a_zygote_is_replaced_in_time() -> None:
    settings = SandboxSettings(recycle=5, cache_mb=0, allow_no_isolation=True)
    from gagar_core.sandbox import open_sandbox

    with open_sandbox(settings) as sandbox:
        zygote = sandbox._lanes[0].zygote
        batch = [(Program(f"import os\ndef f():\n    return {k}", "f"), [()]) for k in range(12)]
        assert [row[0].value for row in sandbox.calls_batch(batch)] == list(range(12))
        assert zygote.starts == 3
