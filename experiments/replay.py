"""``python -m experiments replay RUN weighting=...``: recorded groups under other choices; runs nothing."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gagar_core.errors import ConfigError, InputError, gather
from gagar_core.records import RunFolder

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.recorded.replaying import Measures, Recipe, StepComparison

_HELP = """\
Computes the advantages of a run's recorded groups again under other choices, from the recorded rewards,
ranks, scores, tiers and lengths, and says how they would have differed. It answers what a choice does to the
advantages of a step; what it does to training only a run can tell: later groups would have been others.

  python -m experiments replay runs/single weighting=geometric_span
  python -m experiments replay gagar:0 redistribution=paper weighting.floor=0.4
  python -m experiments replay 5ab5 estimator=grpo --bins 60

estimator=, weighting= and redistribution= choose anew; AXIS.FIELD=VALUE changes one setting of the recorded
or the new choice (python -m experiments.run --help lists all). RUN is named as in `show`.
"""


_KEY = re.compile(r"[A-Za-z_][\w.]*=")
"""How a word begins that sets something; a VARIANT:SEED has a blank or a colon before its =."""


def main(words: Sequence[str]) -> int:
    """Print the comparison; raises ``GagarError`` for a run or a choice that cannot be used."""
    options = _parser().parse_intermixed_args(list(words))
    runs = [word for word in options.words if not _KEY.match(word)]
    roots = [word.removeprefix("root=") for word in options.words if word.startswith("root=")]
    changes = [w for w in options.words if _KEY.match(w) and not w.startswith("root=")]
    _check(runs, changes, options.bins)
    from rich.console import Console

    from experiments.recorded.find import find_run
    from experiments.recorded.replaying import compare, step_rows

    found = find_run(runs[0], roots[-1] if roots else "runs")
    recorded, other = recipe(found.run, []), recipe(found.run, changes)
    try:
        steps = [compare(rows, recorded, other) for rows in step_rows(found.run)]
    except InputError as err:
        grader = found.run.config["config"].get("grader", {}).get("kind", "?")
        msg = f"{err}; the run was graded by grader={grader}, and only what it recorded can be read"
        raise ConfigError(msg) from err
    console = Console(highlight=False)
    _print(console, found.run, found.why, changes, steps)
    _table(console, steps, options.bins)
    return 0


def _check(runs: Sequence[str], changes: Sequence[str], bins: int) -> None:
    from experiments.recorded.replaying import AXES

    faults = [] if len(runs) == 1 else [f"replay takes one RUN; got {len(runs)}"]
    faults += [
        f"{word}: only {', '.join(AXES)} can be chosen anew"
        for word in changes
        if word.split("=", 1)[0].split(".")[0] not in AXES
    ]
    faults += (
        [] if changes else ["say what to change: python -m experiments replay RUN weighting=exponential"]
    )
    faults += [] if bins > 0 else [f"--bins must be at least 1; got {bins}"]
    gather(faults, headline="cannot replay")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments replay",
        usage="python -m experiments replay RUN [AXIS=CHOICE ...] [AXIS.FIELD=VALUE ...] [--bins N]",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--bins", type=int, default=12, metavar="N", help="rows of the table (default 12)")
    return parser


def recipe(run: RunFolder, changes: Sequence[str]) -> Recipe:
    """The recorded choices of a run with ``changes`` (override words) made to them."""
    from experiments.compose import compose
    from experiments.recorded.replaying import AXES, Recipe, words_of

    record = run.config["config"]
    missing = [axis for axis in AXES if axis not in record]
    if missing:
        msg = f"{run.path} does not record its {', '.join(missing)}; it cannot be replayed"
        raise ConfigError(msg)
    config = compose([word for axis in AXES for word in words_of(record, axis, changes)])
    return Recipe(config.estimator, config.weighting, config.redistribution)


def _print(
    console: Console, run: RunFolder, why: str, changes: Sequence[str], steps: Sequence[StepComparison]
) -> None:
    from rich.text import Text

    from experiments.recorded.find import label
    from experiments.recorded.text import one_line, plural

    groups, exact = sum(step.groups for step in steps), sum(step.exact for step in steps)
    comparable, reordered = sum(s.comparable for s in steps), sum(s.reordered for s in steps)
    lines = [why] if why else []
    lines.append(f"{one_line(label(run) or run.path.name)}, against {one_line(' '.join(changes))}")
    lines.append(f"{plural(groups, 'group')} in {plural(len(steps), 'step')} entered the loss")
    again = "the recorded choices give the recorded advantages again, bit for bit"
    lines.append(f"check: {again}, in {exact} of {len(steps)} steps")
    lines.append(
        f"order of passing rows changes in {reordered} of {comparable} groups with at least two passes"
        + (f" ({reordered / comparable:.1%})" if comparable else "")
    )
    console.print(Text("\n".join(lines)))


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def _columns() -> dict[str, tuple[Callable[[Measures], float], Callable[[Sequence[float]], float]]]:
    return {
        "λ": (lambda m: m.lambda_, _mean),
        "capped": (lambda m: m.capped, sum),
        "kept": (lambda m: m.fallback, sum),
        "Σ off": (lambda m: m.moved, max),
        "ESS": (lambda m: m.ess, _mean),
        "cov": (lambda m: m.covariance, _mean),
    }


def _table(console: Console, steps: Sequence[StepComparison], bins: int) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("steps", "order", "|ΔA|", *_columns()):
        table.add_column(name, justify="right", no_wrap=True)
    size = math.ceil(len(steps) / bins)
    parts = [steps[first : first + size] for first in range(0, len(steps), size)]
    for part in [*parts, steps] if len(parts) > 1 else parts:
        first, last = part[0].step, part[-1].step
        name = (
            "all" if part is steps and len(parts) > 1 else str(first) if first == last else f"{first}-{last}"
        )
        table.add_row(*map(Text, [name, *_cells(part)]))
    console.print(table)
    note = (
        "recorded→replayed. order: share of groups in which passing rows compare differently; |ΔA|: mean "
        "change; λ: mean factor; capped, kept: groups at a cap, and with base advantages for a reason; "
        "Σ off: largest change of a group's sum over passing rows; ESS: (Σ|A|)² / ΣA² per row; cov: "
        "of tokens and advantage within groups, negative = shorter ones get more"
    )
    console.print(Text(note, style="dim"))


def _cells(part: Sequence[StepComparison]) -> list[str]:
    comparable = sum(step.comparable for step in part)
    share = f"{sum(step.reordered for step in part) / comparable:.0%}" if comparable else "–"
    cells = [share, _number(_mean([step.change for step in part]))]
    for read, together in _columns().values():
        before = together([read(step.before) for step in part])
        after = together([read(step.after) for step in part])
        shown = (_number(before), _number(after))
        cells.append(shown[0] if shown[0] == shown[1] else "→".join(shown))
    return cells


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    # sums that differ by rounding only are kept
    return "0" if abs(value) < 1e-12 else f"{value:.3g}".replace("-", "−")
