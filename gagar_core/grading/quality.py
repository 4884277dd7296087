"""The quality that graders are trained and judged by: label tests first, then size, then effort.

Reward tests decide who passes; who passes by luck shows in the label tests, a separate draw that no policy
ever sees. Audit tests are not read here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gagar_core.protocols import Sandbox
from gagar_core.tasks.checks import num_tests, num_tests_passed
from gagar_core.tasks.execution import run_tests
from gagar_core.types import Group, Trajectory

LABEL_WEIGHT = 2.0
"""Quality of passing all label tests."""
NODE_COST = 0.01
"""Quality lost per node of the program's syntax tree."""
TOKEN_COST = 0.005
"""Quality lost per token of the trajectory, observations included."""


def quality(label_share: float, trajectory: Trajectory) -> float:
    """``2 * label share - nodes / 100 - tokens / 200``: a right program outweighs 200 tokens of effort."""
    tokens = trajectory.gen_tokens + trajectory.obs_tokens
    return LABEL_WEIGHT * label_share - NODE_COST * trajectory.program_nodes - TOKEN_COST * tokens


def label_shares(groups: Sequence[Group], sandbox: Sandbox) -> list[tuple[float, ...]]:
    """Per group the share of label tests that each passing trajectory's program passes; NaN for the others.

    A task without label tests gives NaN throughout, and so does a program that a fault of the sandbox's own
    kept from being run: nothing is known about them.
    """
    where = [(g, i) for g, group in enumerate(groups) for i in group.passing]
    attempts = [(groups[g].trajectories[i].files, groups[g].task) for g, i in where]
    shares = [[math.nan] * len(group.trajectories) for group in groups]
    for (g, i), results in zip(where, run_tests(sandbox, attempts, "label"), strict=True):
        task = groups[g].task
        total = num_tests(task, "label")
        if total and all(result.status != "infra" for result in results):
            shares[g][i] = num_tests_passed(task, "label", results) / total
    return [tuple(values) for values in shares]
