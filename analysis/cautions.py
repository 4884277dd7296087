"""What a reader must know before believing a sweep's numbers, as ``{code, text, runs}`` objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from analysis.data import SweepData
from analysis.endpoints import FINISHED_ONLY, LAST_COMMON
from analysis.metrics import BASE_CURVE, EVALS
from analysis.study import DAMAGED, FINISHED, ISOLATED, NOT_STARTED, UNFINISHED, Run, Sweep
from analysis.verdicts import depends_on_policy

Warning_ = dict[str, Any]


def warnings_of(data: SweepData, verdicts: Sequence[Mapping[str, Any]]) -> list[Warning_]:
    """Everything to be read with care, most serious first."""
    sweep = data.sweep
    found = _not_isolated(sweep) + _other_code(sweep)
    found += [_warning("plan", text) for text in sweep.warnings]
    found += [
        _warning("run", f"{_name(run)} {_fate(data, run)}", [run.run_id])
        for run in sweep.runs
        if run.status != FINISHED
    ]
    found += _graders(sweep)
    found += _files(data)
    found += _endpoints(data)
    found += _twins(data)
    return found + _hypotheses(data, verdicts)


def sandbox_levels(sweep: Sweep) -> dict[str, Any]:
    """Levels as recorded; a started run that recorded none counts as not isolated."""
    levels: dict[str, list[str]] = {}
    for run in sweep.runs:
        if run.readable:
            levels.setdefault(run.sandbox_level or "not recorded", []).append(run.run_id)
    exposed = sorted(i for level, ids in levels.items() if level not in ISOLATED for i in ids)
    return {"levels": {level: sorted(ids) for level, ids in levels.items()}, "not_isolated": exposed}


def state_of(sweep: Sweep) -> dict[str, Any]:
    """How far the sweep is; ``reached`` once every planned run has ended. Numbers seen before are a peek."""
    planned = sum(len(seeds) for seeds in sweep.planned.values())
    statuses = [run.status for run in sweep.runs]
    running, waiting = statuses.count(UNFINISHED), statuses.count(NOT_STARTED)
    reached = running == 0 and waiting == 0
    words = ""
    if not reached:
        words = (
            f"Planned n not reached: {planned - running - waiting} of {planned} runs have ended, "
            f"{running} are unfinished, {waiting} have not started. Deciding now would be peeking: intervals "
            "and p values hold for the planned n."
        )
    return {"reached": reached, "unfinished": running, "not_started": waiting, "words": words}


def _warning(code: str, text: str, runs: Iterable[str] = ()) -> Warning_:
    return {"code": code, "text": text, "runs": list(runs)}


def _not_isolated(sweep: Sweep) -> list[Warning_]:
    sandbox = sandbox_levels(sweep)
    if not sandbox["not_isolated"]:
        return []
    levels = ", ".join(sorted(level for level in sandbox["levels"] if level not in ISOLATED))
    text = (
        f"programs ran NOT ISOLATED (sandbox level {levels}) in {len(sandbox['not_isolated'])} of "
        f"{sum(run.readable for run in sweep.runs)} runs: generated code had this account's rights"
    )
    return [_warning("sandbox", text, sandbox["not_isolated"])]


def _other_code(sweep: Sweep) -> list[Warning_]:
    """Runs of other code than the sweep's: they are in no variant and no comparison of it."""
    by_code: dict[str, list[str]] = {}
    for run in sweep.runs:
        if run.apart:
            by_code.setdefault(run.code, []).append(run.run_id)
    return [
        _warning(
            "other_code",
            f"{len(ids)} runs are of other code ({code}) than this sweep: they are kept apart as variants of "
            "their own, and compared with nothing",
            sorted(ids),
        )
        for code, ids in sorted(by_code.items())
    ]


def _name(run: Run) -> str:
    return f"{run.variant} seed {run.seed} ({run.run_id})" if run.variant else run.run_id


def _fate(data: SweepData, run: Run) -> str:
    step = data.last_steps.get(run.run_id)
    at = "before its first step" if step is None else f"at step {step}"
    reason = f": {run.reason}" if run.reason else ""
    if run.status == NOT_STARTED:
        return "is planned and has not started"
    if run.status == DAMAGED:
        return f"is damaged and left out{reason}"
    if run.status == UNFINISHED:
        return f"is not finished, last recorded {at}{reason}"
    return f"{run.status} {at}{reason}"


