"""The runs of one variant that count, and numbers over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.data import SweepData
from analysis.details import RunDetails
from analysis.numbers import Number, mean_number
from analysis.study import Run


@dataclass(frozen=True)
class Members:
    """A variant at the endpoint of a source (``evals`` or ``training``)."""

    data: SweepData
    label: str
    source: str

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the runs that enter its numbers."""
        return self.data.ends[self.label, self.source].run_ids

    @property
    def runs(self) -> list[Run]:
        """The same as runs, by seed."""
        return [run for run in self.data.sweep.runs_of(self.label) if run.run_id in self.ids]

    def head(self) -> dict[str, Any]:
        """What the numbers of a section's variant have in common: label, step, policy and runs."""
        endpoint = self.data.ends[self.label, self.source]
        return {
            "label": self.label,
            "step": endpoint.step,
            "policy": endpoint.policy,
            "runs": sorted(endpoint.run_ids),
        }

    def details(self) -> dict[str, RunDetails]:
        """run_id -> its details."""
        return {run_id: self.data.details[run_id] for run_id in self.ids if run_id in self.data.details}

    def values(self, of: Callable[[RunDetails], float | None]) -> dict[str, float]:
        """run_id -> a value of its details, where it has one."""
        found = {run_id: of(details) for run_id, details in self.details().items()}
        return {run_id: value for run_id, value in found.items() if value is not None}

    def number(self, values: Mapping[str, float], unit: str) -> Number:
        """Mean over per-run values. Step and policy, and runs if all count, stand in ``head``."""
        endpoint = self.data.ends[self.label, self.source]
        planned = len(self.data.sweep.planned.get(self.label, ()))
        full = mean_number(values, unit=unit, n_planned=planned, policy=endpoint.policy, step=endpoint.step)
        del full["policy"], full["step"]
        if full["runs"] == sorted(self.ids):
            del full["runs"]
        return full
