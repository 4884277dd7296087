"""``python -m experiments``: commands around single runs; each is a module with ``main(words)``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

from gagar_core.errors import GagarError

COMMANDS: dict[str, tuple[str, str]] = {
    "show": (
        "experiments.show",
        "one recorded group side by side: programs, grades, advantages before and after",
    ),
    "replay": (
        "experiments.replay",
        "what other choices would have made of the recorded groups; runs nothing",
    ),
    "adopt": ("experiments.adopt", "ranks, weights and advantages for trajectories of an agent of your own"),
    "train_grader": ("experiments.train_grader", "train a grader on label tests, away from any run"),
}
"""command -> its module, and what it is for. A module is imported when its command is called."""

_OPENING = """\
python -m experiments COMMAND ...

Looks into single runs, and works on what they recorded. A run itself: python -m experiments.run --help; many
runs: python -m sweeps --help; reports on them: python -m analysis --help.

"""

_CLOSING = """
  python -m experiments.run algorithm=gagar seed=0    a run to look into (minutes; budget=smoke is too short)
  python -m experiments show runs/single              a group of it that is worth seeing
  python -m experiments COMMAND --help                what a command takes
"""


def commands() -> dict[str, tuple[str, str]]:
    """The commands whose module is part of this checkout."""
    return {name: found for name, found in COMMANDS.items() if importlib.util.find_spec(found[0])}


def help_text() -> str:
    """The whole help."""
    lines = [f"  {name:13} {words}" for name, (_, words) in commands().items()]
    return f"{_OPENING}" + "\n".join(lines) + f"\n{_CLOSING}"


def main(words: Sequence[str]) -> int:
    """Dispatch on the command; every foreseen error is one message and exit status 2."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text(), end="")
        return 0
    name, rest = words[0], list(words[1:])
    known = commands()
    if name not in known:
        hint = "; a run is python -m experiments.run" if name == "run" else ""
        print(f"unknown command {name!r}; choose one of {', '.join(known)}{hint} (--help)", file=sys.stderr)
        return 2
    try:
        return importlib.import_module(known[name][0]).main(rest) or 0
    except GagarError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2


def entry() -> int:
    """``main`` on the command line; a reader that has seen enough (``| head``) ends it quietly."""
    try:
        try:
            code = main(sys.argv[1:])
        except SystemExit as end:  # argparse: --help, or words it cannot take
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 2
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush at exit
        return 0
    return code


if __name__ == "__main__":
    sys.exit(entry())
