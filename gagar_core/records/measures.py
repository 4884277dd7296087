"""Names of the quantities that a report computes per run, so that a sweep can declare hypotheses on them.

The formulas are in ``analysis.metrics``; here is only what both sides must agree on.
"""

from __future__ import annotations

REPORT_METRICS: dict[str, str] = {
    "held_out_pass": "higher",
    "held_out_audit": "higher",
    "sft_pass": "",
    "sft_audit": "",
    "hack_gap": "lower",
    "pass_gain": "higher",
    "audit_gain": "higher",
    "tokens": "lower",
    "tokens_pass": "lower",
    "tokens_fail": "lower",
    "test_runs": "",
    "truncated": "lower",
    "pass_at_tokens": "higher",
    "pass_at_cpu": "higher",
    "tokens_to_level": "lower",
    "cpu_to_level": "lower",
    "spent_tokens": "lower",
    "spent_cpu": "lower",
    "wasted_share": "lower",
    "diff_lines_pass": "lower",
    "functions_changed_pass": "lower",
    "train_pass": "",
    "train_tokens": "lower",
    "train_tokens_pass": "lower",
    "train_tokens_fail": "lower",
    "train_test_runs": "",
    "train_truncated": "lower",
}
"""metric -> which way is better, "" where neither is."""
