"""Two resumers (and a canceller) interleaved operation by operation, on a fake clock and in fake places."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import event, given, settings
from hypothesis import strategies as st
from plans import write_plan

from experiments.attempts import Attempt
from gagar_core.records import publish_once, read_json, to_json
from sweeps.cancel import _cancel_run
from sweeps.jobs import WAIT, Job, JobResult
from sweeps.ledger import Ledger
from sweeps.plan_source import PlanSource
from sweeps.state import look
from sweeps.status import Row

PATIENCE_S = 60.0
"""For a hand-over between threads; only a deadlock takes as long."""

SLOW = 100.0
"""Seconds for which a paused owner gives no sign of life; more than any grace."""

STEPS = ("link", "rename", "stat", "mkdir", "scandir", "unlink")
"""Operations of the file system between which another resumer may act."""


@dataclass
class Actor:
    """One resumer: a thread that acts only when it is its turn."""

    name: str
    host: str
    fates: list[str]
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    living: bool = True
    ended: bool = False
    paused: bool = False
    holds: Attempt | None = None
    fault: BaseException | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Who it is, for claims."""
        return {"host": self.host, "pid": self.name, "place": self.host, "pid_start": 1}


class World:
    """A clock, signs of life, and whose turn it is."""

    def __init__(self, schedule: int) -> None:
        self.now = 1000.0
        self.touched: dict[Path, float] = {}
        self.actors: dict[int, Actor] = {}
        self.by_name: dict[str, Actor] = {}
        self.executions: Counter[str] = Counter()
        self.mishaps: Counter[str] = Counter()
        self.results: dict[Path, bytes] = {}
        self._schedule = random.Random(schedule)
        self._back = threading.Semaphore(0)

    def me(self) -> Actor | None:
        """The actor of this thread."""
        return self.actors.get(threading.get_ident())

    def turn(self) -> None:
        """Hand over to the scheduler and wait to be chosen again."""
        actor = self.me()
        if actor is not None:
            self._back.release()
            assert actor.go.acquire(timeout=PATIENCE_S)

    def advance(self, seconds: float) -> None:
        """Time passes; owners that live and are not paused give signs of life meanwhile."""
        self.now += seconds
        for actor in self.by_name.values():
            if actor.living and not actor.paused and actor.holds is not None:
                self.touched[actor.holds.path / "beat"] = self.now

    def age(self, path: Path, now: float) -> float:
        """Seconds since a sign of life."""
        return now - self.touched.setdefault(path, self.now)

    def alive(self, owner: dict[str, Any]) -> bool | None:
        """What can be proved from where the asking actor is."""
        asking = self.me()
        if asking is None or asking.host != owner["place"]:
            return None
        return self.by_name[owner["pid"]].living

    def run(self, actors: list[Actor], body: Callable[[Actor], None]) -> None:
        """Let the actors act in turns, as the schedule says, until all have ended."""
        threads = [threading.Thread(target=self._live, args=(actor, body), daemon=True) for actor in actors]
        self.by_name |= {actor.name: actor for actor in actors}
        for thread in threads:
            thread.start()
        while True:
            waiting = [actor for actor in actors if not actor.ended]
            if not waiting:
                break
            chosen = self._schedule.choice(waiting)
            chosen.go.release()
            assert self._back.acquire(timeout=PATIENCE_S), f"{chosen.name} does not come back"
        for actor in actors:
            if actor.fault is not None:
                raise actor.fault

    def _live(self, actor: Actor, body: Callable[[Actor], None]) -> None:
        self.actors[threading.get_ident()] = actor
        assert actor.go.acquire(timeout=PATIENCE_S)
        try:
            body(actor)
        except BaseException as err:
            actor.fault = err
        actor.ended, actor.living, actor.holds = True, False, None
        del self.actors[threading.get_ident()]
        self._back.release()


