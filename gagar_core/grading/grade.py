"""Grading the groups of a step: the shared workspace, and what happens when a grader cannot judge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gagar_core.grading.ranking import checked
from gagar_core.protocols import Grader, Sandbox
from gagar_core.types import CallResult, Group, Program, Ranking


@dataclass
class GroupWorkspace:
    """The programs of one group, side by side, and the sandbox that runs them."""

    group: Group
    sandbox: Sandbox
    actions: int = 0

    def calls(self, index: int, many: Sequence[tuple[Any, ...]]) -> list[CallResult]:
        """Call the program of trajectory ``index``; each call counts as one action."""
        self.actions += len(many)
        source = "\n".join(self.group.trajectories[index].files.values())
        program = Program(source, self.group.task.entry_point)
        return self.sandbox.calls_batch([(program, many)])[0]


def grade_groups(groups: Sequence[Group], grader: Grader, sandbox: Sandbox) -> list[Ranking]:
    """One usable ranking per group; an unusable one abstains with its reason.

    A grader that raises costs its group the grade, not the run; the exception's words become the reason.
    """
    rankings = []
    for group in groups:
        workspace = GroupWorkspace(group, sandbox)
        started = time.process_time()
        try:
            ranking = grader.grade(group, workspace)
        except Exception as err:  # the seam where a user's grader meets a running experiment
            nothing = (float("nan"),) * len(group.trajectories)
            ranking = Ranking(ranks=nothing, abstain=f"{type(err).__name__}: {err}")
        cpu = time.process_time() - started
        actions = max(ranking.actions, workspace.actions)
        rankings.append(checked(group, replace(ranking, cpu_s=ranking.cpu_s or cpu, actions=actions)))
    return rankings
