"""Renders a report tree as one self-contained HTML page: no script, no network, good in print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.grader_value import MEASURES
from analysis.metrics import METRICS, PHASES
from analysis.plots.drawing import Drawing, prefix_ids
from analysis.rows import SIZES
from analysis.table import GRADED
from analysis.text import format_number, format_value, interval_text

_TEMPLATES = Path(__file__).parent / "templates"

HEADLINE = (
    "sft_pass", "held_out_pass", "pass_gain", "held_out_audit", "hack_gap",
    "tokens", "tokens_pass", "tokens_fail", "test_runs", "truncated",
)  # fmt: skip
COSTS = (
    "pass_at_tokens", "pass_at_cpu", "tokens_to_level", "cpu_to_level", "spent_tokens", "spent_cpu",
    "wasted_share",
)  # fmt: skip
SCOPE = ("diff_lines_pass", "functions_changed_pass")
COMPARED = ("held_out_pass", "held_out_audit", "hack_gap", "tokens", "pass_at_tokens", "pass_at_cpu")
COMPARED_MORE = ("tokens_pass", "tokens_fail", "test_runs", "truncated", *COSTS[2:], *SCOPE)
TRAINING_TABLE = (
    "train_pass", "train_tokens", "train_tokens_pass", "train_tokens_fail",
    "train_test_runs", "train_truncated",
)  # fmt: skip


def render(tree: Mapping[str, Any], figures: Sequence[Sequence[Drawing]]) -> str:
    """HTML of a report tree; ``figures`` holds the drawings of each of its sweeps, in order."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": format_number,
        "value": format_value,
        "interval": interval_text,
        "breakable": lambda name: Markup(escape(name).replace("=", Markup("=<wbr>"))),
    }
    drawings = [
        [(drawing, Markup(inline_svg(drawing.svg, f"s{n}-"))) for drawing in found]
        for n, found in enumerate(figures, start=1)
    ]
    template = environment.get_template("report.html")
    return template.render(
        tree=tree,
        metrics=METRICS,
        phases=PHASES,
        agreement=MEASURES,
        graded=GRADED,
        sizes=SIZES,
        headline=HEADLINE,
        compared=COMPARED,
        compared_more=COMPARED_MORE,
        costs=COSTS,
        scope=SCOPE,
        training=TRAINING_TABLE,
        drawings=drawings,
    )


def inline_svg(data: bytes, prefix: str) -> str:
    """The ``<svg>`` element of a drawing, scaling with the page; its meaning is in the figure's alt text.

    Ids get a prefix, because several sweeps draw the same figures.
    """
    text = data.decode()
    text = prefix_ids(text[text.index("<svg") :], prefix)
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} aria-hidden="true" focusable="false">{rest}'
