"""What the stability report measures and which events it names, with their definitions."""

from __future__ import annotations

import tomllib
from pathlib import Path

_TEXT = tomllib.loads((Path(__file__).parent / "templates" / "stability.toml").read_text(encoding="utf-8"))

ITEMS: dict[str, dict[str, str]] = _TEXT["items"]
"""Item -> label, unit, formula."""

EVENTS: dict[str, str] = _TEXT["events"]
"""Kind of event -> definition."""
