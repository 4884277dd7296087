"""A recorded group as one self-contained HTML page: no script, no network, good in print and on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.recorded.find import label
from experiments.recorded.group import Candidate, RecordedGroup
from experiments.recorded.story import failing_untouched, headline, story, sum_kept
from experiments.recorded.text import number, one_line, plural, share, signed, verdict, visible
from gagar_core.records import RunFolder

_FOLDER = Path(__file__).parent

_BEST, _WORST = (0, 76, 134), (170, 208, 236)
"""Colours of a pass with weight 1 and of one with weight 0; between them in proportion."""

SHOWN_AXES = ("sampling", "shaping", "estimator", "grader", "weighting", "redistribution", "loss")
"""Choices that say what happens to a group."""


@dataclass(frozen=True)
class Scale:
    """Places values on a track whose ends are the least and the largest of them, 0 included; percent."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Where a value lies."""
        return 100.0 * (value - self.low) / (self.high - self.low or 1.0)

    def span(self, value: float) -> dict[str, str]:
        """Left end and width of a bar from 0 to the value."""
        ends = sorted((self.at(0.0), self.at(value)))
        return {"left": f"{ends[0]:.2f}%", "width": f"{ends[1] - ends[0]:.2f}%"}


def render(group: RecordedGroup, run: RunFolder) -> str:
    """The page of a group of ``run``."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": visible, "number": number, "signed": signed, "one_line": one_line, "plural": plural,
    }  # fmt: skip
    scale = _scale(group.candidates)
    return environment.get_template("group.html").render(
        group=group,
        run_id=run.path.name,
        run_label=label(run),
        headline=headline(group),
        chapters=story(group),
        choices=_choices(group),
        rows=[_row(group, candidate, scale) for candidate in group.candidates],
        zero=f"{scale.at(0.0):.2f}%",
        stacks=_stacks(group),
        sum_kept=sum_kept(group),
        failing_untouched=failing_untouched(group),
        public=_public(group),
    )


def _scale(candidates: Sequence[Candidate]) -> Scale:
    values = [value for c in candidates for value in (c.base, c.used) if value is not None]
    return Scale(min([0.0, *values]), max([0.0, *values]))


def _row(group: RecordedGroup, candidate: Candidate, scale: Scale) -> dict[str, Any]:
    row = candidate.row
    tests = share(row["reward_pass"], row["reward_n"])
    return {
        "candidate": candidate,
        "index": candidate.index,
        "verdict": verdict(candidate.passed, lucky=candidate.lucky, recorded=row["verdict"]),
        "class": "lucky" if candidate.lucky else "pass" if candidate.passed else "fail",
        "tests": tests if row["reward_pass"] is not None else ("pass" if candidate.passed else "fail"),
        "public": share(row["public_pass"], row["public_n"]) if row["public_pass"] is not None else "",
        "label": share(row["label_pass"], row["label_n"]) if row["label_pass"] is not None else "",
        "audit": share(row["audit_pass"], row["audit_n"]),
        "heard": _heard(candidate),
        "weighted": group.acted and candidate.passed,
        "colour": _colour(candidate)[0],
        "before": None if candidate.base is None else scale.span(candidate.base),
        "after": None if candidate.used is None else scale.span(candidate.used),
        "same": candidate.base == candidate.used,
        "change": None if candidate.used is None else candidate.used - (candidate.base or 0.0),
    }


def _heard(candidate: Candidate) -> str:
    agent = sum(turn.role == "agent" for turn in candidate.turns)
    others = len(candidate.turns) - agent
    return plural(agent, "turn") + (f" and {plural(others, 'observation')}" if others else "")


def _colour(candidate: Candidate) -> tuple[str, str]:
    """Fill of a candidate, darker for a higher weight, and a text colour that can be read on it."""
    if not candidate.passed:
        return "#b9b2ab", "#1a1a1a"
    strength = min(max(candidate.weight or 0.0, 0.0), 1.0)
    mixed = [round(w + strength * (b - w)) for b, w in zip(_BEST, _WORST, strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in mixed), "#ffffff" if strength > 0.55 else "#1a1a1a"


def _stacks(group: RecordedGroup) -> list[dict[str, Any]]:
    """The passing rows' advantages laid end to end, before and after; only where all are positive."""
    rows = [c for c in group.passing if (c.base or 0.0) > 0 and (c.used or 0.0) > 0]
    if not group.acted or len(rows) != len(group.passing):
        return []
    totals = [sum(c.base or 0.0 for c in rows), sum(c.used or 0.0 for c in rows)]
    largest = max(totals)
    stacks = []
    for name, total, values in (
        ("before", totals[0], [c.base or 0.0 for c in rows]),
        ("after", totals[1], [c.used or 0.0 for c in rows]),
    ):
        parts = []
        for candidate, value in zip(rows, values, strict=True):
            fill, ink = _colour(candidate)
            width = f"{100 * value / largest:.3f}%"
            parts.append({"index": candidate.index, "value": value, "width": width, "fill": fill, "ink": ink})
        stacks.append({"name": name, "total": total, "parts": parts})
    return stacks


def _choices(group: RecordedGroup) -> list[tuple[str, str, str]]:
    """Axis, choice, and its fields as words, of everything that says what happens to a group."""
    found = []
    for axis in SHOWN_AXES:
        settings = group.settings(axis)
        kind = settings.pop("kind", "")
        if kind:
            found.append(
                (axis, kind, ", ".join(f"{name} {one_line(str(v), 40)}" for name, v in settings.items()))
            )
    return found


def _public(group: RecordedGroup) -> list[tuple[str, str]]:
    if group.task is None:
        return []
    return [(", ".join(map(repr, case.args)), repr(case.expected)) for case in group.task.public]
