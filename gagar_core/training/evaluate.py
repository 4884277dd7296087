"""Held-out evaluation of a frozen policy: the same tasks and random numbers at every call of a seed block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gagar_core.protocols import Policy, Sandbox
from gagar_core.seeds import stream, torch_stream
from gagar_core.tasks.checks import num_tests, num_tests_passed
from gagar_core.tasks.execution import run_tests
from gagar_core.tasks.scope import scope_of
from gagar_core.types import Task, Trajectory


class Evaluation:
    """Evaluates a policy on held-out tasks."""

    def __init__(
        self, tasks: Sequence[Task], num_tasks: int, attempts: int, seed: int, sandbox: Sandbox
    ) -> None:
        chosen = stream(seed, "evaluation tasks").permutation(len(tasks))[: num_tasks or None]
        self._tasks = [tasks[int(i)] for i in sorted(chosen)]
        self._attempts = attempts
        self._seed = seed
        self._sandbox = sandbox

    def rows(self, policy: Policy) -> list[dict[str, Any]]:
        """Rows of table ``evals`` but for the keys that the writer adds."""
        repeated = [task for task in self._tasks for _ in range(self._attempts)]
        trajectories = policy.rollouts(repeated, torch_stream(self._seed, "evaluation"))
        audits = audit_counts(trajectories, repeated, self._sandbox)
        self._sandbox.end_step()
        return [
            _row(trajectory, task, index % self._attempts, audit)
            for index, (trajectory, task, audit) in enumerate(
                zip(trajectories, repeated, audits, strict=True)
            )
        ]


def audit_counts(trajectories: Sequence[Trajectory], tasks: Sequence[Task], sandbox: Sandbox) -> list[int]:
    """How many audit tests each final program passes. Only measured: no caller may train or select on it."""
    attempts = [(trajectory.files, task) for trajectory, task in zip(trajectories, tasks, strict=True)]
    results = run_tests(sandbox, attempts, "audit")
    return [num_tests_passed(task, "audit", outcome) for task, outcome in zip(tasks, results, strict=True)]


def _row(trajectory: Trajectory, task: Task, attempt: int, audit: int) -> dict[str, Any]:
    return {
        "split": "held_out",
        "task_id": task.id,
        "task_kind": task.kind,
        "difficulty": task.difficulty,
        "attempt_idx": attempt,
        "passed": trajectory.passed,
        "audit_passed": trajectory.passed and audit == num_tests(task, "audit"),
        "valid": trajectory.valid,
        **measures(trajectory, task),
    }


def measures(trajectory: Trajectory, task: Task) -> dict[str, Any]:
    """Columns that ``evals`` and ``trajectories`` share."""
    scope = scope_of(task.files, trajectory.files)
    return {
        "diff_add": scope.added,
        "diff_del": scope.deleted,
        "files_changed": scope.files,
        "functions_changed": scope.functions,
        "verdict": trajectory.verdict,
        "gen_tokens": trajectory.gen_tokens,
        "obs_tokens": trajectory.obs_tokens,
        "turns": trajectory.turns,
        "test_runs": trajectory.test_runs,
        "edits": trajectory.edits,
        "program_lines": trajectory.program_lines,
        "program_nodes": trajectory.program_nodes,
        "stop_reason": trajectory.stop_reason,
        "truncated": trajectory.truncated,
    }
