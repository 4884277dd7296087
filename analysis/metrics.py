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

_BETWEEN = "linear between evaluations"
_CPU = (
    "CPU seconds of all phases of training, grading and the run's artifacts included (artifacts of no run if "
    "some are not known), evaluation left out; measured, so they vary with the machine"
)

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
        Metric(
            "pass_at_tokens", "pass at equal tokens", "share", EVALS,
            f"held-out pass when as many tokens had been generated in training as the run of the same seed "
            f"block that generated fewest did in all; {_BETWEEN}",
        ),
        Metric(
            "pass_at_cpu", "pass at equal CPU", "share", EVALS,
            f"held-out pass when as many CPU seconds had been spent as the run of the same seed block that "
            f"spent fewest did in all; {_BETWEEN}; {_CPU}",
        ),
        Metric(
            "tokens_to_level", "tokens to common level", "tokens", EVALS,
            f"tokens generated in training until held-out pass first reached the lowest of the best values "
            f"of the runs of the same seed block; {_BETWEEN}",
        ),
        Metric(
            "cpu_to_level", "CPU to common level", "CPU s", EVALS,
            f"CPU seconds spent until held-out pass first reached the lowest of the best values of the runs "
            f"of the same seed block; {_BETWEEN}; {_CPU}",
        ),
        Metric(
            "spent_tokens", "tokens spent", "tokens", EVALS,
            "tokens generated in training up to the endpoint, dropped trajectories included",
        ),
        Metric("spent_cpu", "CPU spent", "CPU s", EVALS, f"CPU seconds up to the endpoint; {_CPU}"),
        Metric(
            "wasted_share", "wasted tokens", "share", EVALS,
            "share of the tokens generated in training up to the endpoint whose trajectories were dropped",
        ),
        Metric(
            "diff_lines_pass", "lines changed, passing", "lines", EVALS,
            "mean lines added + lines deleted against the starter files, over valid held-out attempts that "
            "pass",
        ),
        Metric(
            "functions_changed_pass", "functions changed, passing", "functions", EVALS,
            "mean number of top-level functions that differ from the starter files, over valid held-out "
            "attempts that pass",
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

WITHIN_SWEEP = ("pass_at_tokens", "pass_at_cpu", "tokens_to_level", "cpu_to_level")
"""Metrics whose ground depends on the other runs of the sweep: they mean nothing across two sweeps."""

BASE_CURVE = {EVALS: "held_out_pass", TRAINING: "train_pass"}
"""The curve that decides at which step the metrics of a source are read off."""

TRAIN_WINDOW = 10
"""Training steps averaged into one value."""

PHASES = {
    "rollout_cpu_s": "sampling",
    "execute_cpu_s": "execution",
    "grade_cpu_s": "grading",
    "gold_cpu_s": "gold set",
    "recalibrate_cpu_s": "recalibration",
    "train_cpu_s": "gradient",
    "record_cpu_s": "recording",
}
"""CPU-second columns of ``steps`` -> what a reader calls them."""
