"""A run folder with groups of every kind, written with the real writer; its programs and grades are hostile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.attempts import create_run_folder
from experiments.compose import compose
from gagar_core import records
from gagar_core.agent.actions import syntax_nodes

GOOD = "def f(n):\n    return n * n * n\n"
LUCKY = "def f(n):\n    return 8\n"
HOSTILE = (
    '</pre><script>alert("x")</script> [bold red]λ[/] \x1b[31mred\x1b[0m \x07 \u202ereversed\u202c '
    + "y" * 300
    + " {{ 7 * 7 }}"
)
"""A line that ends elements, opens markup of rich and of jinja, steers a terminal, and is long."""


def trajectory(index: int, text: str, *, passed: bool, audit: int, **more: Any) -> dict[str, Any]:
    """The row and the turns of one trajectory; ``text`` is what the agent wrote before it submitted."""
    row = {
        "sample_idx": index, "task_id": "scalar/cube", "task_kind": "code", "passed": passed, "valid": True,
        "verdict": "pass" if passed else "wrong", "reward": float(passed), "reward_n": 2, "public_n": 2,
        "audit_pass": audit, "audit_n": 24, "audit_passed": passed and audit == 24, "gen_tokens": 20 + index,
        "test_runs": 0, "redundant_test_runs": 0, "edits": 0, "program_lines": len(text.splitlines()),
        "program_nodes": syntax_nodes(text), "stop_reason": "submit", "kept": True, "drop_reason": "",
        "weight": 1.0, "turns": [("agent", text + "<submit>")],
    }  # fmt: skip
    return row | more


def redistributed() -> list[dict[str, Any]]:
    """Weights 1, .55, .1 of three passes and a failure, on a centred base of .25: λ = .75 / .4125 = 20/11."""
    used = {0: 0.25 * 20 / 11, 1: 0.25 * 20 / 11 * 0.55, 2: 0.25 * 20 / 11 * 0.1}
    again = [
        ("agent", "x\n<run>"), ("env", "FAIL 1: f(2) gave [red]1[/], expected 8"),
        ("agent", "<clear>" + GOOD + "<run>"), ("env", "OK"), ("agent", "<submit>"),
    ]  # fmt: skip
    base = {"adv_base": 0.25}
    return [
        trajectory(3, HOSTILE, passed=False, audit=1, adv_base=-0.75, adv_used=-0.75),
        trajectory(1, GOOD, passed=True, audit=24, turns=again, test_runs=2, edits=1, rank=2.0, score=-1.0,
                   adv_used=used[1], weight=0.55, **base),
        trajectory(2, LUCKY, passed=True, audit=3, rank=3.0, score=-2.0, adv_used=used[2], weight=0.1, **base),
        trajectory(0, GOOD, passed=True, audit=24, rank=1.0, score=0.0, adv_used=used[0], **base),
    ]  # fmt: skip


def group(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    passes = sum(row["passed"] for row in rows)
    row = {
        "task_id": "scalar/cube", "task_kind": "code", "n": len(rows), "n_pass": passes, "kept": True,
        "drop_reason": "", "abstain": "", "fallback": "", "capped": False,
    }  # fmt: skip
    return row | more


def tied() -> list[dict[str, Any]]:
    return [
        trajectory(0, GOOD, passed=True, audit=24, rank=1.0, adv_base=0.5, adv_used=0.5),
        trajectory(1, LUCKY, passed=False, audit=3, adv_base=-0.5, adv_used=-0.5),
    ]


def dropped() -> list[dict[str, Any]]:
    return [trajectory(i, GOOD, passed=True, audit=24, kept=False, drop_reason="all_pass") for i in range(2)]


FEW_TASKS = ["tasks.sft_tasks=60", "tasks.train_tasks=60", "tasks.held_out_tasks=1"]
"""A suite that loads in no time; scalar/cube is in it."""


def make_run(root: Path, *words: str) -> Path:
    """A run folder with a redistributed, a tied, a dropped and an ungraded group, in two steps."""
    config = compose(["algorithm=gagar", "tracking=none", f"root={root}", *FEW_TASKS, *words])
    folder = create_run_folder(config)
    writer = records.RunWriter(folder, folder.name, 1, chunk_steps=1)
    _write(writer, 0, 0, tied(), {"fallback": "single pass"})
    writer.end_step()
    _write(writer, 1, 1, dropped(), {"kept": False, "drop_reason": "all_pass"})
    _write(writer, 1, 2, redistributed(), {"lambda_": 20 / 11, "positive_mass_kept": 1.0})
    _write(writer, 1, 3, tied(), {"abstain": "ValueError: [red]\x1b[2J", "fallback": "no usable grade"})
    writer.end_step()
    return folder


def _write(
    writer: records.RunWriter, step: int, group_id: int, rows: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    writer.add("groups", step, [group(rows, group_id=group_id, **more)])
    for row in rows:
        turns = row.pop("turns")
        key = {"group_id": group_id, "sample_idx": row["sample_idx"]}
        writer.add("trajectories", step, [row | key])
        said = [key | {"segment_idx": i, "role": role, "text": text} for i, (role, text) in enumerate(turns)]
        writer.add("segments", step, said)
        if "rank" in row:
            grade = {"rank": row["rank"], "evidence": f"<b>{row['rank']}</b> \x1b[5m", "is_gold": False}
            writer.add("grades", step, [key | grade])
