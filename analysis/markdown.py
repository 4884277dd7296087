"""The report as Markdown, for issues and diffs: tables from report.json, figures as relative PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.plots.drawing import Drawing
from analysis.table import as_markdown, rows_of
from analysis.text import format_number, format_value

Tree = Mapping[str, Any]

_HEADLINE = ("sft_pass", "held_out_pass", "held_out_audit", "hack_gap", "tokens", "test_runs", "truncated")
_COMPARED = (*_HEADLINE[1:], "pass_at_tokens", "pass_at_cpu", "wasted_share", "functions_changed_pass")


def render_markdown(tree: Tree, figures: Sequence[Sequence[Drawing]], paths: Sequence[Sequence[str]]) -> str:
    """Markdown of a report tree; ``paths`` holds the file of each drawing, relative to the report."""
    lines = [f"# {_plain(tree['title'])}", ""]
    if tree["compare"]:
        lines += _compare(tree)
    for section, drawings, files in zip(tree["sweeps"], figures, paths, strict=True):
        lines += _sweep(tree, section)
        for drawing, file in zip(drawings, files, strict=True):
            caption = f"{_plain(drawing.caption)} (figure id `{drawing.key}`)"
            lines += [
                f"### {_plain(drawing.title)}",
                "",
                f"![{_plain(drawing.alt)}]({file})",
                "",
                caption,
                "",
            ]
    return "\n".join(lines)


def _sweep(tree: Tree, section: Tree) -> list[str]:
    def table(what: str, metrics: Sequence[str] = ()) -> str:
        return as_markdown(rows_of(tree, what, metrics, section["name"]))

    state = section["state"]
    lines = [f"## {_plain(section['name'])}", "", _plain(section["question"]), ""]
    lines += [
        f"{section['n_finished']} of {section['n_planned']} planned runs finished. {state['words']}".strip(),
        "",
    ]
    if section["left_out"]:
        lines += [f"All variants: {_plain(' '.join(section['left_out']))} (left out of their names).", ""]
    if section["verdicts"]:
        lines += ["### Verdicts", "", table("verdicts"), ""]
    if section["warnings"]:
        lines += ["### Read with care", ""]
        lines += [f"- {_plain(warning['text'])}" for warning in section["warnings"]] + [""]
    lines += ["### Held-out results", "", table("variants", _HEADLINE), ""]
    lines += ["### Per generated token and per CPU second", "", table("efficiency"), ""]
    if section["comparisons"]:
        lines += [
            f"### Differences to {_plain(section['baseline'])}",
            "",
            table("comparisons", _COMPARED),
            "",
        ]
    lines += ["### Trajectory length", "", table("length"), ""]
    if section["graders"]:
        lines += ["### Graders: how right, what for, at what cost", "", table("graders"), ""]
    lines += ["### Stability", "", table("stability"), "", "### Cost", "", table("cost"), ""]
    return lines


def _compare(tree: Tree) -> list[str]:
    found = tree["compare"]
    rows = [
        {
            "metric": tree["metrics"][row["metric"]]["label"],
            "difference": format_number(row),
            "p": format_value(row["p"]),
            "step": str(row["step"]),
        }
        for row in found["rows"]
    ]
    head = f"## {_plain(found['variant'])} against {_plain(found['against'])}"
    settings = [f"- {axis}: {_plain(a)} against {_plain(b)}" for axis, (a, b) in found["settings"].items()]
    return [head, "", _plain(found["note"]), "", *settings, "", as_markdown(rows), ""]


def _plain(text: object) -> str:
    """Text that stays text: no markup, no line breaks."""
    escaped = str(text).replace("\\", "\\\\").replace("\n", " ")
    for mark in "`*_[]<>|#":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped
