"""The command line: ``python -m sweeps VERB NAME [key=value ...]``. Heavy imports happen inside the verbs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

from gagar_core.errors import ConfigError, GagarError, gather, until_reader_leaves
from sweeps.ledger import Ledger, find, locate
from sweeps.status import Status, Watcher, look_at, table, to_json_data
from sweeps.words import root_of

INTRO = """\
Plan, run and watch many training runs; tune settings.

  python -m sweeps submit main                        the shipped comparison, on this machine
  python -m sweeps submit algorithm=grpo,gagar 'seed=range(5)'      without a spec file
  python -m sweeps submit main launcher=slurm launcher.partition=gpu workers=8
  python -m sweeps status main                        what has become of it

VERBS (`python -m sweeps VERB --help` explains each)
  plan      show runs and artifacts of a sweep, what is done, digest, cost; changes nothing
  submit    plan + start workers that outlive the shell; again = run only what is missing
  status    state of every run with its evidence; --json for programs
  wait      return when nobody works on the sweep any more
  logs      log of a run, or of the workers
  cancel    stop the workers, or only the selected runs; what is done stays done
  resume    like submit, for a sweep that was planned before
  diff      what differs between two runs: settings, code, environment
  clean     remove what no one needs any more; prints what, removes it with --yes
  sync      mirror finished runs to MLflow; sending twice adds nothing
  tune      search settings with Optuna: tune quality_weight
  doctor    what this machine can and cannot do

WORDS
  NAME             a spec in sweeps/specs (main, demo), a .yaml file, or a sweep's folder name
  key=value        Hydra overrides, as for `python -m experiments.run`; a,b and range() sweep
  seed=0,1,2       seed blocks            name=N      sweep folder below the root
  root=PATH        where everything is written (runs)
  tier=NAME        another price of a spec's question (its tiers)
  launcher=local|slurm  launcher.FIELD=V  where workers run     workers=N   runs (or elements) at a time

SELECTING RUNS (status, resume, cancel, logs, diff, clean)
  algorithm=gagar seed<3 state=failed trainer.lr>=0.01 'variant=grpo*'     all must hold
  RUN              the beginning of an id, LABEL:SEED, or a label
"""


@until_reader_leaves()
def main(arguments: Sequence[str]) -> int:
    """Dispatch on the verb; every foreseen error is one message and exit code 2."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(INTRO)
        return 0
    verb, rest = arguments[0], list(arguments[1:])
    if verb not in VERBS:
        print(
            f"unknown verb {verb!r}; choose one of {', '.join(VERBS)} (--help explains them)", file=sys.stderr
        )
        return 2
    try:
        return VERBS[verb](rest)
    except GagarError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    except OSError as err:
        from experiments.room import disk_fault

        if not disk_fault(err):
            raise
        print(f"error: {disk_fault(err)}", file=sys.stderr)
        return 2


def _parser(verb: str, text: str, words: str = "NAME [key=value ...]") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m sweeps {verb}",
        usage=f"python -m sweeps {verb} {words} [options]",
        description=text,
        epilog="`python -m sweeps --help` explains names and words.",
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return parser


def _existing(
    words: Sequence[str], also: Callable[[str], bool] = lambda word: False
) -> tuple[Ledger, list[str]]:
    """The sweep that is named first, and the words that select runs; ``also`` are words of another kind."""
    names = [word for word in words if not word.startswith("root=") and not also(word)]
    if not names or "=" in names[0]:
        msg = "which sweep? give its NAME; root=PATH if it is not in runs/"
        raise ConfigError(msg)
    return locate(names[0], root_of(words)), names[1:]


def _whole(words: Sequence[str]) -> Ledger:
    """A sweep for a verb that takes all of it."""
    ledger, rest = _existing(words)
    if rest:
        msg = f"{' '.join(rest)}: this verb takes a whole sweep, and only root= besides its NAME"
        raise ConfigError(msg)
    return ledger


def _plan(arguments: list[str]) -> int:
    parser = _parser(
        "plan", "Show runs and artifacts of a sweep, what is done, and the cost; change nothing."
    )
    _plan_options(parser)
    options = parser.parse_intermixed_args(arguments)
    from sweeps.preview import show
    from sweeps.verbs import planned

    plan, launcher = planned(options.words)
    return show(plan.folder, plan.head, plan.lines, launcher, options)


