"""The stability strip and the grader against its gold set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.plots.drawing import Drawing, Section, finish, n_words, say
from analysis.plots.stacks import (
    SURVIVORS,
    end_labels,
    highlight_words,
    highlighted,
    last_value,
    line,
    solid_part,
    stack,
    styled,
    widen_flat,
)
from analysis.plots.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {
    "entropy_tok": "entropy (nats)",
    "kl_k3": "KL k3 (nats)",
    "grad_norm": "gradient norm",
    "ratio_max": "largest ratio",
    "truncated_rate": "cap-hit rate",
    "groups_kept": "groups kept",
    "mean_test_runs": "test runs",
}
_GREY = "#999999"
_NEGLIGIBLE = 1e-6
"""A KL or a ratio that never moves this far is that of on-policy updates: nothing to see."""

_MARKED = (
    "collapse",
    "regressed",
    "entropy_collapsed",
    "entropy_exploded",
    "verification_collapse",
    "nonfinite",
    "diverged",
)


def strip(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """Signals of training stacked on one x axis, with what went wrong marked."""
    signals = {name: s for name, s in sweep["stability"]["signals"].items() if s and _moves(name, s)}
    if not signals:
        return None
    labels = [v["label"] for v in sweep["variants"] if any(v["label"] in s for s in signals.values())]
    chosen = highlighted(sweep, labels)
    look = styled(sweep, looks, chosen)
    figure, panels = stack(len(signals), look, height=0.78)
    last = max(one["step"][-1] for s in signals.values() for one in s.values() if one["step"])
    for axes, (name, per_variant) in zip(panels, signals.items(), strict=True):
        for label, one in per_variant.items():
            pale = label not in chosen
            style = looks[label] if pale else look[label]
            line(axes, one["step"], one["mean"], style, pale=pale, solid=solid_part(one))
        _dress(axes, name, last)
        _marks(axes, sweep["stability"]["events"], look)
    for axes in panels[:-1]:
        axes.tick_params(labelbottom=False)
    first = next(iter(signals.values()))
    end_labels(
        panels[0], look, {n: last_value(first[n]["step"], first[n]["mean"]) for n in chosen if n in first}
    )
    panels[-1].set_xlabel("training step", fontsize=8)
    alt = "; ".join(
        f"{_NAMES[name]}: "
        + ", ".join(
            f"{label} {one['mean'][0]:.3g} to {one['mean'][-1]:.3g}"
            for label, one in s.items()
            if label in chosen
        )
        for name, s in signals.items()
    )
    hidden = [_NAMES[name] for name, s in sweep["stability"]["signals"].items() if s and name not in signals]
    caption = (
        f"Mean over seeds per step; {SURVIVORS}. Vertical lines: collapses, regressions, non-finite values, "
        "in the colour of their variant (grey: of one drawn in grey). "
        + (f"Not drawn, because it stays below 1e-6: {', '.join(hidden)}. " if hidden else "")
        + highlight_words(sweep, chosen, len(labels))
        + n_words(sweep, "train_pass")
    )
    return finish(figure, "stability_strip", "Stability strip", caption, alt)


def _moves(name: str, per_variant: Mapping[str, Any]) -> bool:
    values = [v for one in per_variant.values() for v in one["mean"] if v is not None]
    if not values:
        return False
    if name == "kl_k3":
        return bool(max(abs(v) for v in values) > _NEGLIGIBLE)
    if name == "ratio_max":
        return bool(max(abs(v - 1) for v in values) > 1e-3)
    return True


def _dress(axes: Axes, name: str, last: float) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(_NAMES[name], fontsize=6.5, loc="left", pad=1.5)
    axes.set_xlim(-0.02 * last, 1.02 * last)
    axes.yaxis.set_major_locator(MaxNLocator(2))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    widen_flat(axes)


def _marks(axes: Axes, events: list[dict[str, Any]], look: Mapping[str, Look]) -> None:
    for event in events:
        if event["kind"] in _MARKED and event["step"] is not None:
            own = look.get(event["variant"])
            axes.axvline(event["step"], color=own.colour if own else _GREY, lw=0.7, ls=":", zorder=2)


def grader_drift(sweep: Section, looks: Mapping[str, Look]) -> Drawing | None:
    """Kendall's tau and top-1 agreement with the gold set over steps; nothing without a gold set."""
    drifts = {v["label"]: v["drift"] for v in sweep["stability"]["variants"] if v["drift"]}
    if not drifts:
        return None
    chosen = highlighted(sweep, list(drifts))
    look = styled(sweep, looks, chosen)
    titles = {
        "tau": "Kendall tau-b", "top1": "top-1 agreement", "consistency": "self-consistency",
        "parse_fail": "not parsed",
    }  # fmt: skip
    titles = {
        name: title
        for name, title in titles.items()
        if any(row[name]["value"] is not None for rows in drifts.values() for row in rows)
    }
    still = {name: level for name in titles if (level := _level(drifts, name)) is not None}
    shown = {name: title for name, title in titles.items() if name not in still} or dict(
        [*titles.items()][:1]
    )
    figure, panels = stack(len(shown), look, height=0.9)
    for axes, (name, title) in zip(panels, shown.items(), strict=True):
        for label, rows in drifts.items():
            pale = label not in chosen
            values = [row[name]["value"] for row in rows]
            line(
                axes, [row["step"] for row in rows], values, looks[label] if pale else look[label], pale=pale
            )
        axes.set_title(title, fontsize=7, loc="left", pad=2)
        axes.set_ylim(_drift_floor(name, drifts), 1.05)
    first = next(iter(shown))
    end_labels(panels[0], look, {n: drifts[n][-1][first]["value"] for n in chosen})
    panels[-1].set_xlabel("training step", fontsize=8)
    alt = "; ".join(
        f"{label}: tau {say(rows[0]['tau'])} to {say(rows[-1]['tau'])}" for label, rows in drifts.items()
    )
    caption = (
        "Agreement of the grader with a fixed gold set that is graded again during training, mean over runs; "
        "self-consistency: share of pairs ordered alike when shown in another order. "
        + "".join(
            f"Not drawn, because it is {level:g} throughout: {titles[name]}. "
            for name, level in still.items()
            if name not in shown
        )
        + highlight_words(sweep, chosen, len(drifts))
        + n_words(sweep, "train_pass")
    )
    return finish(figure, "grader_drift", "Grader drift", caption, alt)


def _level(drifts: Mapping[str, list[dict[str, Any]]], name: str) -> float | None:
    """The value that every grader has at every step, if there is one: a panel would show a straight line."""
    values = {row[name]["value"] for rows in drifts.values() for row in rows}
    return values.pop() if len(values) == 1 else None


def _drift_floor(name: str, drifts: Mapping[str, list[dict[str, Any]]]) -> float:
    """Shares start at 0; so does tau, unless a grader ever ranked against the labels."""
    values = [row[name]["value"] for rows in drifts.values() for row in rows]
    return -1.05 if any(v is not None and v < 0 for v in values) else -0.02
