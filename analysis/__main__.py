"""``python -m analysis``: reports on folders of runs. Reads files only; see ``--help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gagar_core.errors import GagarError, until_reader_leaves

OK, FAULT, NOTHING_FINISHED = 0, 2, 3

_HELP = """\
Reads run folders and says what they show: with intervals, n, and the names of the runs that died.

  python -m analysis report runs/main                      one sweep: report.json, report.html, figures
  python -m analysis report runs                           every sweep below a root
  python -m analysis report runs --compare grpo gagar      two variants, of one sweep or of two
  python -m analysis plot runs/main --figure pareto        figures only
  python -m analysis explain pareto runs/main              the runs and the formula behind it
  python -m analysis table runs/main --what comparisons    part of it, in the terminal
  python -m analysis calibrate runs/main                   how far these comparisons can be trusted
  python -m analysis graders runs                          accuracy of the graders judged below a root
"""

_REPORT_HELP = """\
Writes PATH/report/report.json (every number with unit, n used / n planned, interval or the reason for none,
policy for dead runs, and the runs it came from), report.html (one file, no network needed), report.md and
figures/. A sweep may still be running: the report then says that the planned n is not reached.

Exit status: 0 written; 2 nothing could be read or written (one message says why); 3 written, but no run has
finished, so the tables are empty.
"""

_PLOT_HELP = """\
Writes figures as PNG and SVG without the rest of the report.

  python -m analysis plot runs/main --figure pareto --figure learning
"""

_EXPLAIN_HELP = """\
Says how a figure or a number is computed, at which step, from which runs, and what each run contributed.

  python -m analysis explain pareto runs/main
  python -m analysis explain held_out_pass runs/main/report/report.json
"""

_TABLE_HELP = """\
Prints a part of a report. PATH is a root, a sweep, a run, or a report.json written before.

  python -m analysis table runs/main
  python -m analysis table runs/main --what verdicts
  python -m analysis table runs/main --what runs --metric held_out_pass --metric tokens --format csv
"""

_CALIBRATE_HELP = """\
Tests the comparison itself on the runs at PATH: how often it finds a difference where there is none (runs of
one variant against each other; pooled differences with random signs), and how often it finds a planted one at
the planned number of seeds.
"""


_GRADERS_HELP = """\
One row per grader that `python -m experiments train_grader` judged below PATH: means over training seeds with
95 % t intervals. An upper bound reads the label tests, which no real grader sees.

pair_accuracy     pairs of clearly different quality that are ordered rightly, a tie counts half
right_over_lucky  the same over pairs of which one passes all label tests and the other passed by luck
tau, top1         mean Kendall tau-b over groups; groups whose best trajectory is ranked first
pair, step N      pair_accuracy on what a policy writes N steps into RL, later than what graders learn from
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(prog="python -m analysis", description=_HELP, formatter_class=raw)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, words: str, description: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=words, description=description, formatter_class=raw)
        found.add_argument("path", type=Path, metavar="PATH", help="a root, a sweep folder or a run folder")
        return found

    report = command("report", "write report.json, report.html and figures", _REPORT_HELP)
    report.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: PATH/report)")
    report.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="two variants (label or sweep/label) against each other",
    )
    report.set_defaults(run=_report)

    plot = command("plot", "write figures only", _PLOT_HELP)
    plot.add_argument(
        "--figure", action="append", default=[], metavar="ID", help="may be repeated; default all"
    )
    plot.add_argument("--sweep", metavar="NAME", help="one sweep of a root; default all")
    plot.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: PATH/report/figures)")
    plot.set_defaults(run=_plot)

    _add_explain(commands)

    _add_table(command)
    _add_calibrate(command)
    _add_graders(command)
    return top


def _add_table(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    table = command("table", "print part of a report", _TABLE_HELP)
    table.add_argument(
        "--what",
        default="variants",
        metavar="TABLE",
        help="variants (default), comparisons, verdicts, efficiency, runs, tasks, length, stability, events, "
        "graders, cost, warnings or metrics",
    )
    table.add_argument(
        "--metric", action="append", default=[], metavar="KEY", help="may be repeated; default all"
    )
    table.add_argument("--sweep", metavar="NAME", help="one sweep of a root; default all")
    table.add_argument(
        "--format", default="text", metavar="FORM", help="text (default), markdown, csv or json"
    )
    table.set_defaults(run=_table)


def _add_graders(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    graders = command("graders", "accuracy of graders, with intervals over training seeds", _GRADERS_HELP)
    graders.add_argument(
        "--format", default="text", metavar="FORM", help="text (default), markdown, csv or json"
    )
    graders.set_defaults(run=_graders)


def _add_calibrate(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    calibrate = command("calibrate", "false-positive rate and power on your own runs", _CALIBRATE_HELP)
    calibrate.add_argument(
        "--metric", action="append", default=[], metavar="KEY", help="default: held_out_pass, tokens"
    )
    calibrate.add_argument("--trials", type=int, default=2000, metavar="N", help="per rate (default 2000)")
    calibrate.add_argument("--json", action="store_true", help="print JSON")
    calibrate.set_defaults(run=_calibrate)


def _add_explain(commands: Any) -> None:
    explain = commands.add_parser(
        "explain", help="runs and formula behind a figure or a number", description=_EXPLAIN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    explain.add_argument("id", metavar="ID", help="a figure, metric, stability measure or event")
    explain.add_argument("path", type=Path, metavar="PATH", help="a root, sweep, run or report.json")
    explain.set_defaults(run=_explain)


def _graders(options: argparse.Namespace) -> int:
    from analysis.graders import accuracies, grader_rows
    from analysis.table import FORMATS
    from gagar_core.errors import check_choice, gather

    gather(check_choice("--format", options.format, FORMATS), headline="analysis graders")
    print(FORMATS[options.format](grader_rows(accuracies(options.path))))
    return OK


def _report(options: argparse.Namespace) -> int:
    from analysis.data import read
    from analysis.write import write_report

    path: Path = options.path
    out = options.out or path / "report"
    compare = tuple(options.compare) if options.compare else None
    tree = write_report(read(path), out, path.resolve().name, compare)
    for sweep in tree["sweeps"]:
        for warning in sweep["warnings"]:
            print(f"{sweep['name']}: {warning['text']}", file=sys.stderr)
    print(f"report: {out / 'report.html'} (numbers: {out / 'report.json'}, figures: {out / 'figures'})")
    if not any(sweep["n_finished"] for sweep in tree["sweeps"]):
        print(f"{path}: no run has finished; the report names what is there", file=sys.stderr)
        return NOTHING_FINISHED
    return OK


def _plot(options: argparse.Namespace) -> int:
    from analysis.data import read
    from analysis.naming import shortened
    from analysis.plots.figures import FIGURES, draw_all
    from analysis.report import build
    from analysis.write import write_figures
    from gagar_core.errors import InputError, check_choice, gather

    faults = [fault for key in options.figure for fault in check_choice("--figure", key, FIGURES)]
    data = read(options.path)
    if options.sweep is not None:
        faults += check_choice("--sweep", options.sweep, [part.sweep.name for part in data])
    gather(faults, headline="cannot draw", error=InputError)
    out: Path = options.out or options.path / "report" / "figures"
    out.mkdir(parents=True, exist_ok=True)
    for part in data:
        if options.sweep in (None, part.sweep.name):
            section = shortened(build([part], part.sweep.name)["sweeps"][0])
            drawings = draw_all(section, part.curves, set(options.figure) or None)
            prefix = part.sweep.name if len(data) > 1 and options.sweep is None else ""
            for name in write_figures(out, prefix, drawings):
                print(out / f"{name}.png")
            for key in sorted(set(options.figure) - {drawing.key for drawing in drawings}):
                print(f"{part.sweep.name}: {key} has nothing to show here", file=sys.stderr)
    return OK


def _explain(options: argparse.Namespace) -> int:
    from analysis.explain import explain
    from analysis.table import load_tree

    print("\n".join(explain(load_tree(options.path), options.id)))
    return OK


def _table(options: argparse.Namespace) -> int:
    from analysis.table import FORMATS, load_tree, rows_of
    from gagar_core.errors import check_choice, gather

    gather(check_choice("--format", options.format, FORMATS), headline="cannot print this table")
    rows = rows_of(load_tree(options.path), options.what, options.metric, options.sweep)
    print(FORMATS[options.format](rows))
    return OK


def _calibrate(options: argparse.Namespace) -> int:
    import json

    from analysis.calibrate import as_object, calibrate, describe
    from analysis.data import read

    metrics = options.metric or ["held_out_pass", "tokens"]
    found = {
        data.sweep.name: [calibrate(data, metric, trials=options.trials) for metric in metrics]
        for data in read(options.path)
    }
    if options.json:
        print(json.dumps({name: as_object(parts) for name, parts in found.items()}, indent=1))
        return OK
    for name, parts in found.items():
        print(name)
        for part in parts:
            print("\n".join(describe(part)))
    return OK


@until_reader_leaves()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; an error that a user can act on is one message and status 2."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except GagarError as err:
        print(f"error: {err}", file=sys.stderr)
        return FAULT
    return status


if __name__ == "__main__":
    sys.exit(main())
