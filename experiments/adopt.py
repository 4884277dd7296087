"""``python -m experiments adopt FILE.jsonl``: ranks, weights and advantages for an agent of one's own."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.schema import kind_of
from gagar_core.errors import ConfigError, RecordsError, gather
from gagar_core.records import publish, write_table

_OPENING = """\
Takes logged trajectories, one JSON object a line, and writes per line the rank, the quality weight and the
advantage before and after redistribution. Nothing is executed and nothing is trained: the advantages go into
the training loop of your own agent.

  python -m experiments adopt experiments/adopt_example.jsonl --out runs/adopted.jsonl
  python -m experiments adopt mine.jsonl weighting=geometric_span grader.edit_cost=2 --out mine.parquet

A line: {"task": "t1", "passed": true, "tokens": 210, "program": "def f(n): ...", "edits": 1}
"""
_CLOSING = """
A group in which every passing line has a rank keeps those ranks; others are ranked by grader=, a rule that
reads what the lines hold (learned graders and the oracle are refused). Choices begin at algorithm=gagar:
grader=, estimator=, weighting=, redistribution= and their fields can be set
(python -m experiments.run --help). --out ends in .jsonl or .parquet.
"""
AXES = ("algorithm", "grader", "estimator", "weighting", "redistribution")
"""What can be chosen."""

_KEY = re.compile(r"[A-Za-z_][\w.]*=")


def main(words: Sequence[str]) -> int:
    """Read, compute, write; raises ``GagarError`` naming every faulty line."""
    options = _parser().parse_intermixed_args(list(words))
    files = [word for word in options.words if not _KEY.match(word)]
    changes = [word for word in options.words if _KEY.match(word) and not word.startswith("root=")]
    _check(files, changes, options.out)
    from experiments.compose import compose
    from experiments.recorded.adopting import adopt, read_lines, rows_of

    config = compose(["algorithm=gagar", *changes])
    gather(_unfit(config.grader), headline="cannot adopt")
    adopted = adopt(read_lines(Path(files[0])), config)
    out = options.out or Path(files[0]).with_suffix(".advantages.jsonl")
    _write(out, rows_of(adopted))
    print(_summary(adopted, out))
    return 0


def _check(files: Sequence[str], changes: Sequence[str], out: Path | None) -> None:
    faults = [] if len(files) == 1 else [f"adopt takes one FILE.jsonl; got {len(files)}"]
    faults += [
        f"{word}: only {', '.join(AXES)} can be chosen"
        for word in changes
        if word.split("=", 1)[0].split(".")[0] not in AXES
    ]
    if out is not None and out.suffix not in (".jsonl", ".parquet"):
        faults.append(f"--out must end in .jsonl or .parquet; got {str(out)!r}")
    if out is not None and files and out == Path(files[0]):
        faults.append(f"--out would replace the file that is read: {out}")
    gather(faults, headline="cannot adopt", error=ConfigError)


def _unfit(grader: Any) -> list[str]:
    """Why a grader cannot judge lines of a file; what only some lines lack, its rankings say themselves."""
    name = kind_of("grader", grader)
    if grader.learned:
        return [f"grader={name} has to be trained on the suite of a run first; give ranks of your own"]
    if grader.upper_bound:
        return [f"grader={name} reads label tests, which lines do not hold; give ranks of your own"]
    if name == "self_likelihood":
        return [
            f"grader={name} reads log-probabilities, which lines do not hold; give them as score and rank"
        ]
    return []


def _parser() -> argparse.ArgumentParser:
    return _with_arguments(
        argparse.ArgumentParser(
            prog="python -m experiments adopt",
            usage="python -m experiments adopt FILE.jsonl [AXIS=CHOICE ...] [--out PATH]",
            description=_OPENING + _fields() + _CLOSING,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def _with_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, metavar="PATH", help="default: FILE.advantages.jsonl")
    return parser


def _fields() -> str:
    from experiments.recorded.adopting import NEEDED, OPTIONAL

    lines = [f"  {name:20} {what}" for name, what in NEEDED.items()]
    lines += [f"  {name:20} ({what})" for name, (_, what) in OPTIONAL.items()]
    return "Fields (in brackets: may be left out):\n" + "\n".join(lines) + "\n"


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.suffix == ".parquet":
            import polars as pl

            write_table(pl.DataFrame(rows, infer_schema_length=None), out)
        else:
            lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
            publish(out, "".join(lines).encode("utf-8", "backslashreplace"))
    except OSError as err:
        msg = f"cannot write {out}: {err}; choose another place with --out"
        raise RecordsError(msg) from err


def _summary(adopted: Any, out: Path) -> str:
    from experiments.recorded.text import one_line, plural

    result = adopted.result
    acted = sum(1 for value in result.lambda_ if value == value)
    total = f"{plural(len(adopted.lines), 'line')} in {plural(len(result.groups), 'group')}"
    lines = [
        f"{total}: {acted} redistributed",
        *(f"  {count} kept their base advantages: {why}" for why, count in _reasons(result.fallback)),
        *(
            f"  group {one_line(str(g), 40)}: {one_line(why, 200)}"
            for g, why in list(adopted.abstained.items())[:5]
        ),
        f"advantages: {out}",
    ]
    return "\n".join(lines)


def _reasons(fallback: Sequence[str]) -> list[tuple[str, int]]:
    reasons = [str(reason) for reason in fallback if reason]
    return [(reason, reasons.count(reason)) for reason in sorted(set(reasons))]
