"""The puller over a real plan with real child processes; only what a run computes is a double."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gates import Gate
from plans import begun, finish, recorder, write_plan

from experiments.liveness import start_ticks
from gagar_core.errors import StoppedError
from gagar_core.records import read_json
from sweeps.jobs import Job
from sweeps.ledger import Ledger
from sweeps.plan_source import MAX_LOST, PlanSource
from sweeps.puller import Puller
from sweeps.status import status_of
from sweeps.submit import missing


def pull(
    ledger: Ledger, nonce: str, perform: Callable[[Job], None], slots: int = 1, **options: object
) -> dict[str, int]:
    """Work a plan off in this process; returns how many jobs ended how."""
    retry = options.pop("retry", ())
    source = PlanSource(ledger, nonce, retry=retry)  # type: ignore[arg-type]
    return dict(Puller(source, slots, perform, say=lambda text: None, **options).work())  # type: ignore[arg-type]


def exit_of(ledger: Ledger, identity: str, attempt: int = 1) -> dict[str, Any]:
    """The exit file of an attempt at a run."""
    return dict(read_json(ledger.run_folder(identity) / "attempts" / str(attempt) / "exit.json"))


def on(identity: str, then: Callable[[], None]) -> Callable[[Job], None]:
    """A job that does ``then`` if it is the one named, else finishes."""
    return lambda job: then() if job.identity == identity else finish(job)


def boom() -> None:
    raise ValueError("no such luck")


def stopped() -> None:
    raise StoppedError("after step 3")


def test_everything_is_done_once_artifacts_first(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    log = tmp_path / "begun"
    assert pull(ledger, "a", recorder(log), slots=2) == {"ok": 6}
    seen = begun(log)
    assert {kind for kind, _, _ in seen[:2]} == {"artifact"}
    assert sorted(seen) == sorted(
        (line["kind"], line.get("run_id") or line["digest"], 1) for line in ledger.lines
    )
    assert pull(ledger, "b", recorder(log)) == {}
    assert len(begun(log)) == 6
    ended = exit_of(ledger, ledger.runs[0]["run_id"])
    assert ended["status"] == "ok"
    assert ended["cpu_s"] > 0
    assert ended["max_rss_mb"] > 1


@pytest.mark.parametrize(
    ("then", "status", "reason"),
    [
        (boom, "failed", "ValueError: no such luck"),
        (lambda: os._exit(9), "failed", "exit code 9"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed", "ended by SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "failed", "ended by SIGSEGV"),
        (lambda: sys.exit("bye"), "failed", "SystemExit: bye"),
        (stopped, "killed", "StoppedError: after step 3"),
    ],
)
def test_one_bad_end_is_recorded_and_the_others_go_on(
    tmp_path: Path, then: Callable[[], None], status: str, reason: str
) -> None:
    ledger = write_plan(tmp_path)
    bad = ledger.runs[1]["run_id"]
    assert pull(ledger, "a", on(bad, then)) == {"ok": 5, status: 1}
    ended = exit_of(ledger, bad)
    assert (ended["status"], ended["reason"]) == (status, reason)
    assert [row.state for row in status_of(ledger).runs] == ["done", status, "done", "done"]


def test_the_traceback_and_all_output_are_in_the_log_of_the_attempt(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    bad = ledger.runs[0]["run_id"]

    def talk() -> None:
        print("on standard output")
        os.write(2, b"on standard error\n")
        boom()

    pull(ledger, "a", on(bad, talk))
    text = (ledger.run_folder(bad) / "attempts/1/log.txt").read_text()
    for part in ("on standard output", "on standard error", "Traceback", "ValueError: no such luck"):
        assert part in text


def test_a_second_submission_takes_what_is_missing_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    failed, killed, *done = (line["run_id"] for line in ledger.runs)

    def perform(job: Job) -> None:
        if job.identity == failed:
            boom()
        if job.identity == killed:
            os.kill(os.getpid(), signal.SIGKILL)
        finish(job)

    pull(ledger, "a", perform)
    results = [ledger.run_folder(run) / "result.json" for run in done]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in results]
    log = tmp_path / "begun"
    assert pull(ledger, "b", recorder(log)) == {"ok": 1}
    assert begun(log) == [("run", killed, 2)]
    assert pull(ledger, "c", recorder(log), retry=("failed",)) == {"ok": 1}
    assert begun(log)[1:] == [("run", failed, 2)]
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in results] == before
    assert status_of(ledger).complete


def test_within_one_submission_nothing_is_tried_again(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    killed = ledger.runs[0]["run_id"]
    suicide = on(killed, lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert pull(ledger, "a", suicide) == {"ok": 5, "killed": 1}
    assert pull(ledger, "a", finish) == {}


def test_runs_whose_artifact_failed_are_blocked_and_say_so(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    bad = ledger.artifacts[0]["digest"]
    assert pull(ledger, "a", on(bad, boom), slots=2) == {"ok": 3, "failed": 1}
    rows = status_of(ledger).runs
    assert [row.state for row in rows] == ["blocked", "blocked", "done", "done"]
    assert bad in rows[0].look.evidence
    assert missing(status_of(ledger)) == []
    assert len(missing(status_of(ledger), ["failed"])) == 2
    assert pull(ledger, "b", finish, retry=("failed",)) == {"ok": 3}


def test_killing_the_puller_loses_only_the_run_in_hand(tmp_path: Path, gate: Gate) -> None:
    ledger = write_plan(tmp_path)
    puller = gate.puller(ledger.path, "a")
    for _ in range(3):  # two artifacts and a run pass
        gate.next()
        gate.open()
    held = gate.next()
    puller.kill()
    puller.communicate()
    assert _gone(held.pid)  # a run does not outlive its puller
    states = [row.state for row in status_of(ledger).runs]
    assert states == ["done", "lost", "todo", "todo"]
    log = tmp_path / "begun"
    assert pull(ledger, "b", recorder(log)) == {"ok": 3}
    assert begun(log)[0] == ("run", held.identity, 2)
    assert status_of(ledger).complete
    ended = exit_of(ledger, held.identity)
    assert (ended["status"], ended["settled_by"]) == ("killed", "b")


def _gone(pid: int) -> bool:
    """Wait for a process that is not our child to end (a pidfd becomes readable then)."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    ended = bool(poll.poll(20_000))
    os.close(handle)
    return ended and start_ticks(pid) == 0