def _graders(sweep: Sweep) -> list[Warning_]:
    """Runs whose grader was flagged while they trained: what they show may be the grader's failing."""
    return [
        _warning("grader", f"{_name(run)}: the grader: {_shown(run.flags)}", [run.run_id])
        for run in sweep.runs
        if run.flags
    ]


def _shown(flags: Sequence[str]) -> str:
    """The first and the last of them."""
    if len(flags) <= 2:
        return "; ".join(flags)
    return f"{flags[0]}; ... ({len(flags)} flags in all); {flags[-1]}"


def _files(data: SweepData) -> list[Warning_]:
    found = [
        _warning("gap", f"{gap.run_id} lacks steps {_ranges(gap.steps)} of table {gap.table}", [gap.run_id])
        for gap in data.gaps
    ]
    for table, names in data.unknown.items():
        text = f"table {table} has columns unknown to this version, left out: {', '.join(names)}"
        found.append(_warning("unknown_columns", text))
    for run_id, columns in data.nonfinite.items():
        counts = ", ".join(f"{name} {n}" for name, n in sorted(columns.items()))
        text = (
            f"{run_id} recorded NaN or infinity in steps ({counts}); such entries are counted, not averaged"
        )
        found.append(_warning("nonfinite", text, [run_id]))
    return found


def _endpoints(data: SweepData) -> list[Warning_]:
    found = []
    for label in data.sweep.variants:
        endpoint = data.ends[label, EVALS]
        found += _without_values(data, label)
        if endpoint.policy == FINISHED_ONLY:
            text = f"{label}: dead runs are left out; if they died of bad training, its numbers flatter it"
            found.append(_warning("survivors", text))
        elif endpoint.policy == LAST_COMMON:
            found.append(_warning("common_step", f"{label}: read off at step {endpoint.step}, {LAST_COMMON}"))
        planned = len(data.sweep.planned.get(label, ()))
        if data.sweep.has_plan and len(endpoint.run_ids) < planned:
            text = f"{label}: planned n not reached, {len(endpoint.run_ids)} of {planned} runs"
            found.append(_warning("n_planned", text))
        if len(endpoint.run_ids) == 1:
            found.append(_warning("one_run", f"{label}: one run, so no interval can be given"))
    return found


def _without_values(data: SweepData, label: str) -> list[Warning_]:
    done = [run for run in data.sweep.runs_of(label) if run.status == FINISHED]
    recorded = set(data.curves[BASE_CURVE[EVALS]].select(run.run_id for run in done).recorded())
    return [
        _warning("no_values", f"{_name(run)} is finished but has no held-out evaluation", [run.run_id])
        for run in done
        if run.run_id not in recorded
    ]


def _twins(data: SweepData) -> list[Warning_]:
    """Two runs of one variant and seed: replication is by seed block, so a second one is not a replicate."""
    seen: dict[tuple[str, int], list[str]] = {}
    for run in data.sweep.runs:
        if run.readable:
            seen.setdefault((run.variant, run.seed), []).append(run.run_id)
    return [
        _warning(
            "twins",
            f"{label} seed {seed} has {len(ids)} runs: comparisons take their mean as one seed block",
            ids,
        )
        for (label, seed), ids in sorted(seen.items())
        if len(ids) > 1
    ]


def _hypotheses(data: SweepData, verdicts: Sequence[Mapping[str, Any]]) -> list[Warning_]:
    found = [
        _warning("hypothesis", f"hypothesis {row['name']!r} cannot be judged: {row['why']}")
        for row in verdicts
        if row.get("unusable")
    ]
    found += [
        _warning("policy", f"verdict on {row['name']!r} changes with the treatment of dead runs")
        for row in verdicts
        if depends_on_policy(dict(row))
    ]
    if verdicts and not data.sweep.plan_digest:
        text = "the sweep has no plan digest: nothing shows that its hypotheses were declared before the runs"
        found.append(_warning("undeclared", text))
    return found


def _ranges(steps: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for step in steps:
        if parts and step == parts[-1][1] + 1:
            parts[-1][1] = step
        else:
            parts.append([step, step])
    return ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in parts)