def _plan_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable, versioned (schema_version)")
    parser.add_argument("--sbatch", action="store_true", help="with launcher=slurm: the script for sbatch")


def _submit(arguments: list[str]) -> int:
    parser = _parser(
        "submit",
        "Plan a sweep and start workers that outlive this shell. A second call runs only what is missing.",
    )
    _submit_options(parser)
    _limit_options(parser)
    options = parser.parse_intermixed_args(arguments)
    from sweeps.preview import show
    from sweeps.verbs import check_options, planned, start

    check_options(options)
    plan, launcher = planned(options.words)
    if options.dry_run:
        return show(plan.folder, plan.head, plan.lines, launcher, argparse.Namespace(json=False, sbatch=True))
    return start(plan.write(), launcher, options)


def _resume(arguments: list[str]) -> int:
    parser = _parser(
        "resume",
        "Run what is missing of a sweep planned before, or of the selected runs of it.",
        "NAME [SELECTION ...] [root=PATH] [launcher words]",
    )
    _submit_options(parser)
    _limit_options(parser)
    options = parser.parse_intermixed_args(arguments)
    from sweeps.preview import show
    from sweeps.verbs import resumed, start
    from sweeps.words import is_launcher_word

    ledger, selection = _existing(options.words, is_launcher_word)
    launcher = resumed(ledger, [word for word in options.words if is_launcher_word(word)])
    if options.dry_run:
        form = argparse.Namespace(json=False, sbatch=True)
        return show(ledger.path, ledger.head, ledger.planned, launcher, form)
    return start(ledger, launcher, options, selection)


def _limit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-failures",
        type=int,
        default=0,
        metavar="N",
        help="begin no more runs once N have failed; 0 = off",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show plan, cost and sbatch script; do nothing"
    )


def _submit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait", action="store_true", help="return when all is done; exit code 1 if not all runs are"
    )
    parser.add_argument("--no-follow", action="store_true", help="return at once, also on a terminal")
    parser.add_argument(
        "--other-code",
        action="store_true",
        help="go on with changed code; reports keep such runs apart",
    )
    parser.add_argument(
        "--retry",
        default="",
        metavar="CLASS,...",
        help="also run again what failed by itself (failed) or was cancelled by name (cancelled); "
        "what was killed, lost or skipped always is",
    )


def _status(arguments: list[str]) -> int:
    parser = _parser(
        "status",
        "State of every (or every selected) run, computed from files, with the evidence.",
        "NAME [SELECTION ...] [root=PATH]",
    )
    parser.add_argument("--json", action="store_true", help="machine-readable, versioned (schema_version)")
    parser.add_argument("--exit-code", action="store_true", help="1 unless every run is done")
    parser.add_argument("--watch", action="store_true", help="print it again at every change, until all ends")
    options = parser.parse_intermixed_args(arguments)
    ledger, selection = _existing(options.words)

    def show(status: Status) -> None:
        chosen = select(status.runs, selection) if selection else None
        data = json.dumps(to_json_data(status, chosen), indent=None if options.watch else 1)
        print(data if options.json else table(status, chosen), flush=True)

    if selection:
        from sweeps.selection import select
    if options.watch:
        from sweeps.follow import watch

        status = watch(Watcher(ledger), show)
    else:
        status = look_at(ledger)
        show(status)
    return int(options.exit_code and not status.complete)


def _wait(arguments: list[str]) -> int:
    parser = _parser(
        "wait",
        "Return when nobody works on the sweep; exit code 1 unless all runs are done.",
        "NAME [root=PATH]",
    )
    ledger = _whole(parser.parse_intermixed_args(arguments).words)
    from sweeps.follow import wait

    return int(not wait(Watcher(ledger), say=lambda text: print(text, flush=True)).complete)


