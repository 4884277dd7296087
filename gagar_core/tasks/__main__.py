"""``python -m gagar_core.tasks``: check files of tasks, bring benchmarks into their format, explain it."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from gagar_core.errors import GagarError, InputError, until_reader_leaves
from gagar_core.sandbox import ProcessSandbox, SandboxSettings, open_sandbox
from gagar_core.tasks import format as task_format
from gagar_core.tasks.completion import completed_within_limits
from gagar_core.tasks.fields import faults_of
from gagar_core.tasks.findings import Finding, gathered
from gagar_core.tasks.format import TaskRecord, read_tasks, to_json, to_lines
from gagar_core.tasks.importers import IMPORTERS, import_tasks
from gagar_core.tasks.structure import structure_findings
from gagar_core.tasks.trial import trial_findings
from gagar_core.types import TEST_KINDS


@until_reader_leaves()
def main(arguments: list[str] | None = None) -> int:
    """0 if the file is good, 1 if it is not."""
    options = _parser().parse_args(arguments)
    if options.command == "format":
        print(task_format.__doc__)
        return 0
    if options.command == "check":
        return check(options.file)
    return convert(options.benchmark, options.file, options.out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gagar_core.tasks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser(
        "check", help="references pass, tests discriminate, no duplicates, no leaks between splits and kinds"
    )
    one.add_argument("file", type=Path, help="tasks as JSON lines")
    two = commands.add_parser("convert", help="write the tasks of a benchmark's file in the format")
    two.add_argument("benchmark", choices=sorted(IMPORTERS), help="what the file holds")
    two.add_argument("file", type=Path, help="JSON lines or one JSON list, gzipped or not")
    two.add_argument("-o", "--out", type=Path, required=True, help="file to write")
    commands.add_parser("format", help="explain the format")
    return parser


def check(path: Path) -> int:
    """Print what is wrong with a file of tasks and what one should know about it."""
    records = read_tasks(path)
    records, broken = completed_within_limits(records, _sandbox)
    findings = [Finding(True, "", text) for text in broken]
    findings += structure_findings(records)
    findings += trial_findings([record for record in records if record.complete], _sandbox)
    for line in gathered(findings):
        print(line)
    faults = sum(finding.fault for finding in findings)
    print(f"{summary(records)}: {faults} faults, {len(findings) - faults} notes")
    return 1 if faults else 0


def convert(benchmark: str, path: Path, out: Path) -> int:
    """Write a benchmark's tasks; those whose solution gives no values are left out and named."""
    records, odd = _fitting(import_tasks(path, benchmark))
    records, broken = completed_within_limits(records, _sandbox)
    kept, late = _fitting([record for record in records if record.complete])
    for text in (*odd, *broken, *late):
        print(f"left out: {text}", file=sys.stderr)
    if not kept:
        print("nothing is left", file=sys.stderr)
        return 1
    _publish(out, to_lines(kept))
    print(f"{summary(kept)} written to {out}; next: python -m gagar_core.tasks check {out}")
    return 0


def _fitting(records: list[TaskRecord]) -> tuple[list[TaskRecord], list[str]]:
    """Those that the format can hold, and why it cannot hold the others."""
    faults = [faults_of(to_json(record)) for record in records]
    kept = [record for record, found in zip(records, faults, strict=True) if not found]
    return kept, [fault for found in faults for fault in found]


def _publish(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except OSError as err:
        aside.unlink(missing_ok=True)
        msg = f"{path} cannot be written: {err}"
        raise InputError(msg) from err


def summary(records: list[TaskRecord]) -> str:
    """Tasks by kind and split, and their tests."""
    counts = Counter(record.task.kind for record in records)
    splits = Counter(record.split for record in records if record.split)
    tests = {kind: sum(len(getattr(r.task, kind)) for r in records) for kind in TEST_KINDS}
    programs = sum(len(texts) for r in records for texts in r.task.test_programs.values())
    parts = [", ".join(f"{number} {kind} tasks" for kind, number in counts.items())]
    parts += [", ".join(f"{number} {split}" for split, number in splits.items())] if splits else []
    parts += [
        ", ".join(f"{number} {kind}" for kind, number in tests.items()) + f" cases, {programs} test programs"
    ]
    return "; ".join(parts)


def _sandbox(limits: dict[str, float]) -> ProcessSandbox:
    """Tests of a file come from people: a machine that cannot isolate them still may check them."""
    fields = {name: int(value) if name != "cpu_s" else value for name, value in limits.items()}
    return open_sandbox(SandboxSettings(allow_no_isolation=True, **fields))  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GagarError as err:
        sys.exit(str(err))
