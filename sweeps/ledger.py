"""The small files of one sweep folder: an immutable plan, and facts that are written once.

    sweep.json                          question, baseline, hypotheses, digest of the plan
    plan.jsonl                          one line per artifact and run, in the order in which they are taken
    code/<digest>/                      copies of the packages that workers import
    submissions/<nonce>/intent.json     what was asked for, written before anything is started
                        ack.json        what was started (process, job id)
                        cancel.json     "stop", written by whoever cancels; workers look at it
                        failed-<run>.json, halt.json   failures in it, and that they were too many
                        log.txt         output of the workers
    runs/<run_id>/                      run folders
    told/<trial>.json                   of a tuning: this trial has ended for good
    artifacts/<digest>/attempts/<k>/    attempts at building an artifact (it lies in the root itself)

No file holds a state: see ``sweeps.state``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.liveness import whoami
from experiments.room import check_room
from gagar_core.errors import ConfigError, RecordsError, check_folder_name
from gagar_core.records import SCHEMA_VERSION, publish, publish_once, read_json, to_json
from sweeps import crash

_MARKS = ("sweep.json", "runs")
"""What tells the folder of a sweep, or of single runs, from others below a root."""

PRIVATE = 0o700
"""Mode of the folders made here: a submission holds files that Slurm jobs unpickle."""


@dataclass(frozen=True)
class Submission:
    """One call of ``submit`` that started workers."""

    path: Path

    @property
    def nonce(self) -> str:
        """Its random name."""
        return self.path.name

    @cached_property
    def intent(self) -> dict[str, Any]:
        """Launcher settings and options, as asked for."""
        return dict(read_json(self.path / "intent.json"))

    @property
    def ack(self) -> dict[str, Any]:
        """What was started; empty if that is not known (yet)."""
        return _optional(self.path / "ack.json")

    @property
    def void(self) -> dict[str, Any]:
        """Why nothing was started; empty if something was, or may have been."""
        return _optional(self.path / "void.json")

    @property
    def only(self) -> frozenset[str]:
        """Runs that it was restricted to; empty means all."""
        return frozenset(self.intent.get("only", ()))

    def note_failure(self, run_id: str) -> None:
        """Write down that a run failed in this submission; at ``max_failures`` of them no more is begun."""
        publish_once(self.path / f"failed-{run_id}.json", to_json({"run_id": run_id}))
        if self.halted:
            publish_once(self.path / "halt.json", to_json({"reason": self.halted}))

    @property
    def halted(self) -> str:
        """Why no further run is begun, "" if that is not so."""
        most = int(self.intent.get("max_failures", 0))
        failed = sum(1 for _ in self.path.glob("failed-*.json")) if most else 0
        return f"{failed} runs failed and --max-failures is {most}" if most and failed >= most else ""

    @property
    def cancelled(self) -> bool:
        """Whether its workers have been told to stop."""
        return (self.path / "cancel.json").exists()

    def cancel(self) -> None:
        """Tell its workers to stop."""
        publish_once(self.path / "cancel.json", to_json(whoami()))


@dataclass(frozen=True)
class Ledger:
    """Access to one sweep folder."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return self.path.resolve().name

    @property
    def root(self) -> Path:
        """The folder that holds sweeps and artifacts."""
        return self.path.resolve().parent

    @cached_property
    def head(self) -> dict[str, Any]:
        """Content of ``sweep.json``; of a folder of single runs, which has none, what can be said of it."""
        if self.is_single:
            return {"name": self.name, "kind": "single", "plan_digest": "", "question": ""}
        head = dict(read_json(self.path / "sweep.json"))
        if head.get("schema_version") != SCHEMA_VERSION:
            msg = (
                f"{self.path} has version {head.get('schema_version')!r}; this code reads version "
                f"{SCHEMA_VERSION}: use the version of the workbench that wrote it, or give another root="
            )
            raise RecordsError(msg)
        return head

    @property
    def is_single(self) -> bool:
        """Whether nobody planned it: its runs were started one by one (``python -m experiments.run``)."""
        planned = any((self.path / name).exists() for name in ("sweep.json", "plan.jsonl"))
        return not planned and (self.path / "runs").is_dir()

    @property
    def is_tuning(self) -> bool:
        """Whether runs are asked for by a study instead of planned."""
        return self.head.get("kind") == "tuning"

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Artifacts first, then runs: as planned; where nobody planned runs, those that have been begun."""
        return [*self.planned, *self._begun()] if self.is_tuning or self.is_single else self.planned

    def _begun(self) -> list[dict[str, Any]]:
        configs = [read_json(path) for path in sorted((self.path / "runs").glob("*/config.json"))]
        keys = ("run_id", "variant", "seed")
        start = len(self.planned)
        found = [{"kind": "run", **{key: config[key] for key in keys}} for config in configs]
        return [{"index": start + number, **line} for number, line in enumerate(found)]

    @cached_property
    def planned(self) -> list[dict[str, Any]]:
        """Lines of ``plan.jsonl``."""
        path = self.path / "plan.jsonl"
        if self.is_single:
            return []
        try:
            return [json.loads(line) for line in path.read_text().splitlines()]
        except FileNotFoundError as err:
            msg = f"{path} does not exist; `python -m sweeps submit {self.name}` makes it"
            raise RecordsError(msg) from err
        except ValueError as err:
            msg = f"{path} was damaged ({err}); restore it, or submit under another name="
            raise RecordsError(msg) from err

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Lines of runs."""
        return [line for line in self.lines if line["kind"] == "run"]

    @property
    def artifacts(self) -> list[dict[str, Any]]:
        """Lines of artifacts."""
        return [line for line in self.planned if line["kind"] == "artifact"]

    def trials_asked(self) -> int:
        """Total number of trials, as last asked for."""
        last = self.submissions()[-1:]
        return int(last[0].intent["trials"]) if last else 1

    def note_trial(self, number: int) -> None:
        """Write down that a trial has ended for good, for those who watch: the journal needs Optuna."""
        (self.path / "told").mkdir(mode=PRIVATE, exist_ok=True)
        publish_once(self.path / "told" / f"{number}.json", to_json({"trial": number}))

    def trials_told(self) -> int:
        """Trials whose value, or lack of one, its workers have told so far."""
        return max(sum(1 for _ in (self.path / "told").glob("*.json")), self.trials_ended())

    def trials_ended(self) -> int:
        """Trials that have ended for good, as last reported in ``best.yaml``."""
        path = self.path / "best.yaml"
        if not path.exists():
            return 0
        import yaml

        trials = yaml.safe_load(path.read_text())["trials"]
        return int(trials["complete"]) + int(trials["failed"])

    def run_folder(self, run_id: str) -> Path:
        """Where a run lives."""
        return self.path / "runs" / run_id

    def artifact_folder(self, line: Mapping[str, Any]) -> Path:
        """Where an artifact itself is stored, shared by all sweeps of the root."""
        return self.root / "artifacts" / str(line["artifact"]) / str(line["digest"])

    def folder_of(self, line: Mapping[str, Any]) -> Path:
        """The folder whose ``attempts/`` tell about a line of the plan."""
        if line["kind"] == "run":
            return self.run_folder(line["run_id"])
        return self.path / "artifacts" / str(line["digest"])

    def is_done(self, line: Mapping[str, Any]) -> bool:
        """Whether a line of the plan has its one result."""
        if line["kind"] == "run":
            return (self.run_folder(line["run_id"]) / "result.json").exists()
        return (self.artifact_folder(line) / "done.json").exists()

    def submissions(self) -> list[Submission]:
        """All submissions, oldest first."""
        intents = (self.path / "submissions").glob("*/intent.json")
        dated = sorted((path.stat().st_mtime, path.parent) for path in intents)
        return [Submission(folder) for _, folder in dated]

    def submission(self, nonce: str) -> Submission:
        """One submission by its name."""
        return Submission(self.path / "submissions" / nonce)

    def open_submission(self, intent: Mapping[str, Any]) -> Submission:
        """Write down what is about to be started."""
        folder = self.path / "submissions" / secrets.token_hex(4)
        folder.parent.mkdir(mode=PRIVATE, exist_ok=True)
        folder.mkdir(mode=PRIVATE)
        publish_once(folder / "intent.json", to_json({**intent, "by": whoami()}))
        crash.point("intent written")
        return Submission(folder)


