"""The command line: ``python -m sweeps VERB NAME [key=value ...]``. Heavy imports happen inside the verbs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

from gagar_core.errors import ConfigError, GagarError
from sweeps.ledger import Ledger, locate
from sweeps.status import Watcher, look_at, table, to_json_data

INTRO = """\
Plan, run and watch many training runs; tune settings.

  python -m sweeps submit main                        the shipped comparison, on this machine
  python -m sweeps submit algorithm=grpo,gagar 'seed=range(5)'      without a spec file
  python -m sweeps submit main launcher=slurm launcher.partition=gpu workers=8
  python -m sweeps status main                        what has become of it

VERBS (`python -m sweeps VERB --help` explains each)
  plan      show runs and artifacts of a sweep, what is done, the digest; changes nothing
  submit    plan + start workers that outlive the shell; again = run only what is missing
  status    state of every run with its evidence; --json for programs
  wait      return when nobody works on the sweep any more
  logs      log of a run, or of the workers
  cancel    stop the workers; what is done stays done
  resume    like submit, for a sweep that was planned before
  sync      mirror finished runs to MLflow; sending twice adds nothing
  tune      search settings with Optuna: tune quality_weight
  doctor    what this machine can and cannot do

WORDS
  NAME             a spec in sweeps/specs (main, demo), a .yaml file, or a sweep's folder name
  key=value        Hydra overrides, as for `python -m experiments.run`; a,b and range() sweep
  seed=0,1,2       seed blocks            name=N      sweep folder below the root
  root=PATH        where everything is written (runs)
  launcher=local|slurm  launcher.FIELD=V  where workers run     workers=N   runs (or elements) at a time
"""


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
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        return 0


def _parser(verb: str, text: str, words: str = "NAME [key=value ...]") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m sweeps {verb}",
        usage=f"python -m sweeps {verb} {words} [options]",
        description=text,
        epilog="`python -m sweeps --help` explains names and words.",
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return parser


def _split(words: Sequence[str]) -> tuple[str, list[str]]:
    """Name ("" if there is none) and override words."""
    names = [word for word in words if "=" not in word]
    if len(names) > 1 or (names and words[0] != names[0]):
        msg = f"expected one NAME before key=value words; got {' '.join(words)}"
        raise ConfigError(msg)
    return (names[0] if names else ""), [word for word in words if "=" in word]


def _root(words: Sequence[str], allowed: Sequence[str] = ("root",)) -> str:
    """The value of ``root=``; other words are refused."""
    unknown = [word for word in words if word.split("=", 1)[0] not in allowed]
    if unknown:
        msg = f"{' '.join(unknown)}: a planned sweep takes only {', '.join(f'{a}=' for a in allowed)} here"
        raise ConfigError(msg)
    return next((word.split("=", 1)[1] for word in words if word.startswith("root=")), "runs")


def _existing(words: Sequence[str]) -> Ledger:
    name, overrides = _split(words)
    if not name:
        msg = "which sweep? give its NAME; root=PATH if it is not in runs/"
        raise ConfigError(msg)
    return locate(name, _root(overrides))


def _plan(arguments: list[str]) -> int:
    parser = _parser("plan", "Show runs and artifacts of a sweep and what is done; change nothing.")
    words = parser.parse_intermixed_args(arguments).words
    from sweeps.verbs import planned

    plan, _ = planned(words)
    known = Ledger(plan.folder)
    for line in plan.lines:
        done = "done" if known.is_done(line) else ""
        name = line.get("run_id", line.get("digest"))
        what = line["variant"] or f"artifact {line['artifact']}"
        print(f"{line['index']:4d}  {name}  seed {line['seed']:<4d} {done:5s} {what}")
    runs = sum(line["kind"] == "run" for line in plan.lines)
    print(f"{plan.folder}: {runs} runs, {len(plan.lines) - runs} artifacts; plan {plan.head['plan_digest']}")
    return 0


def _submit(arguments: list[str]) -> int:
    parser = _parser(
        "submit",
        "Plan a sweep and start workers that outlive this shell. A second call runs only what is missing.",
    )
    _submit_options(parser)
    options = parser.parse_intermixed_args(arguments)
    from sweeps.verbs import planned, start

    plan, launcher = planned(options.words)
    return start(plan.write(), launcher, options)


def _resume(arguments: list[str]) -> int:
    parser = _parser(
        "resume", "Run what is missing of a sweep planned before. Takes root=, workers= and launcher words."
    )
    _submit_options(parser)
    options = parser.parse_intermixed_args(arguments)
    from sweeps.verbs import resumed, start

    ledger, launcher = resumed(*_split(options.words))
    return start(ledger, launcher, options)


def _submit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait", action="store_true", help="return when all is done; exit code 1 if not all runs are"
    )
    parser.add_argument("--no-follow", action="store_true", help="return at once, also on a terminal")
    parser.add_argument(
        "--retry",
        default="",
        metavar="failed",
        help="also run again what failed by itself (killed and lost runs always are)",
    )


def _status(arguments: list[str]) -> int:
    parser = _parser(
        "status", "State of every run, computed from files, with the evidence.", "NAME [root=PATH]"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable, versioned (schema_version)")
    parser.add_argument("--exit-code", action="store_true", help="1 unless every run is done")
    options = parser.parse_intermixed_args(arguments)
    status = look_at(_existing(options.words))
    print(json.dumps(to_json_data(status), indent=1) if options.json else table(status))
    return int(options.exit_code and not status.complete)


def _wait(arguments: list[str]) -> int:
    parser = _parser(
        "wait",
        "Return when nobody works on the sweep; exit code 1 unless all runs are done.",
        "NAME [root=PATH]",
    )
    ledger = _existing(parser.parse_intermixed_args(arguments).words)
    from sweeps.follow import wait

    return int(not wait(Watcher(ledger), say=lambda text: print(text, flush=True)).complete)


def _logs(arguments: list[str]) -> int:
    parser = _parser(
        "logs", "Log of a run (an id, or LABEL:SEED), or of the newest workers.", "NAME [RUN] [root=PATH]"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the attempt ends")
    parser.add_argument("--attempt", type=int, default=0, help="which attempt (default: the newest)")
    options = parser.parse_intermixed_args(arguments)
    names = [word for word in options.words if "=" not in word or ":" in word]
    ledger = _existing([*names[:1], *(word for word in options.words if word not in names)])
    from sweeps.verbs import show_logs

    return show_logs(ledger, names[1] if len(names) > 1 else "", options.attempt, keep=options.follow)


def _cancel(arguments: list[str]) -> int:
    parser = _parser(
        "cancel",
        "Stop the workers of a sweep; runs in hand are ended, finished ones stay.",
        "NAME [root=PATH]",
    )
    ledger = _existing(parser.parse_intermixed_args(arguments).words)
    from sweeps.submit import cancel

    number = cancel(look_at(ledger))
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

    ledger = _existing(options.words)
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

    return doctor(_root(words))


VERBS: dict[str, Callable[[list[str]], int]] = {
    "plan": _plan,
    "submit": _submit,
    "status": _status,
    "wait": _wait,
    "logs": _logs,
    "cancel": _cancel,
    "resume": _resume,
    "sync": _sync,
    "tune": _tune,
    "doctor": _doctor,
}
