"""The progress line of a run: a bar on a terminal, one line every tenth of the run elsewhere."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def figures(line: dict[str, Any]) -> str:
    """Pass rate, length, test runs and seconds of a step as one short text."""
    text = (
        f"pass {line['pass_rate']:.2f}  tokens {line['tokens']:.0f}  "
        f"test runs {line['test_runs']:.1f}  {line['seconds']:.2f} s/step"
    )
    if not line["groups_kept"]:
        text += "  nothing to learn from"
    held_out = line.get("held_out_pass")
    return text if held_out is None else f"{text}  held-out pass {held_out:.3f}"


class ProgressLine:
    """Shows the progress of one run; use as a context manager."""

    def __init__(self) -> None:
        self._console = Console()
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("evaluating the SFT policy", total=None)

    def __enter__(self) -> ProgressLine:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def show(self, line: dict[str, Any]) -> None:
        """Take the figures of a finished step."""
        if self._console.is_terminal:
            self._bar.update(
                self._task, total=line["steps"], completed=line["step"], description=figures(line)
            )
        elif line["step"] % max(1, line["steps"] // 10) == 0 or line["step"] == line["steps"]:
            self._console.print(f"step {line['step']}/{line['steps']}  {figures(line)}", highlight=False)
