"""Grading the groups of a step: one workspace each, and what happens when a grader cannot judge."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gagar_core.grading.controlled_error import with_error
from gagar_core.grading.ranking import checked
from gagar_core.grading.settings import GraderSettings
from gagar_core.grading.workspace import GroupWorkspace, OverBudgetError
from gagar_core.protocols import Grader, Sandbox
from gagar_core.types import Group, Ranking

Streams = Callable[[int], np.random.Generator]
"""Group id -> the random numbers that belong to its grading."""


def grade_groups(
    groups: Sequence[Group],
    grader: Grader,
    sandbox: Sandbox,
    *,
    settings: GraderSettings | None = None,
    step: int = 0,
    streams: Streams = lambda group: np.random.default_rng(group),
) -> list[Ranking]:
    """One usable ranking per group; an unusable one abstains with its reason.

    A grader that raises costs its group the grade, not the run; the exception's words become the reason.
    ``settings`` hold the budgets and the controlled error; None = neither.
    """
    settings = settings or GraderSettings()
    workspaces = [
        GroupWorkspace(group, sandbox, streams(group.id), settings.max_actions, settings.max_tokens)
        for group in groups
    ]
    rankings = _judged(groups, grader, workspaces)
    result = []
    for group, workspace, ranking in zip(groups, workspaces, rankings, strict=True):
        usable = checked(group, _accounted(ranking, workspace))
        result.append(with_error(group, usable, settings, step, workspace.rng))
    return result


def _judged(groups: Sequence[Group], grader: Grader, workspaces: Sequence[GroupWorkspace]) -> list[Ranking]:
    """All groups at once where the grader can; if that fails one by one: only the faulty one abstains."""
    many: Any = getattr(grader, "grade_many", None)
    if many is not None and len(groups) > 1:
        started = time.process_time()
        try:
            rankings = list(many(groups, workspaces))
        except Exception:  # whoever raised is found, and named, by the groups' own calls below
            for workspace in workspaces:
                workspace.actions = workspace.tokens = 0
        else:
            if len(rankings) == len(groups):
                share = (time.process_time() - started) / len(groups)
                return [replace(ranking, cpu_s=ranking.cpu_s or share) for ranking in rankings]
    return [_one(group, grader, workspace) for group, workspace in zip(groups, workspaces, strict=True)]


def _one(group: Group, grader: Grader, workspace: GroupWorkspace) -> Ranking:
    started = time.process_time()
    try:
        ranking = grader.grade(group, workspace)
        if not isinstance(ranking, Ranking):
            msg = f"it returned {type(ranking).__name__}, not a Ranking"
            raise TypeError(msg)
    except OverBudgetError as err:
        ranking = abstaining(group, str(err))
    except Exception as err:  # the seam where a user's grader meets a running experiment
        ranking = abstaining(group, f"{type(err).__name__}: {err}"[:200])
    return replace(ranking, cpu_s=ranking.cpu_s or time.process_time() - started)


def abstaining(group: Group, reason: str) -> Ranking:
    """No judgement of a group, for a reason."""
    return Ranking(ranks=(math.nan,) * len(group.trajectories), abstain=reason)


def _accounted(ranking: Ranking, workspace: GroupWorkspace) -> Ranking:
    return replace(
        ranking,
        actions=max(ranking.actions, workspace.actions),
        tokens=max(ranking.tokens, workspace.tokens),
    )
