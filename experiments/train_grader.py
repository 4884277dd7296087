"""``python -m experiments train_grader grader=distilled_m``: train graders, judge them, print their accuracy.

Everything is an artifact below ``root``: what is there is not built again, and a broken-off command goes on
where it stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments import artifacts
from experiments.compose import compose
from experiments.grader_accuracy import ACCURACY
from experiments.schema import CHOICES, RunConfig, check_together
from gagar_core.errors import ConfigError, GagarError
from gagar_core.records import read_json

HELP = """\
Train graders on labelled groups of real policies and judge them on held-out tasks.

  python -m experiments train_grader grader=distilled_m
  python -m experiments train_grader grader=distilled_xs,distilled_s,distilled_m seeds=5
  python -m experiments train_grader grader=all seeds=5 budget=small root=runs

grader=A,B,..  graders to train; those that are rules are only judged; all = every one of them
seeds=N        seed blocks 0 to N-1 (default 1): SFT weights, groups and training each with their own
key=value      any other override of a run, for instance grader.view=pairwise or grader.data_steps=0

pair   share of pairs of passing trajectories with clearly different quality that are ordered rightly
lucky  the same over pairs of which one passes all label tests and the other passed by luck
tau    mean Kendall tau-b over groups          top1  share of groups whose best trajectory is ranked first
late   pair accuracy on a policy much later than the ones it learned from

The table with intervals over seeds, by difficulty and by policy:  python -m analysis graders ROOT
"""


def main(words: Sequence[str]) -> int:
    """Entry point; faults a user can act on end with status 2."""
    if {"-h", "--help"} & set(words):
        print(HELP)
        return 0
    try:
        train_graders(words)
    except GagarError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    return 0


def train_graders(words: Sequence[str]) -> list[dict[str, Any]]:
    """Train and judge all graders that the words name; returns the content of their accuracy files."""
    configs = _configs(words)
    found = []
    for number, config in enumerate(configs, 1):
        for spec in (*artifacts.required(config), artifacts.accuracy_of(config)):
            if not spec.done():
                print(
                    f"[{number}/{len(configs)}] seed {config.seed}: building {spec.kind} {spec.digest}",
                    flush=True,
                )
            folder = artifacts.ensure(spec)
        found.append(read_json(folder / ACCURACY))
        print(_line(found[-1]), flush=True)
    print("\n" + table(found))
    print(f"\nby difficulty and policy, with intervals: python -m analysis graders {configs[0].root}")
    return found


def _configs(words: Sequence[str]) -> list[RunConfig]:
    names, seeds, rest = ["distilled_s"], 1, []
    for word in words:
        key, _, value = word.partition("=")
        if key == "grader":
            names = [n for n in CHOICES["grader"] if n != "none"] if value == "all" else value.split(",")
            names = list(dict.fromkeys(names))
        elif key == "seeds":
            if not value.isdecimal() or not 1 <= int(value) <= 1000:
                msg = f"seeds must be a number of seed blocks from 1 to 1000; got {value!r}"
                raise ConfigError(msg)
            seeds = int(value)
        else:
            rest.append(word)
    if "none" in names:
        msg = "grader=none judges nothing; name a grader, or all"
        raise ConfigError(msg)
    own = [] if seeds > 1 else [word for word in rest if word.startswith("seed=")]
    rest = [word for word in rest if not word.startswith("seed=")]
    configs = []
    for name in names:
        for seed in range(seeds):
            config = compose([f"grader={name}", *rest, *(own or [f"seed={seed}"])])
            check_together(config)
            configs.append(config)
    return configs


def table(found: Sequence[dict[str, Any]]) -> str:
    """One line per grader, means over its seed blocks."""
    lines = [
        f"{'grader':<28}{'n':>3}{'pair':>7}{'lucky':>7}{'tau':>7}{'top1':>7}{'late':>7}{'params':>9}{'ms/group':>10}"
    ]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        by_name.setdefault(name_of(one), []).append(one)
    for name, group in by_name.items():
        late = [max(one["by_origin"].items(), key=lambda item: _steps(item[0]))[1] for one in group]
        cells = [
            _mean(one["all"][key] for one in group)
            for key in ("pair_accuracy", "right_over_lucky", "tau", "top1")
        ]
        cells.append(_mean(one["pair_accuracy"] for one in late))
        shown = "".join(f"{cell:>7}" for cell in cells)
        milliseconds = 1000 * float(np.mean([one["cpu_s_per_group"] for one in group]))
        lines.append(f"{name:<28}{len(group):>3}{shown}{group[0]['parameters']:>9,}{milliseconds:>10.2f}")
    return "\n".join(lines)


def name_of(one: dict[str, Any]) -> str:
    """A grader with the settings that differ from its defaults; an upper bound is marked."""
    changed = [f"{key}={value}" for key, value in sorted(one["settings"].items())]
    return " ".join([one["kind"] + (" (upper bound)" if one["upper_bound"] else ""), *changed])


def _line(one: dict[str, Any]) -> str:
    pair = one["all"]["pair_accuracy"]
    return f"{name_of(one)} seed {one['seed']}: pair accuracy {'-' if pair is None else f'{pair:.3f}'}"


def _steps(origin: str) -> int:
    return int(origin.split()[-1]) if origin.startswith("step") else 0


def _mean(values: Any) -> str:
    known = [value for value in values if value is not None]
    return f"{float(np.mean(known)):.3f}" if known else "-"


__all__ = ["main", "name_of", "table", "train_graders"]
