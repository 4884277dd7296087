"""Rows of the tables from a finished step. Reads the step, changes nothing, feeds nothing back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gagar_core.records import RunWriter
from gagar_core.tasks.checks import num_tests
from gagar_core.training.evaluate import measures
from gagar_core.training.step import NOT_GRADED, StepData
from gagar_core.types import Group, Ranking, Trajectory


@dataclass
class StepRecorder:
    """Writes a step's rows. ``grader_id`` and ``grader_version`` go into every grade."""

    writer: RunWriter
    grader_id: str
    grader_version: str

    def record(self, data: StepData, audits: Sequence[int], extra: Mapping[str, Any]) -> dict[str, Any]:
        """Add the rows of a step; ``audits`` is parallel to all trajectories, ``extra`` is for ``steps``.

        Returns the row of ``steps``.
        """
        view = _View(data)
        self.writer.add("trajectories", data.step, view.trajectory_rows(audits))
        self.writer.add("segments", data.step, _segment_rows(data))
        self.writer.add("groups", data.step, view.group_rows())
        self.writer.add("grades", data.step, [*self._grade_rows(data), *self._gold_rows(data)])
        row = {**view.step_row(), **_gold_columns(data), **extra}
        self.writer.add("steps", data.step, [row])
        return row

    def _grade_rows(self, data: StepData) -> list[dict[str, Any]]:
        rows = []
        for group in data.kept:
            ranking = data.rankings[group.id]
            if ranking.abstain not in ("no grader", NOT_GRADED):
                rows += self._rows_of(group, ranking)
        return rows

    def _gold_rows(self, data: StepData) -> list[dict[str, Any]]:
        """Both gradings of the gold set; ``order_seed`` 0 = as they are, 1 = in another order."""
        if data.gold is None:
            return []
        rows = []
        for order_seed, rankings in enumerate((data.gold.rankings, data.gold.shuffled)):
            for group, truth, ranking in zip(data.gold.groups, data.gold.truth, rankings, strict=True):
                for row in self._rows_of(group, ranking):
                    gold = finite(truth.ranks[row["sample_idx"]])
                    rows.append(row | {"is_gold": True, "gold_rank": gold, "order_seed": order_seed})
        return rows

    def _rows_of(self, group: Group, ranking: Ranking) -> list[dict[str, Any]]:
        return [
            {
                "group_id": group.id,
                "sample_idx": index,
                "grader_id": self.grader_id,
                "grader_version": self.grader_version,
                "rank": finite(ranking.ranks[index]),
                "n_ranked": len(group.passing),
                "score": finite(ranking.scores[index]) if ranking.scores else None,
                "tier": finite(ranking.tiers[index]) if ranking.tiers else None,
                "is_gold": False,
                "evidence": ranking.evidence[index] if ranking.evidence else None,
                "parse_ok": True,
                "abstain": ranking.abstain,
                "actions": ranking.actions,
                "tokens": ranking.tokens,
                "cpu_s": ranking.cpu_s,
            }
            for index in group.passing
        ]


def _gold_columns(data: StepData) -> dict[str, Any]:
    columns: dict[str, Any] = {"recalibrated": data.recalibrated}
    if data.gold is None:
        return columns
    found = data.gold.agreement
    return columns | {
        "gold_tau": found.tau,
        "gold_top1": found.top1,
        "gold_shift": data.gold.rank_shift,
        "gold_abstain": found.abstained,
        "gold_consistency": data.gold.consistency,
        "gold_flag": data.gold.flag,
    }


