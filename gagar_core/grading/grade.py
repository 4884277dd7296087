"""Grading the groups of a step: one workspace each, and what happens when a grader cannot judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gagar_core.grading.controlled_error import with_error
from gagar_core.grading.ranking import abstaining, checked, words_of
from gagar_core.grading.settings import GraderSettings
from gagar_core.grading.workspace import GroupWorkspace, OverBudgetError
from gagar_core.protocols import Grader, Sandbox
from gagar_core.types import Group, Ranking

Streams = Callable[[int], np.random.Generator]
"""Group id -> the random numbers that belong to its grading."""

_FAULTS = (Exception, SystemExit)
"""What a grader may raise at the cost of its grade alone: here a user's grader meets a running experiment."""


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
    result = []
    answers = _judged(groups, grader, workspaces)
    for group, workspace, (answer, seconds) in zip(groups, workspaces, answers, strict=True):
        usable = _accounted(checked(group, answer), workspace, seconds)
        result.append(with_error(group, usable, settings, step, workspace.rng))
    return result


def _judged(
    groups: Sequence[Group], grader: Grader, workspaces: Sequence[GroupWorkspace]
) -> list[tuple[object, float]]:
    """Per group what the grader answered, and its CPU seconds.

    All groups at once where the grader can; if that fails one by one: only the faulty one abstains.
    """
    many: Any = getattr(grader, "grade_many", None)
    if many is not None and len(groups) > 1:
        started = time.process_time()
        try:
            answers = list(many(groups, workspaces))
        except _FAULTS:  # whoever raised is found, and named, by the groups' own calls below
            answers = []
        if len(answers) == len(groups):
            share = (time.process_time() - started) / len(groups)
            return [(answer, share) for answer in answers]
        for workspace in workspaces:
            workspace.actions = workspace.tokens = 0
    return [_one(group, grader, workspace) for group, workspace in zip(groups, workspaces, strict=True)]


def _one(group: Group, grader: Grader, workspace: GroupWorkspace) -> tuple[object, float]:
    started = time.process_time()
    answer: object
    try:
        answer = grader.grade(group, workspace)
    except OverBudgetError as err:
        answer = abstaining(group, str(err))
    except _FAULTS as err:
        answer = abstaining(group, words_of(err))
    return answer, time.process_time() - started


def _accounted(ranking: Ranking, workspace: GroupWorkspace, seconds: float) -> Ranking:
    return replace(
        ranking,
        cpu_s=ranking.cpu_s or seconds,
        actions=max(ranking.actions, workspace.actions),
        tokens=max(ranking.tokens, workspace.tokens),
    )
