"""The quantities that a report speaks of: key, label, unit, which way is better, and how each is computed."""

from __future__ import annotations

from dataclasses import dataclass

from gagar_core.records.measures import REPORT_METRICS

EVALS, TRAINING = "evals", "training"


@dataclass(frozen=True, slots=True)
class Metric:
    """One quantity with one value per run."""

    key: str
    label: str
    unit: str
    source: str
    formula: str

    @property
    def better(self) -> str:
        """``higher``, ``lower`` or empty (no direction)."""
        return REPORT_METRICS[self.key]


_PER_STEP = "mean over the valid trajectories of a step; value = mean of the last 10 steps up to the endpoint"

METRICS: dict[str, Metric] = {
    metric.key: metric
    for metric in (
        Metric(
            "held_out_pass", "held-out pass", "share", EVALS,
            "mean over held-out tasks of the share of valid attempts that pass the reward tests",
        ),
        Metric(
            "held_out_audit", "held-out audit pass", "share", EVALS,
            "mean over held-out tasks of the share of valid attempts that pass reward and audit tests",
        ),
        Metric(
            "sft_pass", "SFT pass", "share", EVALS,
            "held-out pass of the SFT policy (evaluation at step 0)",
        ),
        Metric(
            "sft_audit", "SFT audit pass", "share", EVALS,
            "held-out audit pass of the SFT policy (evaluation at step 0)",
        ),
        Metric(
            "hack_gap", "hack gap", "share", EVALS,
            "held-out pass - held-out audit pass",
        ),
        Metric(
            "pass_gain", "gain in pass over SFT", "share", EVALS,
            "held-out pass at the endpoint - held-out pass of the SFT policy (evaluation at step 0)",
        ),
        Metric(
            "audit_gain", "gain in audit pass over SFT", "share", EVALS,
            "held-out audit pass at the endpoint - that of the SFT policy (evaluation at step 0)",
        ),
        Metric(
            "tokens", "trajectory length", "tokens", EVALS,
            "mean gen_tokens + obs_tokens of valid held-out attempts",
        ),
        Metric(
            "tokens_pass", "trajectory length, passing", "tokens", EVALS,
            "mean gen_tokens + obs_tokens of valid held-out attempts that pass",
        ),
        Metric(
            "tokens_fail", "trajectory length, failing", "tokens", EVALS,
            "mean gen_tokens + obs_tokens of valid held-out attempts that fail",
        ),
        Metric(
            "test_runs", "test runs", "per trajectory", EVALS,
            "mean runs of the public tests in valid held-out attempts",
        ),
        Metric(
            "truncated", "truncation rate", "share", EVALS,
            "share of valid held-out attempts that a limit ended",
        ),
        Metric("train_pass", "training pass", "share", TRAINING, f"share that passes: {_PER_STEP}"),
        Metric(
            "train_tokens", "training length", "tokens", TRAINING,
            f"gen_tokens + obs_tokens: {_PER_STEP}",
        ),
        Metric(
            "train_tokens_pass", "training length, passing", "tokens", TRAINING,
            f"gen_tokens + obs_tokens of passing ones: {_PER_STEP}",
        ),
        Metric(
            "train_tokens_fail", "training length, failing", "tokens", TRAINING,
            f"gen_tokens + obs_tokens of failing ones: {_PER_STEP}",
        ),
        Metric(
            "train_test_runs", "training test runs", "per trajectory", TRAINING,
            f"runs of the public tests: {_PER_STEP}",
        ),
        Metric(
            "train_truncated", "training truncation", "share", TRAINING,
            f"share that a limit ended: {_PER_STEP}",
        ),
    )
}  # fmt: skip

BASE_CURVE = {EVALS: "held_out_pass", TRAINING: "train_pass"}
"""The curve that decides at which step the metrics of a source are read off."""

TRAIN_WINDOW = 10
"""Training steps averaged into one value."""

PHASES = {
    "rollout_cpu_s": "sampling",
    "execute_cpu_s": "execution",
    "grade_cpu_s": "grading",
    "train_cpu_s": "gradient",
    "record_cpu_s": "recording",
}
"""CPU-second columns of ``steps`` -> what a reader calls them."""