class _View:
    """A step indexed the way rows need it."""

    def __init__(self, data: StepData) -> None:
        self._data = data
        self._row_of = {row: i for i, row in enumerate(data.rows)}
        self._code_of = {}
        if data.advantages is not None:
            self._code_of = {label: code for code, label in enumerate(data.advantages.groups)}

    def trajectory_rows(self, audits: Sequence[int]) -> list[dict[str, Any]]:
        rows, position = [], 0
        for group_index, group in enumerate(self._data.groups):
            for index, trajectory in enumerate(group.trajectories):
                row = _trajectory_row(group, index, trajectory, audits[position])
                rows.append(row | self._used(group_index, index) | self._graded(group, index))
                position += 1
        return rows

    def _used(self, group_index: int, index: int) -> dict[str, Any]:
        data, row = self._data, self._row_of.get((group_index, index))
        reason = data.drop_reasons[group_index]
        passed = data.groups[group_index].trajectories[index].passed
        columns: dict[str, Any] = {"kept": row is not None, "drop_reason": reason, "reward": float(passed)}
        if row is None or data.advantages is None:
            return columns
        columns["reward"] = float(data.rewards[row])
        columns["adv_base"] = float(data.advantages.base[row])
        columns["adv_used"] = float(data.advantages.advantages[row])
        columns["weight"] = float(data.advantages.weights[row])
        if data.update is not None:
            columns["entropy_mean"] = float(data.update.row_entropy[row])
            columns["ratio_max"] = float(data.update.row_ratio_max[row])
        return columns

    def _graded(self, group: Group, index: int) -> dict[str, Any]:
        ranking = self._data.rankings.get(group.id)
        if ranking is None:
            return {}
        names = (("rank", ranking.ranks), ("score", ranking.scores), ("tier", ranking.tiers))
        return {name: finite(values[index]) for name, values in names if values}

    def group_rows(self) -> list[dict[str, Any]]:
        return [self._group_row(position, group) for position, group in enumerate(self._data.groups)]

    def _group_row(self, position: int, group: Group) -> dict[str, Any]:
        data = self._data
        passed = [float(t.passed) for t in group.trajectories if t.valid]
        row = {
            "group_id": group.id,
            "task_id": group.task.id,
            "task_kind": group.task.kind,
            "n": len(passed),
            "n_pass": int(sum(passed)),
            "kept": not data.drop_reasons[position],
            "drop_reason": data.drop_reasons[position],
            "reward_std": float(np.std(passed)) if passed else None,
        }
        ranking = data.rankings.get(group.id)
        if ranking is not None:
            row |= {"abstain": ranking.abstain, "grader_cpu_s": ranking.cpu_s}
        code = self._code_of.get(position)
        return (
            row if code is None or data.advantages is None else row | self._advantage_columns(position, code)
        )

    def _advantage_columns(self, position: int, code: int) -> dict[str, Any]:
        data = self._data
        assert data.advantages is not None
        own = [i for i, (group, _) in enumerate(data.rows) if group == position]
        used, base = data.advantages.advantages[own], data.advantages.base[own]
        passed = np.array([data.trajectory(data.rows[i]).passed for i in own])
        lengths = np.array([data.trajectory(data.rows[i]).gen_tokens for i in own], dtype=np.float64)
        return {
            "adv_sum_base": float(base[passed].sum()),
            "adv_sum_used": float(used[passed].sum()),
            "adv_ess": effective_size(used),
            "len_adv_cov": float(((lengths - lengths.mean()) * used).mean()),
            "lambda_": finite(float(data.advantages.lambda_[code])),
            "capped": bool(data.advantages.capped[code]),
            "fallback": str(data.advantages.fallback[code]),
            "positive_mass_kept": float(data.advantages.positive_mass_kept[code]),
        }

    def step_row(self) -> dict[str, Any]:
        data = self._data
        everything = [t for group in data.groups for t in group.trajectories]
        valid = [t for t in everything if t.valid]
        used = {id(data.trajectory(row)) for row in data.rows} if data.update is not None else set()
        outcomes = [{t.passed for t in g.trajectories if t.valid} for g in data.groups]
        row: dict[str, Any] = {
            "groups_sampled": len(data.groups),
            "groups_kept": len(data.kept),
            "groups_short": max(0, data.wanted_groups - len(data.kept)),
            "sampling_rounds": data.rounds,
            "groups_all_pass": sum(outcome == {True} for outcome in outcomes),
            "groups_all_fail": sum(outcome == {False} for outcome in outcomes),
            "traj_sampled": len(everything),
            "traj_used": len(used),
            "traj_invalid": len(everything) - len(valid),
            "traj_wasted": len(everything) - len(used),
            "gen_tokens": sum(t.gen_tokens for t in everything),
            "obs_tokens": sum(t.obs_tokens for t in everything),
            "wasted_tokens": sum(t.gen_tokens for t in everything if id(t) not in used),
            "reward_mean": _mean([float(r) for r in data.rewards]),
            "pass_rate": _mean([float(t.passed) for t in valid]),
            "mean_gen_tokens": _mean([t.gen_tokens for t in everything]),
            "mean_total_tokens": _mean([t.gen_tokens + t.obs_tokens for t in everything]),
            "mean_test_runs": _mean([t.test_runs for t in everything]),
            "mean_turns": _mean([t.turns for t in everything]),
            "truncated_rate": _mean([float(t.truncated) for t in everything]),
            "updates": data.update.updates if data.update is not None else 0,
            "groups_abstained": sum(
                bool(r.abstain) and r.abstain != NOT_GRADED for r in data.rankings.values()
            ),
            "grader_actions": sum(ranking.actions for ranking in data.rankings.values()),
            "grader_tokens": sum(ranking.tokens for ranking in data.rankings.values()),
        }
        return row | self._redistribution_columns() | self._update_columns()

    def _redistribution_columns(self) -> dict[str, Any]:
        result = self._data.advantages
        if result is None:
            return {}
        acted = np.isfinite(result.lambda_)
        moved = np.zeros(len(result.groups))
        passed = np.array([self._data.trajectory(row).passed for row in self._data.rows])
        np.add.at(moved, result.codes[passed], (result.advantages - result.base)[passed])
        return {
            "lambda_mean": float(result.lambda_[acted].mean()) if acted.any() else None,
            "groups_capped": int(result.capped.sum()),
            "groups_fallback": int(sum(bool(reason) for reason in result.fallback)),
            "conservation": float(np.abs(moved).max()) if len(moved) else None,
            "adv_ess": effective_size(result.advantages),
        }

    def _update_columns(self) -> dict[str, Any]:
        stats = self._data.update
        if stats is None:
            return {}
        names = (
            "loss", "grad_norm", "entropy_tok", "entropy_traj", "kl_k1", "kl_k3", "ratio_p99", "ratio_p999",
            "ratio_max", "is_ess", "logprob_gap", "kl_ref", "clip_low", "clip_high",
        )  # fmt: skip
        return {name: getattr(stats, name) for name in names}


