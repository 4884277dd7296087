"""The text of ``experiments.run --help``: every axis, choice and field, from the classes themselves."""

from __future__ import annotations

from dataclasses import Field, fields
from functools import cache
from typing import Any

from experiments.identity import default_names, default_of, presets
from experiments.schema import CHOICES, RunConfig
from gagar_core.choices import field_docs
from gagar_core.sandbox.settings import SandboxSettings

_OPENING = """\
python -m experiments.run [choice=name ...] [choice.field=value ...]

Trains one agent and writes one run folder: evaluates the SFT policy on held-out tasks, trains, evaluates
again. Built prerequisites (the SFT warm start) are reused. A finished run is not run twice.

  python -m experiments.run algorithm=gagar seed=0 budget=small
  python -m experiments.run algorithm=grpo sampling=keep_all trainer.lr=1e-3
  python -m experiments.run algorithm=gagar --cfg job        print the configuration, run nothing

Many runs (seeds, variants, Slurm): python -m sweeps --help
"""


@cache
def help_text() -> str:
    """The whole help."""
    lines = [_OPENING, "Presets (they choose names only):"]
    for name, chosen in presets().items():
        lines.append(f"  algorithm={name:9} " + " ".join(f"{axis}={kind}" for axis, kind in chosen.items()))
    lines.append("\nFields of a run:")
    docs = field_docs(RunConfig)
    lines += [
        f"  {name:6} {docs[name]} (default {getattr(RunConfig, name)!r})" for name in ("seed", "root", "name")
    ]
    for axis, named in CHOICES.items():
        lines.append(f"\n{axis}: {docs[axis]}")
        for name, cls in named.items():
            mark = "*" if default_names().get(axis) == name else " "
            lines.append(f" {mark}{axis}={name}  {summary(cls)}")
            lines += _fields(axis, cls)
    lines.append("\nsandbox: limits of the programs that are run")
    lines += _fields("sandbox", SandboxSettings)
    lines.append("\n* = chosen when no preset and no word says otherwise")
    return "\n".join(lines)


def summary(cls: type[Any]) -> str:
    """First line of a class's documentation."""
    return (cls.__doc__ or "").strip().splitlines()[0]


def _fields(axis: str, cls: type[Any]) -> list[str]:
    docs = field_docs(cls)
    return [f"      {axis}.{f.name}={_default(f)}  {docs[f.name]}" for f in fields(cls)]


def _default(f: Field[Any]) -> Any:
    value = default_of(f)
    return "''" if value == "" else value


def axes_table() -> str:
    """Rows of the README's table of axes, in Markdown."""
    docs = field_docs(RunConfig)
    rows = []
    for axis, named in CHOICES.items():
        names = ", ".join(f"**{n}**" if default_names().get(axis) == n else n for n in sorted(named))
        rows.append(f"| `{axis}` | {docs[axis]} | {names} |")
    return "\n".join(rows)
