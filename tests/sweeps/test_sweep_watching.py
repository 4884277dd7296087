"""What a user sees: the live table, the doctor, and Ctrl-C, which stops the watching only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gates import CHECKOUT, run_cli
from plans import write_plan

from experiments.attempts import Attempt, create_run_folder, try_claim
from gagar_core.records import publish_once, to_json
from sweeps.follow import render, wait
from sweeps.plan_source import config_of
from sweeps.status import look_at, table


def begin(ledger_path: Path, line: dict[str, object]) -> Attempt:
    """A claim of one run."""
    from sweeps.ledger import Ledger

    folder = create_run_folder(config_of(line, Ledger(ledger_path)))
    attempt = try_claim(folder, 1)
    assert attempt is not None
    return attempt


def shown(renderable: object) -> str:
    """A rich renderable as plain text."""
    from rich.console import Console

    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_the_live_table_shows_progress_and_faults(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    running, failed, done, _ = ledger.runs
    line = {"step": 7, "steps": 60, "pass_rate": 0.5, "tokens": 41.2, "seconds": 0.25}
    begin(ledger.path, running).beat(line)
    begin(ledger.path, failed).exit("failed", "ValueError: no luck\nmore")
    publish_once(begin(ledger.path, done).folder / "result.json", to_json({}))
    text = shown(render(look_at(ledger)))
    rows = [row.split() for row in text.splitlines()]
    assert ["grpo", "0", "running", "7/60", "0.50", "41", "0.25"] in rows
    assert ["rloo", "0", "failed", "ValueError:", "no", "luck"] in rows
    assert ["grpo", "1", "done"] in rows
    assert rows[-1] == ["tiny:", "4", "runs:", "1", "done,", "1", "running,", "1", "todo,", "1", "failed"]
    assert text.index("running") < text.index("done")  # what happens now comes first


def test_a_folder_of_single_runs_can_be_looked_at_but_not_resumed(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    begin(ledger.path, ledger.runs[0])
    done = begin(ledger.path, ledger.runs[1])
    publish_once(done.folder / "result.json", to_json({}))
    (ledger.path / "sweep.json").unlink()
    (ledger.path / "plan.jsonl").unlink()
    ledger.path.rename(tmp_path / "single")
    text = run_cli("status", "single", f"root={tmp_path}").stdout
    assert text.endswith("single: 2 runs: 1 done, 1 running\n")
    assert "no plan" in run_cli("resume", "single", f"root={tmp_path}").stderr
    assert "there are: single" in run_cli("status", "x", f"root={tmp_path}").stderr


def test_where_nothing_is_mirrored_that_is_said(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    assert "no run has been begun" in run_cli("sync", "tiny", f"root={tmp_path}").stdout
    begin(ledger.path, ledger.runs[0])
    done = run_cli("sync", "tiny", f"root={tmp_path}")
    assert done.stdout == "tiny: nothing to mirror (tracking=none)\n"


def test_waiting_tells_every_change(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    attempt = begin(ledger.path, ledger.runs[0])
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        attempt.exit("ok")

    wait(lambda: look_at(ledger), say)
    assert said == ["tiny: 4 runs: 1 running, 3 todo", "tiny: 4 runs: 3 todo, 1 failed"]


def test_the_plain_table_says_what_to_do_next(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    begin(ledger.path, ledger.runs[0]).exit("killed", "ended by SIGKILL")
    begin(ledger.path, ledger.runs[1]).exit("failed", "ValueError: x")
    text = table(look_at(ledger))
    assert "ended by SIGKILL" in text
    assert f"`python -m sweeps resume {ledger.path}` runs what is missing" in text
    assert "--retry failed" in text


def test_the_doctor_checks_this_machine(tmp_path: Path) -> None:
    done = run_cli("doctor", f"root={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert "ok    torch" in done.stdout
    assert "claims work" in done.stdout
    assert "cores may be used" in done.stdout
    assert "sandbox level" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_names_a_root_that_cannot_be_used() -> None:
    done = run_cli("doctor", "root=/proc/x")
    assert done.returncode == 1
    assert "FAIL" in done.stdout
    assert "another root=" in done.stdout


@pytest.mark.slow
def test_ctrl_c_stops_following_and_nothing_else(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    words = ["submit", "algorithm=grpo", "budget=small", "tracking=none", "name=f", f"root={tmp_path}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sweeps", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=CHECKOUT,
        start_new_session=True,
    )
    os.close(theirs)
    text = ""
    while "running" not in text:
        text += os.read(ours, 4096).decode(errors="replace")
    process.send_signal(signal.SIGINT)
    while True:
        try:
            text += os.read(ours, 4096).decode(errors="replace")
        except OSError:  # the other side is closed
            break
    assert process.wait() == 0
    os.close(ours)
    assert "still at work" in text
    data = json.loads(run_cli("status", "f", f"root={tmp_path}", "--json").stdout)
    assert data["at_work"]
    run_cli("cancel", "f", f"root={tmp_path}")
    assert run_cli("wait", "f", f"root={tmp_path}").returncode == 1
