"""Hypotheses of a spec: read and checked before anything runs.

    {metric, variant, against, kind: superior|non_inferior|equivalent, margin, direction, name}

or a joint claim ``{name, all_of: [...]}`` of several such, which holds if every part does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from gagar_core.errors import ConfigError, check_choice, gather
from gagar_core.records.measures import REPORT_METRICS

KINDS = ("superior", "non_inferior", "equivalent")
_KEYS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("metric", "variant", "against", "kind", "direction", "name"), (str,)),
    "margin": (int, float),
}
_RATES = (
    "held_out_",
    "sft_",
    "hack_gap",
    "pass_gain",
    "audit_gain",
    "truncated",
    "pass_at_",
    "wasted_share",
    "train_pass",
    "train_truncated",
)
"""Beginnings of metrics that are rates: no two of them differ by 1 or more."""


def read_hypotheses(value: Any) -> tuple[dict[str, Any], ...]:
    """Checked hypotheses; ``margin`` is 0 and ``direction`` the metric's own where they do not say."""
    if not isinstance(value, list):
        msg = f"hypotheses must be a list; got {value!r}"
        raise ConfigError(msg)
    faults: list[str] = []
    read = [_read_entry(f"hypothesis {number}", entry, faults) for number, entry in enumerate(value, 1)]
    gather(faults, headline="hypotheses")
    return tuple(read)


def _read_entry(where: str, entry: Any, faults: list[str]) -> dict[str, Any]:
    if not isinstance(entry, dict) or "all_of" not in entry:
        return _read_single(where, entry, faults)
    parts, name = entry["all_of"], entry.get("name")
    faults += [
        f"{where}: unknown key {key!r}; a joint one has name and all_of"
        for key in entry
        if key not in ("name", "all_of")
    ]
    if not isinstance(name, str) or not name.strip():
        faults.append(f"{where}: a joint hypothesis needs a name; got {name!r}")
    if not isinstance(parts, list) or len(parts) < 2:
        faults.append(f"{where}: all_of must list two or more hypotheses; got {parts!r}")
        return {}
    read = [_read_single(f"{where}, part {number}", part, faults) for number, part in enumerate(parts, 1)]
    return {"name": name, "all_of": read}


def _read_single(where: str, entry: Any, faults: list[str]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        faults.append(f"{where} must be a mapping; got {entry!r}")
        return {}
    own = REPORT_METRICS.get(str(entry.get("metric")), "") or "higher"
    full = {"against": "", "margin": 0.0, "direction": own, **entry}
    faults += [f"{where}: unknown key {k!r}; valid: {', '.join(_KEYS)}" for k in full if k not in _KEYS]
    missing = [key for key in ("metric", "variant", "kind") if key not in full]
    faults += [f"{where}: key {key} is missing" for key in missing]
    wrong = [key for key, kinds in _KEYS.items() if key in full and type(full[key]) not in kinds]
    faults += [f"{where}: {key} has the wrong type; got {full[key]!r}" for key in wrong]
    if missing or wrong:
        return {}
    faults += check_choice(f"{where}: metric", full["metric"], REPORT_METRICS)
    faults += check_choice(f"{where}: kind", full["kind"], KINDS)
    faults += check_choice(f"{where}: direction", full["direction"], ("higher", "lower"))
    faults += _check_margin(where, full)
    return full


def _check_margin(where: str, full: Mapping[str, Any]) -> list[str]:
    margin, needed = full["margin"], full["kind"] in ("non_inferior", "equivalent")
    if not math.isfinite(margin) or margin < 0 or (needed and margin == 0):
        return [f"{where}: margin must be {'> 0' if needed else '>= 0'} and finite; got {margin!r}"]
    if margin >= 1 and full["metric"].startswith(_RATES):
        return [f"{where}: margin must be below 1, {full['metric']} is a rate; got {margin!r}"]
    return []


Label = Callable[[str, str], str]
"""Label of a variant from what is spoken of and the reference to it; "" if it is not in the plan."""


def resolve(
    hypotheses: tuple[Mapping[str, Any], ...], baseline: str, label: Label, faults: list[str]
) -> list[dict[str, Any]]:
    """Hypotheses with the labels of the variants they speak of; ``against`` is the baseline if not given."""
    resolved = []
    for number, entry in enumerate(hypotheses, 1):
        where = f"hypothesis {number}"
        if "all_of" in entry:
            parts = [
                _resolve_single(f"{where}, part {k}", part, baseline, label, faults)
                for k, part in enumerate(entry["all_of"], 1)
            ]
            resolved.append({**entry, "all_of": parts})
        else:
            resolved.append(_resolve_single(where, entry, baseline, label, faults))
    return resolved


def _resolve_single(
    where: str, entry: Mapping[str, Any], baseline: str, label: Label, faults: list[str]
) -> dict[str, Any]:
    variant = label(f"{where}: variant", entry["variant"])
    against = label(f"{where}: against", entry["against"]) if entry["against"] else baseline
    if variant and variant == against:
        faults.append(f"{where} compares {variant} with itself")
    if not entry["against"] and not baseline:
        faults.append(f"{where} needs against, or the sweep a baseline")
    return {**entry, "variant": variant, "against": against}


__all__ = ["KINDS", "read_hypotheses", "resolve"]
