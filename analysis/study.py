"""What was planned, what ran, and what became of it: sweeps and their runs, from the small files alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gagar_core import records
from gagar_core.errors import RecordsError

FINISHED, DIVERGED, FAILED, KILLED = "finished", "diverged", "failed", "killed"
UNFINISHED, NOT_STARTED, DAMAGED = "unfinished", "not started", "damaged"
DEAD = (DIVERGED, FAILED, KILLED)
"""Statuses of runs that ended before their last step and will not go on by themselves."""

ISOLATED = ("namespaces", "landlock", "landlock-weak")
"""Sandbox levels that confine a program; anything else is reported as not isolated."""


@dataclass(frozen=True, slots=True)
class Run:
    """One planned or found run and its state; ``reason`` says why it is not finished."""

    path: Path
    run_id: str
    variant: str
    seed: int
    status: str
    reason: str = ""
    sandbox_level: str = ""
    config: dict[str, Any] = field(default_factory=dict, compare=False)
    code: str = ""
    """Digest of the code that ran it, joined by ``+`` if its attempts had several; "" if not recorded."""
    steps: int = 0
    """Steps that its result says it took; 0 while it is not finished."""
    apart: bool = False
    """Whether that is other code than the sweep's; ``variant`` then says which."""
    flags: tuple[str, ...] = ()
    """What its result says of its grader: agreement lost on the gold set, or that it could not be used."""

    @property
    def readable(self) -> bool:
        """Whether its tables can be read (they may be empty)."""
        return self.status not in (NOT_STARTED, DAMAGED)


@dataclass(frozen=True)
class Sweep:
    """The runs of one question. ``planned`` maps a variant to its planned seed blocks."""

    name: str
    path: Path
    question: str
    baseline: str | None
    hypotheses: tuple[dict[str, Any], ...]
    plan_digest: str
    planned: dict[str, tuple[int, ...]]
    has_plan: bool
    runs: tuple[Run, ...]
    warnings: tuple[str, ...] = ()

    @property
    def variants(self) -> list[str]:
        """Labels; the baseline first, then in the order of the plan, then by name."""
        labels = list(dict.fromkeys([*self.planned, *(run.variant for run in self.runs if run.variant)]))
        return sorted(labels, key=lambda label: label != self.baseline)

    @property
    def comparable(self) -> list[str]:
        """Labels without those of runs of other code, which are shown but compared with nothing."""
        apart = {run.variant for run in self.runs if run.apart}
        return [label for label in self.variants if label not in apart]

    def runs_of(self, variant: str) -> list[Run]:
        """Runs of one variant by seed."""
        return list(self._by_variant.get(variant, ()))

    @cached_property
    def _by_variant(self) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.variant, []).append(run)
        return found


def load_sweeps(path: Path) -> list[Sweep]:
    """The sweeps at ``path``: a root (all its sweeps), one sweep folder, or one run folder.

    Raises ``RecordsError`` if there is neither a run nor a plan.
    """
    runs = list(records.find_runs(path))
    if (path / "config.json").exists():
        return [_single_run(path)]
    folders = {_sweep_folder(run.path) for run in runs} | {p.parent for p in path.glob("sweep.json")}
    folders |= {p.parent for p in path.glob("*/sweep.json")}
    if not folders:
        raise RecordsError(
            f"{path} holds no runs: give a root (<sweep>/runs/<run_id>/config.json), a sweep folder or a run "
            "folder; start one with `python -m experiments.run` or `python -m sweeps submit`"
        )
    members: dict[Path, list[Path]] = {folder: [] for folder in sorted(folders)}
    for run in runs:
        members[_sweep_folder(run.path)].append(run.path)
    return [_load_sweep(folder, paths) for folder, paths in members.items()]


