"""What differs between two runs: settings, code, environment, and how they ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gagar_core.errors import RecordsError
from gagar_core.records import read_json
from sweeps.ledger import Ledger

SCHEMA_VERSION = 1
"""Of ``diff --json``; fields are only ever added within a version."""

_ENVIRONMENT = (
    "host",
    "cpus",
    "platform",
    "python",
    "versions",
    "sandbox_level",
    "suite",
    "suite_digest",
    "parameters",
    "artifacts",
)
_ENDING = ("status", "reason", "steps", "first", "last")

Part = dict[str, tuple[Any, Any]]
"""Path of a value to its two forms; None where one side has none."""


def diff(ledger: Ledger | None, names: Sequence[str], *, as_json: bool) -> int:
    """Print the differences; 1 if settings or code differ, else 0."""
    left, right = _folders(ledger, names)
    parts = compare(left, right)
    if as_json:
        data = {name: {key: list(pair) for key, pair in part.items()} for name, part in parts.items()}
        print(
            json.dumps({"schema_version": SCHEMA_VERSION, "runs": [str(left), str(right)], **data}, indent=1)
        )
    else:
        print("\n".join(_lines(left, right, parts)))
    return int(bool(parts["settings"] or parts["code"]))


def _folders(ledger: Ledger | None, names: Sequence[str]) -> tuple[Path, Path]:
    if ledger is not None:
        from sweeps.status import look_at
        from sweeps.verbs import find_one

        if len(names) != 2:
            msg = f"diff compares two runs; got {' '.join(names) or 'none'}. Each is an id, or LABEL:SEED"
            raise RecordsError(msg)
        status = look_at(ledger)
        left, right = (find_one(status, [name]).folder for name in names)
    else:
        left, right = (Path(name) for name in names)
    absent = [str(path) for path in (left, right) if not (path / "config.json").exists()]
    if absent:
        msg = f"{' and '.join(absent)}: no run was begun there"
        raise RecordsError(msg)
    return left, right


def compare(left: Path, right: Path) -> dict[str, Part]:
    """Differences of two run folders by part: settings, code, environment, ending."""
    configs = [read_json(path / "config.json") for path in (left, right)]
    metas = [_optional(path / "meta.json") for path in (left, right)]
    results = [_optional(path / "result.json") for path in (left, right)]
    return {
        "settings": _differing(*({**c["config"], "variant": c["variant"]} for c in configs)),
        "code": _differing(*(dict(meta.get("code") or {}) for meta in metas)),
        "environment": _differing(*({k: meta[k] for k in _ENVIRONMENT if k in meta} for meta in metas)),
        "ending": _differing(*({k: result[k] for k in _ENDING if k in result} for result in results)),
    }


def _optional(path: Path) -> dict[str, Any]:
    return dict(read_json(path)) if path.exists() else {}


def _differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> Part:
    flat = _flat(left), _flat(right)
    keys = sorted(flat[0].keys() | flat[1].keys())
    pairs = {key: (flat[0].get(key), flat[1].get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, part in value.items():
        flat |= _flat(part, f"{above}{key}.") if isinstance(part, Mapping) else {f"{above}{key}": part}
    return flat


def _lines(left: Path, right: Path, parts: Mapping[str, Part]) -> list[str]:
    lines = [f"- {left}", f"+ {right}"]
    for name, part in parts.items():
        lines.append(f"{name}: {'the same' if not part else ''}".rstrip())
        lines += [f"  {key}: {_text(a)} -> {_text(b)}" for key, (a, b) in part.items()]
    return lines


def _text(value: Any) -> str:
    return "(none)" if value is None else json.dumps(value, ensure_ascii=False)
