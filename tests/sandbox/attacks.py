"""The hostile programs of ``attacks.toml``, which also says what the fields mean."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Attack:
    """One program, its right outcome, and the control that shows that it bites."""

    id: str
    source: str
    right: str
    bites: str
    statuses: tuple[str, ...] = ()


def _load() -> list[Attack]:
    table = tomllib.loads(Path(__file__).with_name("attacks.toml").read_text())
    return [Attack(**{**entry, "statuses": tuple(entry.get("statuses", ()))}) for entry in table["attack"]]


ATTACKS = _load()