def create(path: Path, head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Ledger:
    """Write a plan into a sweep folder, or find the same one there; another one is refused."""
    faults = check_folder_name(str(head["name"]))
    if faults:
        raise ConfigError(faults[0])
    ledger = Ledger(path)
    content = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in lines)
    try:
        if not (path / "sweep.json").exists():
            check_room(path)
        path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if not (path / "sweep.json").exists():
            publish(path / "plan.jsonl", content.encode())  # before the head: a head promises a plan
            crash.point("plan written")
            publish_once(path / "sweep.json", to_json({"schema_version": SCHEMA_VERSION, **head}))
            crash.point("head written")
    except OSError as err:
        msg = f"cannot write to {path}: {err.strerror or err}; give another root="
        raise RecordsError(msg) from err
    if ledger.head["plan_digest"] != head["plan_digest"]:
        msg = (
            f"{path} already holds another plan ({ledger.head['plan_digest']}; this one is "
            f"{head['plan_digest']}): plans do not change once submitted. Give name=OTHER or root=OTHER, or "
            f"`python -m sweeps resume {ledger.name}` to go on with the old one"
        )
        raise ConfigError(msg)
    return ledger


def locate(name: str, root: str) -> Ledger:
    """The sweep called ``name`` in ``root`` (or at the path ``name``); ``RecordsError`` if there is none."""
    found = find(name, root)
    if found is None:
        path = _path_of(name, root)
        if (path / "plan.jsonl").exists():
            msg = f"{path} was not planned to its end: `python -m sweeps submit` it again, in the same words"
            raise RecordsError(msg)
        known = sorted({p.parent.name for part in _MARKS for p in Path(root).glob(f"*/{part}")})
        there = ", ".join(known) or "none"
        msg = f"no sweep {name!r} in {root}; there are: {there} (root=PATH looks elsewhere)"
        raise RecordsError(msg)
    return found


def find(name: str, root: str) -> Ledger | None:
    """The sweep called ``name`` in ``root`` (or at the path ``name``), or single runs there."""
    ledger = Ledger(_path_of(name, root))
    return ledger if (ledger.path / "sweep.json").exists() or ledger.is_single else None


def _path_of(name: str, root: str) -> Path:
    return Path(name) if "/" in name else Path(root) / name


def _optional(path: Path) -> dict[str, Any]:
    return dict(read_json(path)) if path.exists() else {}
