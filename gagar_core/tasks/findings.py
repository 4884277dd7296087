"""What a check says about tasks: faults, which make a file unusable, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gagar_core.tasks.format import TaskRecord


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one task (or about the file, where ``task`` is empty)."""

    fault: bool
    task: str
    text: str

    def __str__(self) -> str:
        return f"{'FAULT' if self.fault else 'note '}  {self.task}{': ' if self.task else ''}{self.text}"


def fault(record: TaskRecord, text: str) -> Finding:
    """Something that must be put right."""
    return Finding(True, _place(record), text)


def note(record: TaskRecord, text: str) -> Finding:
    """Something that one should know."""
    return Finding(False, _place(record), text)


def gathered(findings: Sequence[Finding], shown: int = 3) -> list[str]:
    """Lines to print: equal sentences once, with the first tasks they are about."""
    places: dict[tuple[bool, str], list[str]] = {}
    for finding in sorted(findings, key=lambda f: not f.fault):
        places.setdefault((finding.fault, finding.text), []).append(finding.task)
    lines = []
    for (is_fault, text), tasks in places.items():
        more = f" and {len(tasks) - shown} more" if len(tasks) > shown else ""
        lines.append(str(Finding(is_fault, ", ".join(tasks[:shown]) + more, text)))
    return lines


def _place(record: TaskRecord) -> str:
    return f"line {record.line} {record.task.id!r}" if record.line else repr(record.task.id)
