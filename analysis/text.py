"""How numbers are written for people: few digits, an interval or the reason for none, and n."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def format_value(value: float | None, unit: str = "") -> str:
    """A value on its own: shares with three decimals, others with three significant digits."""
    if value is None:
        return "–"
    if unit == "share":
        return f"{value:.3f}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def interval_text(number: Mapping[str, Any]) -> str:
    """``[low, high]`` or the reason why there is none."""
    interval = number["interval"]
    if interval is None:
        return str(number["why"]) or "no interval"
    unit = number["unit"]
    text = f"[{format_value(interval['low'], unit)}, {format_value(interval['high'], unit)}]"
    if interval["low"] == interval["high"]:
        equal = f"all {number['n_used']} equal" if number.get("sd") == 0 else "equal in all digits kept"
        text += f" {equal}: no spread to judge by"
    return text


def format_number(number: Mapping[str, Any]) -> str:
    """Value, interval or reason, and n used / n planned."""
    if number["value"] is None:
        return f"– ({number['why'] or 'no value'}; n {number['n_used']}/{number['n_planned']})"
    value = format_value(number["value"], number["unit"])
    return f"{value} {interval_text(number)} n {number['n_used']}/{number['n_planned']}"