def test_killing_a_run_loses_only_that_run(tmp_path: Path, gate: Gate) -> None:
    ledger = write_plan(tmp_path)
    puller = gate.puller(ledger.path, "a")
    for _ in range(2):
        gate.next()
        gate.open()
    victim = gate.next()
    handle = os.pidfd_open(victim.pid)
    os.kill(victim.pid, signal.SIGKILL)
    select.select([handle], [], [])  # dead for sure, or it might still take a byte meant for the others
    os.close(handle)
    gate.open(3)
    output, _ = puller.communicate()
    assert output.endswith("{'ok': 5, 'killed': 1}\n")
    assert exit_of(ledger, victim.identity)["reason"] == "ended by SIGKILL"


def test_two_pullers_share_the_runs_and_take_each_once(tmp_path: Path, gate: Gate) -> None:
    ledger = write_plan(tmp_path, seeds=4)
    pullers = [gate.puller(ledger.path, "a", slots=2) for _ in range(2)]
    gate.open(len(ledger.lines))
    seen = [gate.next() for _ in ledger.lines]
    for puller in pullers:
        puller.communicate()
    assert len({job.identity for job in seen}) == len(ledger.lines)
    assert {job.attempt for job in seen} == {1}
    assert status_of(ledger).complete


def test_a_run_that_kills_its_workers_is_given_up(tmp_path: Path, gate: Gate) -> None:
    ledger = write_plan(tmp_path, seeds=[0], factors={"list": ["algorithm=grpo"]})
    for number in range(MAX_LOST):
        puller = gate.puller(ledger.path, "a")
        if number == 0:
            gate.next()  # the artifact
            gate.open()
        assert gate.next().attempt == number + 1
        puller.kill()
        puller.communicate()
    assert pull(ledger, "a", finish) == {}
    assert [row.state for row in status_of(ledger).runs] == ["lost"]
    assert pull(ledger, "b", finish) == {"ok": 1}


def test_a_stop_ends_the_runs_in_hand_and_gives_the_reason(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    started = tmp_path / "begun"

    def hang(job: Job) -> None:
        if job.kind == "run":
            signal.pause()
        finish(job)

    def stop() -> str:
        return "cancelled" if any(kind == "run" for kind, _, _ in begun(started)) else ""

    assert pull(ledger, "a", recorder(started, hang), stop=stop) == {"ok": 2, "killed": 1}
    row = status_of(ledger).runs[0]
    assert (row.state, row.look.evidence) == ("killed", "cancelled")


def test_a_signal_to_worker_and_run_alike_has_the_reason_of_the_worker(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    bad = ledger.runs[0]["run_id"]
    told = tmp_path / "told"

    def die(job: Job) -> None:
        if job.identity == bad:
            told.touch()
            os.kill(os.getpid(), signal.SIGTERM)
        finish(job)

    def stop() -> str:
        return "cancelled" if told.exists() else ""

    assert pull(ledger, "a", die, stop=stop)["killed"] == 1
    assert exit_of(ledger, bad)["reason"] == "cancelled"


def test_what_a_run_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path, seeds=[0], factors={"list": ["algorithm=grpo"]})
    child_file = tmp_path / "grandchild"

    def fork_and_finish(job: Job) -> None:
        if job.kind == "run":
            child = os.fork()
            if child == 0:
                signal.pause()
            child_file.write_text(str(child))
        finish(job)

    assert pull(ledger, "a", fork_and_finish) == {"ok": 2}
    assert _gone(int(child_file.read_text()))


def test_slots_share_out_the_visible_devices(tmp_path: Path) -> None:
    ledger = write_plan(tmp_path)
    devices = tmp_path / "devices"

    def perform(job: Job) -> None:
        with devices.open("a") as stream:
            stream.write(os.environ["CUDA_VISIBLE_DEVICES"] + "\n")
        finish(job)

    pull(ledger, "a", perform, slots=2, gpus=("4", "6"))
    assert set(devices.read_text().split()) == {"4", "6"}


def test_a_spawned_run_reports_like_a_forked_one(tmp_path: Path) -> None:
    """Spawned children import the real ``perform``; a plan of other code gives a real fault."""
    ledger = write_plan(tmp_path, seeds=[0], factors={"list": ["algorithm=grpo"]})
    pull(ledger, "a", lambda job: finish(job) if job.kind == "artifact" else boom())
    run = ledger.runs[0]["run_id"]
    config = json.loads((ledger.run_folder(run) / "config.json").read_text())
    config["config"]["loss"]["kind"] = "no_such_loss"
    (ledger.run_folder(run) / "config.json").write_text(json.dumps(config))
    assert pull(ledger, "b", finish, retry=("failed",), spawn=True) == {"failed": 1}
    assert exit_of(ledger, run, 2)["reason"].startswith("ConfigError: unknown loss 'no_such_loss'")