def require_readable(path: Path, sweeps: Iterable[Sweep]) -> None:
    """Raise ``RecordsError`` with everything found wrong unless some run can be read."""
    sweeps = list(sweeps)
    if any(run.readable for sweep in sweeps for run in sweep.runs):
        return
    lines = [f"{path}: no run can be read"]
    for sweep in sweeps:
        lines += [f"  - {sweep.name}: {warning}" for warning in sweep.warnings]
        lines += [f"  - {sweep.name}/{run.run_id}: {run.status}; {run.reason}" for run in sweep.runs]
    more = [f"  ... {len(lines) - 12} more"] if len(lines) > 12 else []
    raise RecordsError("\n".join(lines[:12] + more))


def _sweep_folder(run: Path) -> Path:
    return run.parent.parent if run.parent.name == "runs" else run.parent


def _single_run(path: Path) -> Sweep:
    run = load_run(path)
    planned: dict[str, tuple[int, ...]] = {run.variant: (run.seed,)}
    return Sweep(path.resolve().name, path, "", None, (), "", planned, False, (run,))


def load_run(path: Path) -> Run:
    """State of one run folder; a damaged or foreign one comes back as ``damaged`` with the reason."""
    folder = records.RunFolder(path)
    try:
        config = folder.config
        variant, seed = str(config["variant"]), int(config["seed"])
        status, reason = _status(folder)
        level = str(folder.meta.get("sandbox_level", ""))
        code = _code(folder)
        steps = int(folder.result.get("steps") or 0) if status == FINISHED else 0
        ended = status in (FINISHED, DIVERGED)
        flags = tuple(map(str, folder.result.get("grader_flags") or ())) if ended else ()
    except RecordsError as err:
        return Run(path, path.name, "", -1, DAMAGED, str(err))
    except (KeyError, TypeError, ValueError) as err:
        return Run(path, path.name, "", -1, DAMAGED, f"{path / 'config.json'} is incomplete: {err!r}")
    settings = dict(config.get("config") or {})
    return Run(path, folder.run_id, variant, seed, status, reason, level, settings, code, steps, flags=flags)


def _code(folder: records.RunFolder) -> str:
    codes = [str((folder.meta.get("code") or {}).get("digest", ""))]
    attempts = folder.attempts()
    if len(attempts) > 1:  # a resumed run may have gone on with other code than it was begun with
        claims = [folder.attempt_path(number) / "claim.json" for number in attempts]
        codes += [str(records.read_json(path).get("code", "")) for path in claims if path.exists()]
    return "+".join(dict.fromkeys(filter(None, codes)))


def keep_apart(runs: Iterable[Run], code: str = "") -> list[Run]:
    """Runs of other code than ``code`` (or than most have) become variants of their own.

    What differs between them and the others may be the code: they must not be averaged into an arm.
    """
    runs = list(runs)
    known = Counter(run.code for run in runs if run.code)
    code = code or max(known, key=lambda name: known[name], default="")
    return [
        replace(run, variant=f"{run.variant} [code {run.code}]", apart=True)
        if run.variant and run.code not in ("", code)
        else run
        for run in runs
    ]


def _first_code(folder: Path) -> str:
    """Digest of the code that a sweep was submitted with, before any that was let in as other code."""
    for path in sorted((folder / "submissions").glob("*/intent.json")):
        known = records.read_json(path).get("code") or {}
        if known and not known.get("other"):
            return str(known.get("digest", ""))
    return ""


def _status(folder: records.RunFolder) -> tuple[str, str]:
    if folder.finished:
        result = folder.result
        status = DIVERGED if result.get("status") == DIVERGED else FINISHED
        return status, str(result.get("reason") or "")
    attempts = folder.attempts()
    if not attempts:
        return UNFINISHED, "no result yet"
    exit_file = folder.attempt_path(attempts[-1]) / "exit.json"
    if not exit_file.exists():
        return UNFINISHED, f"attempt {attempts[-1]} has not ended, or was lost"
    ended = records.read_json(exit_file)
    status = KILLED if ended.get("status") == KILLED else FAILED
    return status, str(ended.get("reason") or f"attempt {attempts[-1]} ended without a result")


