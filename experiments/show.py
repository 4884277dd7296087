"""``python -m experiments show RUN``: one group side by side, in the terminal and as a page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gagar_core.errors import GagarError, RecordsError
from gagar_core.records import RunFolder, publish

if TYPE_CHECKING:
    from rich.console import Console

_HELP = """\
Shows what one training step made of one group: the task, every program, turns and observations, tests, the
grader's ranking and evidence, quality weights, and the advantages before and after redistribution, with the
sums that stay and the numbers put into the formula. Reads the records of the run; runs nothing.

  python -m experiments show runs/single                    a run of that folder and a group worth seeing
  python -m experiments show 5ab5 --list                    steps of the run whose id begins with 5ab5
  python -m experiments show gagar:0 --step 3 --list        groups of step 3 of variant gagar, seed 0
  python -m experiments show gagar:0 --step 3 --group 41 --html group.html

RUN is a run folder, a folder of runs, an id, the beginning of one, or VARIANT:SEED; ids and variants are
looked up under root=PATH (default runs). Without --step and --group a group is chosen in which at least three
trajectories pass with different weights, if there is one; the first line says which.
"""


def main(words: Sequence[str]) -> int:
    """Show a group, or list what there is to show; raises ``GagarError`` for what cannot be found."""
    options = _parser().parse_intermixed_args(list(words))
    run_words = [word for word in options.words if not word.startswith("root=")]
    if len(run_words) != 1:
        msg = f"show takes one RUN; got {len(run_words)}: python -m experiments show runs/single"
        raise GagarError(msg)
    roots = [word.removeprefix("root=") for word in options.words if word.startswith("root=")]
    from rich.console import Console
    from rich.text import Text

    from experiments.recorded.find import find_run

    console = Console(highlight=False, soft_wrap=False)
    found = find_run(run_words[0], roots[-1] if roots else "runs")
    if found.why:
        console.print(Text(found.why, style="dim"))
    if options.list:
        return _list(console, found.run, options.step)
    return _show(console, found.run, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments show",
        usage="python -m experiments show RUN [--step S] [--group G] [--list] [--html PATH] [root=PATH]",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, metavar="S", help="training step, from 0")
    parser.add_argument("--group", type=int, metavar="G", help="id of the group, as --list shows it")
    parser.add_argument("--list", action="store_true", help="list the steps, or with --step its groups")
    parser.add_argument(
        "--html", type=Path, metavar="PATH", help="the page (default: RUN/show/step_S_group_G.html)"
    )
    parser.add_argument("--no-html", action="store_true", help="write no page")
    return parser


def _list(console: Console, run: RunFolder, step: int | None) -> int:
    from experiments.recorded.terminal import list_groups, list_steps

    if step is None:
        list_steps(console, run)
        console.print("the groups of a step: --step S --list", style="dim")
    else:
        list_groups(console, run, step)
        console.print("one of them: --step S --group G", style="dim")
    return 0


def _show(console: Console, run: RunFolder, options: argparse.Namespace) -> int:
    from rich.text import Text

    from experiments.recorded.find import choose, label
    from experiments.recorded.group import load_group
    from experiments.recorded.page import render
    from experiments.recorded.terminal import show_group
    from experiments.recorded.text import one_line

    chosen = choose(run.path, options.step, options.group)
    place = f"{label(run) or run.path.name}, step {chosen.step}, group {chosen.group_id}"
    hint = f" ({chosen.why}; another: --step S --group G, --list)" if chosen.why else ""
    console.print(Text(f"{one_line(place)}{hint}", style="dim"))
    group = load_group(run, chosen.step, chosen.group_id)
    show_group(console, group)
    if not options.no_html:
        page = options.html or run.path / "show" / f"step_{chosen.step}_group_{chosen.group_id}.html"
        _write_page(page, render(group, run))
        console.print(Text(f"page: {page}"), soft_wrap=True)
    return 0


def _write_page(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, text.encode())
    except OSError as err:
        msg = f"cannot write the page to {path}: {err}; choose another place with --html, or --no-html"
        raise RecordsError(msg) from err
