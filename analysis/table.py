"""Prints parts of a report as text, Markdown, CSV or JSON: ``python -m analysis table``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.text import format_number, format_value, interval_text
from gagar_core.errors import InputError, check_choice, gather

GRADED = ("held_out_audit", "held_out_pass", "tokens")
"""What the table of graders shows of their effect: differences to the baseline."""

Row = dict[str, str]
Tree = Mapping[str, Any]


def load_tree(path: Path) -> Tree:
    """A report already written (``report.json`` or its folder) or, for run folders, one made now."""
    from analysis.data import read
    from analysis.report import build, load_report

    if path.is_file():
        return load_report(path)
    if (path / "report.json").is_file():
        return load_report(path / "report.json")
    return build(read(path), path.resolve().name)


def rows_of(tree: Tree, what: str, metrics: Sequence[str] = (), sweep: str | None = None) -> list[Row]:
    """Rows of one table, over every sweep or the named one; all cells are text."""
    faults = check_choice("what", what, TABLES)
    for metric in metrics:
        faults += check_choice("metric", metric, tree["metrics"])
    names = [section["name"] for section in tree["sweeps"]]
    if sweep is not None:
        faults += check_choice("sweep", sweep, names)
    gather(faults, headline="cannot print this table", error=InputError)
    wanted = list(metrics) or list(tree["metrics"])
    found: list[Row] = []
    for section in tree["sweeps"]:
        if sweep in (None, section["name"]):
            for row in TABLES[what](tree, section, wanted):
                found.append(({"sweep": section["name"]} if len(names) > 1 else {}) | row)
    return found


def _variants(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for variant in section["variants"]:
        for key in metrics:
            number = variant["values"][key]
            yield {"variant": variant["label"], "metric": key} | _number(number)


def _number(number: Tree) -> Row:
    return {
        "value": format_value(number["value"], number["unit"]),
        "interval": interval_text(number),
        "n": f"{number['n_used']}/{number['n_planned']}",
        "step": _text(number["step"]),
        "unit": number["unit"],
        "policy": number["policy"],
    }


def _comparisons(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for row in section["comparisons"]:
        if row["metric"] in metrics:
            yield (
                {"metric": row["metric"], "variant": row["variant"], "against": row["against"]}
                | _number(row)
                | {
                    "method": row["method"],
                    "p": format_value(row["p"]),
                    "p_holm": format_value(row["p_holm"]),
                    "sign_flip": format_value(row["sign_flip_p"]),
                    "detectable": format_value(row["detectable"], row["unit"]),
                    "declared": "declared" if row["declared"] else "exploratory",
                }
            )


def _verdicts(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for row in section["verdicts"]:
        parts = row.get("all_of", [row])
        for part in parts:
            effect = part.get("effect")
            yield {
                "hypothesis": part.get("sentence", row["name"]),
                "verdict": part["verdict"],
                "effect": "–" if effect is None else format_number(effect),
                "p_support_holm": format_value(part.get("p_support_holm")),
                "p_refute_holm": format_value(part.get("p_refute_holm")),
                "seeds_to_decide": _seeds(part),
                "why": part["why"],
            }
        if "all_of" in row:
            blank = dict.fromkeys(("effect", "p_support_holm", "p_refute_holm", "seeds_to_decide"), "")
            yield {"hypothesis": row["name"], "verdict": row["verdict"], **blank, "why": row["why"]}


def _seeds(part: Tree) -> str:
    seeds = part.get("seeds_to_decide")
    if not seeds:
        return "–"
    return str(seeds["value"]) if seeds["value"] is not None else seeds["why"]


def _runs(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for run in section["runs"]:
        head = {"run": run["run_id"], "variant": run["variant"], "seed": _text(run["seed"])}
        state = {"status": run["status"], "last_step": _text(run["last_step"]), "reason": run["reason"]}
        units = {key: tree["metrics"][key]["unit"] for key in metrics}
        values = {key: format_value(run["values"].get(key), units[key]) for key in metrics}
        yield head | state | values


_EFFICIENCY = (
    "held_out_pass", "pass_at_tokens", "pass_at_cpu", "tokens_to_level", "cpu_to_level", "spent_tokens",
    "spent_cpu", "wasted_share", "diff_lines_pass", "functions_changed_pass",
)  # fmt: skip


def _efficiency(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for variant in section["variants"]:
        numbers = [variant["values"][key] for key in _EFFICIENCY]
        names = [f"{tree['metrics'][key]['label']}, {tree['metrics'][key]['unit']}" for key in _EFFICIENCY]
        cells = [format_value(number["value"], number["unit"]) for number in numbers]
        used = f"{numbers[1]['n_used']}/{numbers[1]['n_planned']}"
        yield {"variant": variant["label"]} | dict(zip(names, cells, strict=True)) | {"n": used}


def _tasks(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for row in section["tasks"]:
        interval, variance = row["iqm_interval"], row["variance"]
        shares = {
            f"share_{part}": format_value(variance.get(f"share_{part}"))
            for part in ("seed", "seed_task", "attempt")
        }
        yield {
            "variant": row["label"],
            "tasks": _text(row["n_tasks"]),
            "iqm": format_value(row["iqm"], "share"),
            "interval": "–" if interval is None else f"[{interval['low']:.3f}, {interval['high']:.3f}]",
            "p_improvement": format_value(row["p_improvement"], "share"),
            **shares,
            "why": row["why"] or variance["why"],
        }


def _length(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for v in section["length"]["variants"]:
        push = v["push"]["passing"]
        yield {
            "variant": v["label"],
            "growth, % per 100 steps": format_number(v["growth"]["all"]["percent"]),
            "median": format_value(v["levels"]["sampled"]["all"]["gen_tokens_shape"]["q50"]["value"]),
            "failing / passing": format_value(v["fail_over_pass"]["value"]),
            "change": format_value(v["change"]["total"]["value"]),
            "by mix": format_value(v["change"]["mix"]["value"]),
            "within": format_value(v["change"]["within"]["value"]),
            "tail share": format_value(v["tail_share"]["value"], "share"),
            "overlong": format_value(v["causes"]["overlong"]["value"], "share"),
            "push among passing, used": format_value(push["used"]["spearman"]["value"]),
            "push among passing, base": format_value(push["base"]["spearman"]["value"]),
            "inflating without gain": {True: "yes", False: "no", None: "unknown"}[v["inflating"]["flag"]],
        }


def _stability(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for v in section["stability"]["variants"]:
        counts = {
            kind.replace("_", " "): f"{len(share['hit'])} of {share['n']}"
            for kind, share in v["shares"].items()
        }
        yield {
            "variant": v["label"],
            "sd over seeds": format_value(v["seeds"]["sd"], "share"),
            "long-term risk": format_value(v["items"]["long_term_risk"]["value"], "share"),
            "entropy": format_value(v["items"]["entropy_tok"]["value"]),
            "fails audit": format_value(v["hacking"]["rate"], "share"),
            "wasted tokens": format_value(v["items"]["wasted_tokens"]["value"], "share"),
        } | counts


def _events(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for event in section["stability"]["events"]:
        yield {key: _text(event[key]) for key in ("kind", "variant", "seed", "step", "run_id", "text")}


def _cost(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for row in section["cost"]:
        yield {"variant": row["label"], "phase": "all"} | _number(row["total"])
        for column, number in row["phases"].items():
            yield {"variant": row["label"], "phase": column} | _number(number)


def _graders(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    effects = {(c["variant"], c["metric"]): c for c in section["comparisons"]}
    for row in section["graders"]:
        label = row["label"]
        mark = " (upper bound: reads the label tests)" if row["upper_bound"] else ""
        yield (
            {"variant": label + mark}
            | {name: format_number(number) for name, number in row["agreement"].items()}
            | {
                f"{key} - baseline": format_number(effects[label, key]) if (label, key) in effects else "–"
                for key in GRADED
            }
            | {
                "grading CPU s": format_number(row["grading"]),
                "share of the run": format_value(row["share"]["value"], "share"),
                "training of the grader, CPU s": format_number(row["training"]),
                "run, CPU s": format_number(row["run"]),
            }
        )


def _warnings(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for row in section["warnings"]:
        yield {"code": row["code"], "warning": row["text"]}


def _metrics(tree: Tree, section: Tree, metrics: Sequence[str]) -> Iterable[Row]:
    for key in metrics:
        entry = tree["metrics"][key]
        yield {"metric": key, "unit": entry["unit"], "better": entry["better"], "formula": entry["formula"]}


TABLES: dict[str, Callable[[Tree, Tree, Sequence[str]], Iterable[Row]]] = {
    "variants": _variants,
    "comparisons": _comparisons,
    "verdicts": _verdicts,
    "efficiency": _efficiency,
    "runs": _runs,
    "tasks": _tasks,
    "length": _length,
    "stability": _stability,
    "events": _events,
    "graders": _graders,
    "cost": _cost,
    "warnings": _warnings,
    "metrics": _metrics,
}
"""Name of a table -> its rows."""


def _text(value: object) -> str:
    return "–" if value is None else str(value)


def as_text(rows: Sequence[Row]) -> str:
    """Columns aligned with spaces."""
    if not rows:
        return "(no rows)"
    names = list(rows[0])
    table = [names] + [[row.get(name, "") for name in names] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(rows: Sequence[Row]) -> str:
    """A pipe table; pipes and line breaks inside cells are escaped."""
    if not rows:
        return "(no rows)"
    names = list(rows[0])
    body = [[row.get(name, "").replace("|", "\\|").replace("\n", " ") for name in names] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [names, ["---"] * len(names), *body])


def as_csv(rows: Sequence[Row]) -> str:
    """Comma-separated values with a header."""
    stream = io.StringIO()
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return stream.getvalue().rstrip("\n")


def as_json(rows: Sequence[Row]) -> str:
    """A list of objects."""
    return json.dumps(list(rows), indent=1, ensure_ascii=False)


FORMATS: dict[str, Callable[[Sequence[Row]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
