"""``python -m analysis``: reports on folders of runs. Reads files only; see ``--help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gagar_core.errors import GagarError

OK, FAULT, NOTHING_FINISHED = 0, 2, 3

_HELP = """\
Reads run folders and says what they show: with intervals, n, and the names of the runs that died.

  python -m analysis report runs/main     one sweep
  python -m analysis report runs          every sweep below a root
  python -m analysis report runs/single/runs/RUN_ID     one run
"""

_REPORT_HELP = """\
Writes PATH/report/report.json (every number with unit, n used / n planned, interval or the reason for none,
policy for dead runs, and the runs it came from), report.html (one file, no network needed) and figures/.

Exit status: 0 written; 2 nothing could be read or written (one message says why); 3 written, but no run has
finished, so the tables are empty.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(prog="python -m analysis", description=_HELP, formatter_class=raw)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report",
        help="write report.json, report.html and figures",
        description=_REPORT_HELP,
        formatter_class=raw,
    )
    report.add_argument("path", type=Path, metavar="PATH", help="a root, a sweep folder or a run folder")
    report.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: PATH/report)")
    report.set_defaults(run=_report)
    return top


def _report(options: argparse.Namespace) -> int:
    from analysis.data import read
    from analysis.write import write_report

    path: Path = options.path
    out = options.out or path / "report"
    tree = write_report(read(path), out, path.resolve().name)
    for sweep in tree["sweeps"]:
        for warning in sweep["warnings"]:
            print(f"{sweep['name']}: {warning['text']}", file=sys.stderr)
    print(f"report: {out / 'report.html'} (numbers: {out / 'report.json'}, figures: {out / 'figures'})")
    if not any(sweep["n_finished"] for sweep in tree["sweeps"]):
        print(f"{path}: no run has finished; the report names what is there", file=sys.stderr)
        return NOTHING_FINISHED
    return OK


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