def _load_sweep(folder: Path, paths: list[Path]) -> Sweep:
    warnings: list[str] = []
    head = _read_head(folder, warnings)
    plan = _read_plan(folder, warnings)
    found = [load_run(path) for path in sorted({*paths, *_without_config(folder)})]
    found = keep_apart((_name_by_plan(run, plan) for run in found), _first_code(folder))
    known = {run.run_id for run in found}
    missing = [
        Run(folder / "runs" / row["run_id"], row["run_id"], row["variant"], row["seed"], NOT_STARTED)
        for row in plan
        if row["run_id"] not in known
    ]
    planned_ids = {row["run_id"] for row in plan}
    strangers = [run.run_id for run in found if plan and run.run_id not in planned_ids]
    if strangers:
        warnings.append(f"runs outside the plan: {', '.join(strangers)}")
    planned = _planned_seeds(plan, found)
    order = list(planned)
    runs = sorted(found + missing, key=lambda r: (_position(order, r.variant), r.variant, r.seed, r.run_id))
    return Sweep(
        name=str(head.get("name") or folder.resolve().name),
        path=folder,
        question=str(head.get("question") or ""),
        baseline=head.get("baseline"),
        hypotheses=tuple(h for h in head.get("hypotheses") or () if isinstance(h, dict)),
        plan_digest=str(head.get("plan_digest") or ""),
        planned=planned,
        has_plan=bool(plan),
        runs=tuple(runs),
        warnings=tuple(warnings),
    )


def _without_config(folder: Path) -> list[Path]:
    """Run folders that hold something, but not what says which run it is."""
    return [
        path
        for path in (folder / "runs").glob("*")
        if path.is_dir() and not (path / "config.json").exists() and any(path.iterdir())
    ]


def _position(order: list[str], variant: str) -> int:
    return order.index(variant) if variant in order else len(order)


def _read_head(folder: Path, warnings: list[str]) -> dict[str, Any]:
    path = folder / "sweep.json"
    if not path.exists():
        return {}
    head = records.read_json(path)
    if not isinstance(head, dict):
        raise RecordsError(f"{path} must hold an object; it was damaged or written by something else")
    if head.get("schema_version") != records.SCHEMA_VERSION:
        raise RecordsError(
            f"{path} has version {head.get('schema_version')!r}; this code reads version "
            f"{records.SCHEMA_VERSION}: use the version of the workbench that wrote it"
        )
    if not (folder / "plan.jsonl").exists():
        warnings.append("plan.jsonl is missing: n planned is what was found")
    return head


def _read_plan(folder: Path, warnings: list[str]) -> list[dict[str, Any]]:
    """Rows of the plan that are runs; a line that cannot be read is named and left out."""
    path = folder / "plan.jsonl"
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        try:
            row = json.loads(line)
            if row.get("kind", "run") != "run":
                continue
            rows.append(
                {"run_id": str(row["run_id"]), "variant": str(row["variant"]), "seed": int(row["seed"])}
            )
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            warnings.append(f"plan.jsonl line {number} cannot be read ({err!r}): n planned may be too low")
    return rows


def _name_by_plan(run: Run, plan: list[dict[str, Any]]) -> Run:
    """A damaged run still has its place in the plan: its folder's name is its id."""
    if run.status != DAMAGED:
        return run
    for row in plan:
        if row["run_id"] == run.path.name:
            return Run(run.path, run.path.name, row["variant"], row["seed"], DAMAGED, run.reason)
    return run


def _planned_seeds(plan: list[dict[str, Any]], found: list[Run]) -> dict[str, tuple[int, ...]]:
    source: Iterable[tuple[str, int]]
    source = [(row["variant"], row["seed"]) for row in plan] or [
        (run.variant, run.seed) for run in sorted(found, key=lambda r: (r.variant, r.seed)) if run.variant
    ]
    planned: dict[str, list[int]] = {}
    for variant, seed in source:
        planned.setdefault(variant, []).append(seed)
    return {variant: tuple(sorted(set(seeds))) for variant, seeds in planned.items()}