def _trajectory_row(group: Group, index: int, trajectory: Trajectory, audit: int) -> dict[str, Any]:
    task = group.task
    agent = [value for segment in trajectory.segments for value in segment.logprobs]
    return {
        "group_id": group.id,
        "sample_idx": index,
        "task_id": task.id,
        "task_kind": task.kind,
        "difficulty": task.difficulty,
        "passed": trajectory.passed,
        "valid": trajectory.valid,
        "reward_n": num_tests(task, "reward"),
        "public_n": num_tests(task, "public"),
        "audit_pass": audit,
        "audit_n": num_tests(task, "audit"),
        "audit_passed": trajectory.passed and audit == num_tests(task, "audit"),
        "prompt_tokens": len(task.spec),
        "tool_calls": trajectory.tool_calls,
        "tool_errors": trajectory.tool_errors,
        "redundant_test_runs": trajectory.redundant_test_runs,
        "logp_mean": _mean(agent),
        "lag": 0,
        **measures(trajectory, task),
    }


def _segment_rows(data: StepData) -> list[dict[str, Any]]:
    return [
        {
            "group_id": group.id,
            "sample_idx": index,
            "segment_idx": position,
            "role": segment.role,
            "text": segment.text,
            "num_tokens": len(segment.token_ids),
        }
        for group in data.groups
        for index, trajectory in enumerate(group.trajectories)
        for position, segment in enumerate(trajectory.segments)
    ]


def effective_size(values: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    """``(Σ|a|)² / Σa²`` as a share of the entries; None if all are 0."""
    square = float((values**2).sum())
    return float(np.abs(values).sum() ** 2 / square / len(values)) if square > 0 else None


def finite(value: float) -> float | None:
    """The value, or null where there is none."""
    return None if math.isnan(value) else float(value)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if len(values) else None
