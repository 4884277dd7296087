"""Which runs of a sweep are meant: ``algorithm=gagar seed<3 state=failed``, an id, or a label.

A term is ``KEY OP VALUE`` without spaces, OP one of = != < <= > >=, and VALUE a list ``a,b`` for = and !=.
All terms must hold. Keys: state, seed, variant, algorithm, run, attempt, evidence, an axis (its choice), or
AXIS.FIELD. Texts may hold the wildcards * and ?. A term without OP is the beginning of an id, LABEL:SEED, or
a label.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.identity import presets
from gagar_core.errors import ConfigError, gather
from gagar_core.records import read_json
from sweeps.state import STATES
from sweeps.status import Row

_TERM = re.compile(r"([A-Za-z_][\w.]*)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_OWN = ("state", "seed", "variant", "algorithm", "run", "attempt", "evidence")
_ABSENT = object()


@dataclass(frozen=True)
class Term:
    """One condition; ``op`` is "" for a name."""

    key: str
    op: str
    value: str


def parse_terms(words: Sequence[str]) -> list[Term]:
    """Terms of a selection; faults that show without a sweep are named."""
    terms = [_term(word) for word in words]
    faults = [
        f"state must be one of {', '.join(STATES)}; got {value!r}"
        for term in terms
        if term.key == "state"
        for value in term.value.split(",")
        if value not in STATES
    ]
    faults += [
        f"{t.key}{t.op}{t.value}: not a number" for t in terms if t.op in _ORDER and _number(t.value) is None
    ]
    gather(faults, headline="cannot select")
    return terms


def _term(word: str) -> Term:
    found = _TERM.fullmatch(word)
    return Term(*found.groups()) if found else Term("", "", word)


def select(rows: Sequence[Row], words: Sequence[str]) -> list[Row]:
    """The rows that all terms hold for; a key or a name that fits no row at all is an error."""
    terms = parse_terms(words)
    values = [(row, _values(row) if any(_needs_config(t) for t in terms) else _own(row)) for row in rows]
    known = set().union(*(value.keys() for _, value in values))
    unknown = [t.key for t in terms if t.op and t.key not in known]
    if unknown and rows:
        msg = f"cannot select by {', '.join(unknown)}; keys: {', '.join(_OWN)}, an axis, or AXIS.FIELD"
        raise ConfigError(msg)
    chosen = [row for row, value in values if all(_holds(term, row, value) for term in terms)]
    names = [term.value for term in terms if not term.op]
    if names and not chosen:
        there = ", ".join(
            f"{row.line.get('run_id')} ({row.line['variant']}:{row.line['seed']})" for row in rows
        )
        msg = f"{' '.join(names)} names 0 runs; there are: {there}"
        raise ConfigError(msg)
    return chosen


def _needs_config(term: Term) -> bool:
    return bool(term.op) and term.key not in _OWN


def _own(row: Row) -> dict[str, Any]:
    label = row.line["variant"]
    return {
        "state": row.state,
        "seed": row.line["seed"],
        "variant": label,
        "algorithm": next((name for name in presets() if name == label.split(" ")[0]), ""),
        "run": row.line.get("run_id", ""),
        "attempt": row.look.attempt,
        "evidence": row.look.evidence,
    }


def _values(row: Row) -> dict[str, Any]:
    config = row.line.get("config") or read_json(row.folder / "config.json")["config"]
    values = _own(row)
    for axis, settings in config.items():
        if isinstance(settings, dict):
            values |= {f"{axis}.{name}": value for name, value in settings.items() if name != "kind"}
            values |= {axis: settings["kind"]} if "kind" in settings else {}
        elif axis not in values:
            values[axis] = settings
    return values


def _holds(term: Term, row: Row, values: dict[str, Any]) -> bool:
    if not term.op:
        return _is_named(term.value, values)
    value = values.get(term.key, _ABSENT)
    if value is _ABSENT:
        return False
    if term.op in _ORDER:
        number = _number(value)
        return number is not None and _ORDER[term.op](number, float(term.value))
    equal = any(_equal(value, wanted) for wanted in term.value.split(","))
    return equal == (term.op == "=")


def _is_named(name: str, values: dict[str, Any]) -> bool:
    label, _, seed = name.rpartition(":")
    if label and seed.isdecimal():
        return (values["variant"], str(values["seed"])) == (label, seed)
    return (len(name) >= 4 and values["run"].startswith(name)) or fnmatch.fnmatchcase(values["variant"], name)


def _equal(value: Any, wanted: str) -> bool:
    number = _number(value)
    if number is not None and _number(wanted) is not None:
        return number == _number(wanted)
    text = {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    return fnmatch.fnmatchcase(text, wanted)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