def _logs(arguments: list[str]) -> int:
    parser = _parser(
        "logs", "Log of a run (an id, or LABEL:SEED), or of the newest workers.", "NAME [RUN] [root=PATH]"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the attempt ends")
    parser.add_argument("--attempt", type=int, default=0, help="which attempt (default: the newest)")
    options = parser.parse_intermixed_args(arguments)
    ledger, selection = _existing(options.words)
    from sweeps.verbs import show_logs

    return show_logs(ledger, selection, options.attempt, keep=options.follow)


def _cancel(arguments: list[str]) -> int:
    parser = _parser(
        "cancel",
        "Stop the workers of a sweep; runs in hand are ended, finished ones stay, and resume goes on. With a "
        "selection stop only those runs, or keep them from beginning: resume leaves them alone, unless with "
        "--retry cancelled.",
        "NAME [SELECTION ...] [root=PATH]",
    )
    ledger, selection = _existing(parser.parse_intermixed_args(arguments).words)
    from sweeps.cancel import cancel_runs, stop_workers

    if selection:
        done = cancel_runs(look_at(ledger), selection)
        print(
            f"{ledger.name}: told {len(done['told'])} running to stop, kept {len(done['withheld'])} from "
            f"beginning; {len(done['ended'])} had ended"
        )
        return 0
    number = stop_workers(look_at(ledger))
    print(
        f"{ledger.name}: told {number} submissions to stop" if number else f"{ledger.name}: nobody is at work"
    )
    return 0


def _sync(arguments: list[str]) -> int:
    parser = _parser(
        "sync",
        "Mirror ended runs to MLflow (tracking=mlflow); sending again adds nothing.",
        "NAME [root=PATH]",
    )
    parser.add_argument("--after-work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(arguments)
    from sweeps.finish import finish, sync

    ledger = _whole(options.words)
    return finish(ledger) if options.after_work else sync(ledger)


def _tune(arguments: list[str]) -> int:
    parser = _parser(
        "tune",
        "Search settings with Optuna: the mean held-out pass over a few seed blocks is maximised. Writes "
        "ROOT/tune_WHAT/best.yaml and trials.parquet. A second call goes on up to the total of trials.",
        "quality_weight [trials=20] [seed=0,1,2] [weighting=linear,geometric] [key=value ...]",
    )
    _submit_options(parser)
    options = parser.parse_intermixed_args(arguments)
    from sweeps.verbs import start_tuning

    return start_tuning(options)


def _doctor(arguments: list[str]) -> int:
    parser = _parser("doctor", "What this machine can and cannot do for a sweep.", "[root=PATH]")
    words = parser.parse_intermixed_args(arguments).words
    from sweeps.doctor import doctor

    gather(
        [f"{w}: the doctor takes only root=" for w in words if not w.startswith("root=")], headline="doctor"
    )
    return doctor(root_of(words))


def _diff(arguments: list[str]) -> int:
    parser = _parser(
        "diff",
        "What differs between two runs: settings, code, environment. Exit code 1 if settings or code differ.",
        "NAME RUN RUN [root=PATH], or two run folders",
    )
    parser.add_argument("--json", action="store_true", help="machine-readable, versioned (schema_version)")
    options = parser.parse_intermixed_args(arguments)
    from sweeps.diff import diff

    words = [word for word in options.words if not word.startswith("root=")]
    if len(words) == 2 and find(words[0], root_of(options.words)) is None:
        return diff(None, words, as_json=options.json)
    ledger, runs = _existing(options.words)
    return diff(ledger, runs, as_json=options.json)


def _clean(arguments: list[str]) -> int:
    parser = _parser(
        "clean",
        "Remove leftovers of a sweep: checkpoints of done runs, Slurm's pickles, torn files; with a "
        "selection, the selected runs themselves (never done ones). Prints its plan, acts with --yes.",
        "NAME [SELECTION ...] [root=PATH]",
    )
    parser.add_argument("--yes", action="store_true", help="remove what was printed")
    options = parser.parse_intermixed_args(arguments)
    from sweeps.clean import clean

    return clean(*_existing(options.words), yes=options.yes)


VERBS: dict[str, Callable[[list[str]], int]] = {
    "plan": _plan,
    "submit": _submit,
    "status": _status,
    "wait": _wait,
    "logs": _logs,
    "cancel": _cancel,
    "resume": _resume,
    "diff": _diff,
    "clean": _clean,
    "sync": _sync,
    "tune": _tune,
    "doctor": _doctor,
}