@contextmanager
def faked(world: World) -> Iterator[None]:
    """Put the world's clock, places and turns under the real code."""

    def stepped(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            world.turn()
            return original(*args, **options)

        return step

    def who() -> dict[str, Any]:
        actor = world.me()
        return actor.facts if actor else {"host": "setup", "pid": "setup", "place": "setup", "pid_start": 1}

    patches = [patch.object(os, name, stepped(getattr(os, name))) for name in STEPS]
    patches += [
        patch("os.fsync", lambda descriptor: None),
        patch("experiments.attempts.whoami", who),
        patch("sweeps.cancel.whoami", who),
        patch("sweeps.state.alive", world.alive),
        patch("sweeps.state.age", world.age),
        patch("sweeps.plan_source.age", world.age),
        patch("sweeps.plan_source.file_time", lambda folder: world.now),
    ]
    for item in patches:
        item.start()
    try:
        yield
    finally:
        for item in reversed(patches):
            item.stop()


def resumer(world: World, ledger: Ledger, actor: Actor) -> None:
    """What a worker does, without training: claim, execute (or pause, or die), publish, end."""
    source = PlanSource(ledger, actor.name, retry=("failed",))
    for _ in range(200):
        job = source.next()
        if job is None:
            return
        if job is WAIT:
            world.advance(10.0)
            world.turn()
            continue
        assert isinstance(job, Job)
        if not execute(world, actor, job):
            return
        source.report(job, JobResult("ok"))
    msg = f"{actor.name} waits for ever"
    raise AssertionError(msg)


def execute(world: World, actor: Actor, job: Job) -> bool:
    """One execution; False if the actor died in it."""
    world.executions[job.identity] += 1
    actor.holds = job.attempt
    world.turn()
    fate = actor.fates.pop() if actor.fates else "ok"
    if fate != "ok":
        world.mishaps[job.identity] += 1
    if fate == "die":
        actor.living = False
        return False
    if fate == "pause":
        actor.paused = True
        world.advance(SLOW)
        for _ in range(30):
            world.turn()
        actor.paused = False
    run = job.attempt.folder
    newer = [
        int(p.name)
        for p in (run / "attempts").iterdir()
        if p.name.isdigit() and int(p.name) > job.attempt.number
    ]
    if not newer:
        content = to_json({"attempt": job.attempt.number, "by": actor.name})
        if publish_once(run / "result.json", content):
            assert run not in world.results
            world.results[run] = content
    job.attempt.exit("ok")
    actor.holds = None
    return True


def cancel(world: World, ledger: Ledger) -> str:
    """Look at a run, as it is at some moment, and cancel it."""
    line = ledger.runs[0]
    folder = ledger.folder_of(line)
    row = Row(line, folder, look(folder, world.now))
    world.turn()
    return _cancel_run(ledger, row)


FATES = st.lists(st.sampled_from(["ok", "pause", "die"]), max_size=3)


@contextmanager
def planned() -> Iterator[Ledger]:
    """Two runs whose artifact is there, in a folder of their own."""
    folder = Path(tempfile.mkdtemp())
    try:
        ledger = write_plan(folder, seeds=[0])
        for line in ledger.artifacts:
            ledger.artifact_folder(line).mkdir(parents=True)
            (ledger.artifact_folder(line) / "done.json").write_text("{}")
        yield ledger
    finally:
        shutil.rmtree(folder)


def actors(fates: tuple[list[str], list[str]], same_host: bool) -> list[Actor]:
    """Two resumers, on one host or on two."""
    hosts = ("a", "a" if same_host else "b")
    return [Actor(f"first {i}", hosts[i], list(fates[i])) for i in range(2)]


@given(schedule=st.integers(0, 2**32), fates=st.tuples(FATES, FATES), same_host=st.booleans())
@settings(max_examples=40, deadline=None)
def test_two_resumers_never_give_a_run_two_results(
    schedule: int, fates: tuple[list[str], list[str]], same_host: bool
) -> None:
    with planned() as ledger:
        world = World(schedule)
        with faked(world):
            world.run(actors(fates, same_host), lambda actor: resumer(world, ledger, actor))
            world.advance(SLOW)
            world.run([Actor("last", "c", [])], lambda actor: resumer(world, ledger, actor))
        event(f"mishaps {sum(world.mishaps.values())}")
        for line in ledger.runs:
            run = ledger.run_folder(line["run_id"])
            assert (run / "result.json").read_bytes() == world.results[run]
            assert world.executions[line["run_id"]] <= 1 + world.mishaps[line["run_id"]]
            claims = [read_json(path) for path in (run / "attempts").glob("[0-9]*/claim.json")]
            assert len(claims) == world.executions[line["run_id"]]


@given(schedule=st.integers(0, 2**32), fates=st.tuples(FATES, FATES), same_host=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_cancelled_run_has_its_result_or_stays_cancelled(
    schedule: int, fates: tuple[list[str], list[str]], same_host: bool
) -> None:
    with planned() as ledger:
        world = World(schedule)
        answers: list[str] = []

        def body(actor: Actor) -> None:
            if actor.name == "canceller":
                answers.append(cancel(world, ledger))
            else:
                resumer(world, ledger, actor)

        with faked(world):
            world.run([*actors(fates, same_host), Actor("canceller", "d", [])], body)
            world.advance(SLOW)
            world.run([Actor("last", "c", [])], body)
            cancelled, other = (ledger.run_folder(line["run_id"]) for line in ledger.runs)
            found = look(cancelled, world.now)
        event(answers[0])
        assert (other / "result.json").exists()
        assert (cancelled / "result.json").exists() or found.state == "cancelled"
        assert (cancelled in world.results) == (cancelled / "result.json").exists()
        claims = list((cancelled / "attempts").glob("[0-9]*/claim.json"))
        withheld = sum(1 for path in claims if "command" in read_json(path))
        assert len(claims) == world.executions[cancelled.name] + withheld
        assert answers[0] != "withheld" or withheld == 1
