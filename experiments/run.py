"""One run: ``python -m experiments.run algorithm=gagar seed=0 budget=small``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig

from experiments.compose import CONF, compose, register, to_config
from experiments.help import help_text
from experiments.progress import ProgressLine
from experiments.schema import RunConfig
from gagar_core.errors import GagarError, until_reader_leaves
from gagar_core.records import RunFolder


@until_reader_leaves()
def main() -> None:
    """Entry point; faults a user can act on are printed without a traceback and end with status 2."""
    words = sys.argv[1:]
    if {"-m", "--multirun"} & set(words):
        rest = " ".join(word for word in words if word not in ("-m", "--multirun"))
        sys.exit(f"experiments.run makes one run; for many: python -m sweeps submit {rest}".rstrip())
    if {"-h", "--help"} & set(words):
        print(help_text())
        return
    if any(word.startswith("-") for word in words):  # --cfg, --info and the other flags are Hydra's own
        register()
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(_hydra_entry)()
        return
    try:
        run(compose(words))
    except GagarError as err:
        print(f"error: {err}", file=sys.stderr)
        sys.exit(2)
    except OSError as err:
        from experiments.room import disk_fault

        if not disk_fault(err):
            raise
        print(f"error: {disk_fault(err)}", file=sys.stderr)
        sys.exit(2)


def _hydra_entry(composed: DictConfig) -> None:
    run(to_config(composed))


def run(config: RunConfig) -> dict[str, Any]:
    """Execute one run in this process, or say that it is done already; returns its result."""
    from experiments.attempts import claim, create_run_folder, run_folder, running
    from experiments.room import check_room

    if not (run_folder(config) / "result.json").exists():
        check_room(run_folder(config), Path(config.root) / "artifacts")
    folder = create_run_folder(config)
    known = RunFolder(folder)
    if known.finished:
        print(f"{known.config['variant']} seed={config.seed} is already done: {folder}")
        return known.result
    live = running(folder)
    if live is not None:
        msg = f"{folder} is being run by another process (attempt {live.number}); wait for it or stop it"
        raise GagarError(msg)
    print(f"{known.config['variant']} seed={config.seed} -> {folder}")
    attempt = claim(folder, command="experiments.run")
    result = _execute(folder, attempt.number, config)
    print(_closing(result, folder))
    return result


def _execute(folder: Path, number: int, config: RunConfig) -> dict[str, Any]:
    from experiments.attempts import Attempt
    from experiments.execute import execute

    attempt = Attempt(folder, number)
    try:
        with ProgressLine() as line:
            result = execute(folder, number, line.show, config)
    except BaseException as err:
        attempt.exit("failed", f"{type(err).__name__}: {err}")
        raise
    attempt.exit("ok")
    _mirror(folder, config)
    return result


def _mirror(folder: Path, config: RunConfig) -> None:
    """Copy the run to MLflow if asked; a tracking fault is told and costs the run nothing."""
    if not hasattr(config.tracking, "uri"):
        return
    from experiments.tracking import mirror

    uri = config.tracking.uri or f"sqlite:///{Path(config.root).resolve() / 'mlflow.db'}"
    try:
        mirror([folder], uri, config.tracking.experiment or config.name)
    except GagarError as err:
        print(f"not mirrored: {err}", file=sys.stderr)


def _closing(result: dict[str, Any], folder: Path) -> str:
    if result["status"] != "finished":
        return f"{result['status']}: {result['reason']}\nrecords: {folder}"
    first, last, sampled = result["first"], result["last"], result["sampling"]
    used = 1.0 - sampled["wasted_tokens"] / max(sampled["gen_tokens"], 1)
    flags = "".join(f"\nread with care: the grader: {flag}" for flag in result["grader_flags"])
    return (
        f"held-out pass {first['held_out_pass']:.3f} (SFT) -> {last['held_out_pass']:.3f}, "
        f"audit pass {last['held_out_audit_pass']:.3f}, {last['tokens']:.0f} tokens and "
        f"{last['test_runs']:.1f} test runs per trajectory\n"
        f"trained on {sampled['groups_kept']} of {sampled['groups_sampled']} groups sampled, "
        f"{used:.0%} of the tokens generated{flags}\n"
        f"records: {folder}\nreport:  python -m analysis report {folder}"
    )


if __name__ == "__main__":
    main()
