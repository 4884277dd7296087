"""The halves of verbs that need composing, launching or watching."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from gagar_core.errors import ConfigError, check_choice, check_range, gather, noted
from sweeps.follow import follow, show_log, wait
from sweeps.ledger import Ledger, find
from sweeps.plan import Plan, build_plan
from sweeps.selection import select
from sweeps.spec import SweepSpec, find_spec, from_words, load_spec, with_words
from sweeps.state import RETRY_WORDS
from sweeps.status import Row, Status, Watcher, look_at, summary, table
from sweeps.submit import missing, submit
from sweeps.words import is_launcher_word, launcher_settings, merge, root_of


def planned(words: Sequence[str]) -> tuple[Plan, Any]:
    """The plan of ``[NAME] key=value ...`` and the launcher settings among the words."""
    names = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    launching = [word for word in overrides if is_launcher_word(word)]
    rest = [word for word in overrides if not is_launcher_word(word)]
    if len(names) > 1:
        msg = f"expected at most one spec name; got {' '.join(names)}"
        raise ConfigError(msg)
    if not names and all(word.split("=", 1)[0] in ("root", "name", "baseline", "tier") for word in rest):
        msg = "what is to run? give a spec (main, demo) or overrides (algorithm=grpo,gagar 'seed=range(3)')"
        raise ConfigError(msg)
    faults: list[str] = []
    spec = noted(faults, lambda: _spec_of(names, rest, faults))
    launcher = plan = None
    if spec is not None or not names:  # else its resources are not known
        launcher = noted(faults, lambda: with_resources(spec.resources if spec else (), launching))
    if spec is not None:
        plan = noted(faults, lambda: build_plan(spec))
    if len(faults) == 1:
        raise ConfigError(faults[0])
    gather(faults, headline="invalid sweep")
    assert plan is not None  # no fault was found
    return plan, launcher


def _spec_of(names: Sequence[str], words: Sequence[str], faults: list[str]) -> SweepSpec:
    if not names:
        return from_words(words, faults)
    _check_spec(names[0], words)
    return with_words(load_spec(find_spec(names[0])), words, faults)


def _check_spec(name: str, words: Sequence[str]) -> None:
    """A sweep of that name that was planned without a spec goes on by another verb."""
    root = root_of(words)
    if find_spec(name).exists() or find(name, root) is None:
        return
    where = "" if root == "runs" else f" root={root}"
    msg = f"{name} is a sweep in {root}, and no spec: `python -m sweeps resume {name}{where}` goes on with it"
    raise ConfigError(msg)


def with_resources(resources: Sequence[str], words: Sequence[str]) -> Any:
    """Launcher settings from a spec's resources and the words of a command line, which win.

    Resources are those of one launcher: none of them is used where the words choose another.
    """
    kinds = [
        dict(word.split("=", 1) for word in some).get("launcher", "local") for some in (resources, words)
    ]
    other = any(word.startswith("launcher=") for word in words) and kinds[0] != kinds[1]
    return launcher_settings(merge(() if other else resources, words))


def resumed(ledger: Ledger, words: Sequence[str]) -> Any:
    """Launcher settings for a sweep planned before: those of the last submission, changed by ``words``."""
    last = ledger.submissions()[-1:]
    before = last[0].intent["launcher"] if last else {}
    return launcher_settings(words, before)


def check_options(options: argparse.Namespace) -> list[str]:
    """What is to be retried; raises on faulty options, to be asked before a plan is written."""
    retry = [word for word in options.retry.split(",") if word]
    faults = [fault for word in retry for fault in check_choice("--retry", word, RETRY_WORDS)]
    faults += check_range("--max-failures", options.max_failures, 0)
    gather(faults, headline="cannot submit")
    return retry


def start(ledger: Ledger, launcher: Any, options: argparse.Namespace, selection: Sequence[str] = ()) -> int:
    """Submit what is missing (of the selected runs), then follow, wait or return."""
    retry = check_options(options)
    if ledger.is_single:
        msg = f"{ledger.path} holds single runs and no plan: `python -m experiments.run` goes on with one"
        raise ConfigError(msg)
    status = look_at(ledger)
    todo = missing(status, retry)
    limits: dict[str, Any] = {"max_failures": options.max_failures} if options.max_failures else {}
    if selection:
        chosen = {row.line["run_id"] for row in select(status.runs, selection)}
        gather([] if chosen else [f"{' '.join(selection)} fits no run"], headline="cannot resume")
        todo = [identity for identity in todo if identity in chosen]
        limits["only"] = todo
    trials = ledger.trials_asked() if ledger.is_tuning else 0
    if ledger.is_tuning and not status.at_work and not status.complete:
        _check_study(ledger)
        todo = ["trials"] * (ledger.trials_asked() - ledger.trials_ended())
    if todo:
        submission = submit(
            status,
            launcher,
            todo=len(todo),
            retry=retry,
            trials=trials,
            limits=limits,
            other_code=options.other_code,
        )
        where = f", Slurm job {submission.ack['job']}" if "job" in submission.ack else ""
        what = f"{len(todo)} of {len(status.runs)} runs to do"
        print(f"{ledger.path}: {what}; submission {submission.nonce}{where}")
    else:
        print(f"{summary(status)}; nothing to submit")
    return _attend(ledger, options)


def start_tuning(options: argparse.Namespace) -> int:
    """Start workers on a study until it has its total of trials."""
    what, *words = options.words or [""]
    launcher = launcher_settings([word for word in words if is_launcher_word(word)])
    from sweeps.tuning import build_tuning

    tuning = build_tuning(what, [word for word in words if not is_launcher_word(word)])
    ledger = tuning.write()
    ended = ledger.trials_ended()
    status = look_at(ledger)
    if not status.at_work:
        _check_study(ledger)
    if ended >= tuning.trials:
        print(f"{ledger.path}: {ended} trials have ended; give a higher trials= to go on")
    elif status.at_work:
        print(f"{ledger.path}: is being worked on; `python -m sweeps status {ledger.path}` looks")
    else:
        todo = tuning.trials - ended
        submission = submit(status, launcher, todo=todo, trials=tuning.trials, other_code=options.other_code)
        where = f", Slurm job {submission.ack['job']}" if "job" in submission.ack else ""
        print(f"{ledger.path}: up to {tuning.trials} trials; submission {submission.nonce}{where}")
    return _attend(ledger, options)


def _check_study(ledger: Ledger) -> None:
    """A damaged study, or that of another search, is refused here: a worker could only tell its log."""
    if (ledger.path / "optuna.journal").exists():
        from sweeps.study import Study

        Study(ledger)


def _attend(ledger: Ledger, options: argparse.Namespace) -> int:
    terminal = sys.stdout.isatty()
    if terminal and not options.no_follow:
        status = follow(Watcher(ledger))
    elif options.wait:
        status = wait(Watcher(ledger), say=lambda text: print(text, flush=True))
    else:
        print(f"`python -m sweeps status {ledger.path}` shows how it goes")
        return 0
    if not status.at_work and not status.complete:
        print(table(status))
    return int(options.wait and not status.complete)


def show_logs(ledger: Ledger, selection: Sequence[str], attempt: int, *, keep: bool) -> int:
    """Print the log of a run, or of the newest submission's workers."""
    if not selection:
        newest = ledger.submissions()[-1:]
        gather([] if newest else [f"{ledger.name} was never submitted"], headline="no log")
        paths = [newest[0].path / "log.txt", *sorted((newest[0].path / "slurm").glob("*_log.out"))]
        for path in [path for path in paths if path.exists()]:
            show_log(path, lambda: newest[0] not in look_at(ledger).live, keep=keep)
        return 0
    row = find_one(look_at(ledger), selection)
    number = attempt or row.look.attempt
    path = row.folder / "attempts" / str(number) / "log.txt"
    if not path.exists():
        msg = f"run {' '.join(selection)} is {row.state} and has no log of attempt {number} ({path})"
        raise ConfigError(msg)
    show_log(path, (path.parent / "exit.json").exists, keep=keep)
    return 0


def find_one(status: Status, selection: Sequence[str]) -> Row:
    """The one run (or artifact, by its digest) that a selection means."""
    name = " ".join(selection)
    found = [row for row in status.rows if row.line.get("digest", "").startswith(name)]
    found = found or select(status.runs, selection)
    if len(found) != 1:
        known = ", ".join(
            f"{row.line['run_id']} ({row.line['variant']}:{row.line['seed']})" for row in status.runs
        )
        msg = f"{name!r} names {len(found)} runs of {status.ledger.name}; there are: {known}"
        raise ConfigError(msg)
    return found[0]
