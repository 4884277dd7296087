"""How steady one run was: what collapsed, spiked, ran away or was wasted. One value per run and item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.signals import (
    SPIKE_MIN,
    change_after,
    entropy_state,
    finite,
    oscillation,
    ran_away,
    spikes,
    vanished,
)
from analysis.stability import (
    collapse,
    dispersion_over_time,
    long_term_risk,
    regressed,
    short_term_risk,
)
from analysis.statistics import Floats
from analysis.step_signals import Signals, total_cpu
from analysis.trend import fit_line, log_slope

LAST = 10
"""Steps averaged for a value at the end of training."""

CONSERVED = 1e-6
"""A redistribution moved mass if its residual exceeds this."""

_LEVELS = (
    "entropy_tok", "entropy_traj", "kl_k1", "kl_k3", "kl_ref", "grad_norm", "clip_low", "clip_high",
    "ratio_p99", "ratio_p999", "is_ess", "adv_ess", "lambda_mean", "logprob_gap",
)  # fmt: skip


@dataclass(frozen=True)
class RunStability:
    """``values``: name -> number; ``events``: what happened, each with kind, step and words."""

    values: dict[str, float]
    events: list[dict[str, Any]]

    def flagged(self, kind: str) -> bool:
        """Whether an event of this kind happened."""
        return any(event["kind"] == kind for event in self.events)


def run_stability(steps: Floats, passed: Floats, signals: Signals | None) -> RunStability:
    """Judge a run from its held-out curve (``steps``, ``passed``, NaN allowed) and its training signals."""
    values, events = held_out_values(passed, steps)
    if signals is None or signals["done"].size == 0:
        return RunStability(values, events)
    values |= _level_values(signals) | _extremes(signals) | sampling_values(signals) | _grader_values(signals)
    found, shifts = _signal_events(signals)
    return RunStability(values | shifts, events + found)


def held_out_values(passed: Floats, steps: Floats) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Risk, dispersion and oscillation of a held-out curve, and its collapse or regression as events."""
    y, t = finite(passed, steps)
    if y.size < 2:
        return {}, []
    values = {
        "short_term_risk": short_term_risk(y, t),
        "long_term_risk": long_term_risk(y),
        "dispersion": dispersion_over_time(y, t),
        "pass_slope": 100 * fit_line(t, y).slope,
    }
    third = max(2, -(-y.size // 3))
    values["long_term_risk_last_third"] = long_term_risk(y[-third:])
    values["dispersion_last_third"] = dispersion_over_time(y[-third:], t[-third:])
    swing = oscillation(y, t)
    named = {"oscillation_r1": swing.r1, "oscillation_flips": swing.flips, "oscillation_high": swing.high}
    values |= {name: value for name, value in named.items() if value is not None}
    events = []
    fall = collapse(y)
    if fall.state != "none" and fall.onset is not None:
        text = f"held-out pass fell by {fall.drop:.3f} from its peak"
        if fall.recovered_after is not None:
            text += f", back after {fall.recovered_after} evaluations"
        kind = {"collapsed": "collapse", "suspected": "suspected_collapse"}.get(fall.state, fall.state)
        events.append(_event(kind, t[fall.onset], text))
    if y.size >= 3 and regressed(y):
        events.append(
            _event("regressed", t[-1], f"held-out pass ended {y[0] - np.median(y[-3:]):.3f} below SFT")
        )
    if swing.alternating:
        events.append(_event("oscillation", t[-1], "held-out pass swings from one evaluation to the next"))
    return values, events


def _event(kind: str, step: float, text: str) -> dict[str, Any]:
    return {"kind": kind, "step": int(step), "text": text}


def _level_values(signals: Signals) -> dict[str, float]:
    """Means over the last 10 steps, and log slopes of entropy over all, per 100 steps."""
    found = {}
    for name in _LEVELS:
        value = _mean(signals[name][-LAST:])
        if value is not None:
            found[name] = value
    entropy, steps = finite(signals["entropy_tok"], signals["done"])
    if entropy.size >= 2 and entropy.min() > 0:
        found["entropy_log_slope"] = 100 * log_slope(steps, entropy)
    # KL to the sampler adds up over updates: how far the policy was moved in all
    moved = signals["kl_k3"][np.isfinite(signals["kl_k3"])]
    if moved.size:
        found["kl_k3_total"] = float(moved.sum())
    return found


def _extremes(signals: Signals) -> dict[str, float]:
    found = {}
    for name in ("ratio_max", "logprob_gap", "conservation"):
        column = signals[name][np.isfinite(signals[name])]
        if column.size:
            found[f"{name}_worst"] = float(column.max())
    ess = finite(signals["is_ess"], signals["done"])[0]
    if ess.size:
        found["is_ess_worst"] = float(ess.min())
    cap = finite(signals["truncated_rate"], signals["done"])[0]
    if cap.size:
        found["cap_hit"] = float(cap[-LAST:].mean())
    return found


def sampling_values(signals: Signals) -> dict[str, float]:
    """What dynamic sampling kept and wasted, over all steps: sums of counts, not means of shares."""
    total = {name: float(np.nansum(signals[name])) for name in _COUNTS}
    found = {}
    for name, (part, whole) in _SHARES.items():
        if total[whole] > 0:
            found[name] = total[part] / total[whole]
    return found


_SHARES = {
    "kept": ("groups_kept", "groups_sampled"),
    "all_pass": ("groups_all_pass", "groups_sampled"),
    "all_fail": ("groups_all_fail", "groups_sampled"),
    "wasted_tokens": ("wasted_tokens", "gen_tokens"),
    "invalid": ("traj_invalid", "traj_sampled"),
    "sampled_per_used": ("traj_sampled", "traj_used"),
    "tokens_per_used": ("gen_tokens", "traj_used"),
}
_COUNTS = (
    "groups_kept", "groups_sampled", "groups_all_pass", "groups_all_fail", "wasted_tokens", "gen_tokens",
    "traj_invalid", "traj_sampled", "traj_used",
)  # fmt: skip


def _grader_values(signals: Signals) -> dict[str, float]:
    kept = float(np.nansum(signals["groups_kept"]))
    if kept <= 0:
        return {}
    found = {
        name: float(np.nansum(signals[column])) / kept
        for name, column in (
            ("capped", "groups_capped"),
            ("fallback", "groups_fallback"),
            ("abstained", "groups_abstained"),
        )
        if np.isfinite(signals[column]).any()
    }
    phases = float(np.nansum(total_cpu(signals)))
    grading = float(np.nansum(signals["grade_cpu_s"]))
    return found | ({"grading_share": grading / phases} if phases > 0 else {})


def _signal_events(signals: Signals) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Events of the training signals, and what the numbers behind them are."""
    done, events, values = signals["done"], [], {}
    entropy, at = finite(signals["entropy_tok"], done)
    state = entropy_state(entropy)
    if state.onset is not None:
        bound = "below a fifth of" if state.state == "collapsed" else "above three times"
        text = f"entropy stayed {bound} its start for 10 steps"
        events.append(_event(f"entropy_{state.state}", at[state.onset], text))
    norm, at = finite(signals["grad_norm"], done)
    hits = spikes(norm)
    if norm.size > SPIKE_MIN:
        values["grad_spikes"] = 100 * len(hits) / norm.size
        after = _after_spikes(signals, at, hits)
        if after is not None:
            values["pass_after_spikes"] = after
    events += [_event("grad_spike", at[i], f"gradient norm {norm[i]:.3g}") for i in hits]
    tests, at = finite(signals["mean_test_runs"], done)
    gone = vanished(tests)
    if gone is not None:
        text = f"test runs per trajectory fell from {tests.max():.2g} to {tests[-LAST:].mean():.2g}"
        events.append(_event("verification_collapse", at[gone], text))
    length, at = finite(signals["mean_total_tokens"], done)
    if ran_away(length, at):
        text = f"length {length[:LAST].mean():.0f} to {length[-LAST:].mean():.0f} tokens and still growing"
        events.append(_event("length_runaway", at[-1], text))
    bad = _first_bad(signals)
    if bad is not None:
        events.append(_event("nonfinite", done[bad], "loss, gradient or reward was not finite"))
    residual = np.nan_to_num(signals["conservation"])
    if residual.size and residual.max() > CONSERVED:
        text = f"redistribution moved up to {residual.max():.2g} of a group's advantage"
        events.append(_event("not_conserved", done[int(residual.argmax())], text))
    return events, values


def _after_spikes(signals: Signals, at: Floats, hits: list[int]) -> float | None:
    passed, steps = finite(signals["pass_rate"], signals["done"])
    where = [int(np.searchsorted(steps, at[i])) for i in hits]
    return change_after(passed, [i for i in where if i < passed.size])


def _first_bad(signals: Signals) -> int | None:
    counted = np.nan_to_num(signals["n_nonfinite"]) > 0
    infinite = np.isinf(signals["loss"]) | np.isinf(signals["grad_norm"]) | np.isinf(signals["reward_mean"])
    found = np.flatnonzero(counted | infinite)
    return int(found[0]) if found.size else None


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None
