"""Every table and column that a run may write, fixed from the start.

Columns are nullable until a room of the workbench fills them; columns are only ever added or widened, never
renamed. ``result`` marks the columns that say *what happened*: they alone enter ``records.digest``. Times,
attempts and process figures are bookkeeping.

Types: ``i16 i32 i64 f32 f64 bool str``.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 1
"""Version of the run folder. Readers refuse a higher one; a change of meaning raises it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, type, meaning with unit, and whether it is part of the result."""

    name: str
    dtype: str
    doc: str
    result: bool = True


def _columns(text: str, *, result: bool = True) -> list[Column]:
    rows = [line.split(None, 2) for line in text.strip().splitlines()]
    return [Column(name, dtype, doc, result) for name, dtype, doc in rows]


_KEY = _columns("""
run_id    str  run that wrote the row
step      i32  training step, 0-based; for evals the number of updates done before
""")
_ATTEMPT = _columns(
    "attempt i16 execution of the run that wrote the row; readers keep the highest per step", result=False
)

TABLES: dict[str, list[Column]] = {
    "steps": [
        *_KEY,
        *_columns("""
groups_sampled     i32  groups rolled out
groups_kept        i32  groups that entered the loss
groups_short       i32  groups missing to the number that the budget asks for
sampling_rounds    i16  rounds in which the step's groups were sampled
groups_all_pass    i32  groups in which every valid trajectory passed
groups_all_fail    i32  groups in which none passed
traj_sampled       i32  trajectories rolled out
traj_used          i32  trajectories that entered the loss
traj_invalid       i32  trajectories dropped for an infrastructure failure
traj_wasted        i32  trajectories sampled that did not enter the loss
gen_tokens         i64  tokens sampled by the policy, all trajectories
obs_tokens         i64  tokens written by the environment, all trajectories
wasted_tokens      i64  gen_tokens of trajectories that did not enter the loss
reward_mean        f64  mean shaped reward of trajectories that enter the loss
pass_rate          f64  share of valid trajectories that pass the reward tests
mean_gen_tokens    f64  per trajectory
mean_total_tokens  f64  gen + obs per trajectory
mean_test_runs     f64  runs of the public tests per trajectory
mean_turns         f64  agent segments per trajectory
truncated_rate     f64  share ended by a limit
loss               f64  surrogate loss of the (last) update
entropy_tok        f64  token-mean policy entropy, nats
entropy_traj       f64  trajectory-mean of token-mean entropies, nats
kl_k1              f64  mean(-log ratio) trainer vs sampler, nats per token
kl_k3              f64  mean(ratio - 1 - log ratio), nats per token
kl_ref             f64  k3 estimate of KL to the reference policy, nats per token
grad_norm          f64  before clipping
clip_low           f64  share of tokens clipped below; null with one on-policy update
clip_high          f64  share of tokens clipped above; null with one on-policy update
ratio_p99          f64  99th percentile of token ratios trainer / sampler
ratio_p999         f64  99.9th percentile of token ratios trainer / sampler
ratio_max          f64  largest token ratio
is_ess             f64  effective sample size of the ratios, share of tokens
adv_ess            f64  effective sample size of used advantages, share of trajectories used
logprob_gap        f64  largest |trainer - sampler| log-prob before the update, nats
lr                 f64  learning rate of the update
lambda_mean        f64  mean redistribution factor over groups it acted on
groups_capped      i32  groups in which lambda_max was reached
groups_fallback    i32  groups that fell back to base advantages
groups_abstained   i32  groups on which the grader abstained
conservation       f64  largest |sum over passing of used - base| over groups
updates            i32  optimiser updates made (0: no group to learn from)
n_nonfinite        i32  non-finite entries met in loss or gradient
sandbox_calls      i64  calls into sandboxed programs
grader_actions     i64  tool actions of the grader
grader_tokens      i64  tokens read or written by the grader
gold_tau           f64  mean Kendall tau-b of the grader with the labels of the gold set; null if not due
gold_top1          f64  share of gold groups whose best-ranked trajectory is of the best quality
gold_shift         f64  mean absolute change of gold ranks against the first check
gold_abstain       f64  share of gold groups on which the grader abstained
gold_consistency   f64  share of gold pairs ordered alike when candidates are shown in another order
gold_flag          str  "" or what was lost against the first check; null if not due
recalibrated       bool the grader was fitted again before this step
"""),
        *_columns(
            """
tamper_hints       f64  signs of tampering per 1,000 programs executed (answers from the cache apart)
sandbox_cache_hits i64  answers taken from the cache
sandbox_timeouts   i64  calls ended by fuel or time
sandbox_infra      i64  calls lost to our own faults
rollout_s          f64  wall seconds sampling, execution excluded
execute_s          f64  wall seconds executing programs
grade_s            f64  wall seconds grading
gold_s             f64  wall seconds grading the gold set
recalibrate_s      f64  wall seconds fitting the grader again, sampling and labels included
train_s            f64  wall seconds in loss and update
record_s           f64  wall seconds writing records
step_s             f64  wall seconds of the step
rollout_cpu_s      f64  CPU seconds of this process sampling
execute_cpu_s      f64  CPU seconds of this process and the sandbox executing
grade_cpu_s        f64  CPU seconds grading, sandbox included
gold_cpu_s         f64  CPU seconds grading the gold set
recalibrate_cpu_s  f64  CPU seconds fitting the grader again, sampling and labels included
train_cpu_s        f64  CPU seconds in loss and update
record_cpu_s       f64  CPU seconds writing records
""",
            result=False,
        ),
        *_ATTEMPT,
    ],
    "trajectories": [
        *_KEY,
        *_columns("""
group_id           i64  unique within the run
sample_idx         i16  position in the group
task_id            str  task
task_kind          str  code or answer
difficulty         f32  prior difficulty of the task
passed             bool reward tests pass
valid              bool not an infrastructure failure
verdict            str  pass wrong error timeout memory output violation infra
reward             f64  after hack-zeroing and shaping
reward_pass        i16  reward tests passed
reward_n           i16  reward tests
public_pass        i16  public tests passed at the end
public_n           i16  public tests
label_pass         i16  label tests passed; null if not measured
label_n            i16  label tests
audit_pass         i16  audit tests passed; null if not measured
audit_n            i16  audit tests
audit_passed       bool all audit tests and all reward tests pass; null if not measured
prompt_tokens      i32  tokens of the prompt
gen_tokens         i32  tokens sampled by the policy
obs_tokens         i32  tokens written by the environment
turns              i16  agent segments
tool_calls         i16  actions other than writing text
tool_errors        i16  actions that could not be carried out
test_runs          i16  runs of the public tests
redundant_test_runs i16 test runs after an OK with nothing changed since
edits              i16  clear, delete, insert-at-top and replace actions
program_lines      i32  lines of the final program
program_nodes      i32  syntax-tree nodes of the final program; 0 if it does not parse
diff_add           i32  lines added against the starter files
diff_del           i32  lines deleted against the starter files
files_changed      i16  files that differ from the starter files
functions_changed  i16  top-level functions that differ from the starter files
stop_reason        str  submit token_budget turn_limit
truncated          bool a limit ended it
adv_base           f64  base advantage (what the estimator alone gives)
adv_used           f64  advantage in the loss
weight             f64  quality weight; 1 where none applies
kept               bool entered the loss
drop_reason        str  "" or why the group was dropped
rank               f64  grader's rank among passing, 1 = best; null if not ranked
score              f64  grader's score
tier               f64  grader's tier
logp_mean          f64  mean log-prob of agent tokens under the sampler, nats
entropy_mean       f64  mean entropy of agent tokens, nats; null if not in the loss
ratio_max          f64  largest token ratio of the trajectory; null if not in the loss
lag                i16  policy updates between sampling and use
"""),
        *_ATTEMPT,
    ],
    "segments": [
        *_KEY,
        *_columns("""
group_id           i64  as in trajectories
sample_idx         i16  as in trajectories
segment_idx        i16  position in the trajectory
role               str  agent or env
text               str  the segment as text
num_tokens         i32  tokens of the segment
"""),
        *_ATTEMPT,
    ],
    "groups": [
        *_KEY,
        *_columns("""
group_id           i64  unique within the run
task_id            str  task
task_kind          str  code or answer
n                  i16  valid trajectories
n_pass             i16  passing trajectories
kept               bool entered the loss
drop_reason        str  "" or why it was dropped
reward_std         f64  population standard deviation of rewards
adv_sum_base       f64  sum over passing of base advantages
adv_sum_used       f64  sum over passing of used advantages
adv_ess            f64  effective sample size of used advantages, rows
len_adv_cov        f64  covariance of gen_tokens and used advantage
lambda_            f64  redistribution factor; null if not applied
capped             bool lambda_max reached
fallback           str  "" or why base advantages were used
positive_mass_kept f64  share of the passing mass that was kept
abstain            str  "" or why the grader abstained
"""),
        *_columns(
            """
grader_s           f64  wall seconds of the grader
grader_cpu_s       f64  CPU seconds of the grader, sandbox included
""",
            result=False,
        ),
        *_ATTEMPT,
    ],
    "grades": [
        *_KEY,
        *_columns("""
group_id           i64  as in groups
sample_idx         i16  as in trajectories
grader_id          str  name of the grader
grader_version     str  digest of its snapshot or settings
rank               f64  1 = best, ties share
n_ranked           i16  passing trajectories that were ranked
score              f64  higher = better
tier               f64  1 = best
is_gold            bool row of the gold set
gold_rank          f64  rank by label tests
order_seed         i64  order in which candidates were shown
evidence           str  what the grader gave as reason
parse_ok           bool the judgement could be read
abstain            str  "" or why it abstained
actions            i32  tool actions
tokens             i32  tokens read or written
"""),
        *_columns("cpu_s f64 CPU seconds", result=False),
        *_ATTEMPT,
    ],
    "evals": [
        *_KEY,
        *_columns("""
split              str  held_out or train
task_id            str  task
task_kind          str  code or answer
difficulty         f32  prior difficulty of the task
attempt_idx        i16  which attempt at the task
passed             bool reward tests pass
audit_passed       bool reward and all audit tests pass
valid              bool not an infrastructure failure
verdict            str  as in trajectories
gen_tokens         i32  tokens sampled by the policy
obs_tokens         i32  tokens written by the environment
turns              i16  agent segments
test_runs          i16  runs of the public tests
edits              i16  clear, delete, insert-at-top and replace actions
program_lines      i32  lines of the final program
program_nodes      i32  syntax-tree nodes of the final program
diff_add           i32  lines added against the starter files
diff_del           i32  lines deleted against the starter files
files_changed      i16  files that differ from the starter files
functions_changed  i16  top-level functions that differ from the starter files
stop_reason        str  as in trajectories
truncated          bool a limit ended it
"""),
        *_ATTEMPT,
    ],
    "trials": [
        *_columns("""
trial              i32  number in the study
run_id             str  run of this trial and seed
seed               i32  seed block
params             str  JSON of the searched values
value              f64  objective of this run
state              str  complete, fail, running, pruned
reason             str  why it failed
"""),
        *_columns(
            """
started_at         str  UTC, ISO 8601
ended_at           str  UTC, ISO 8601
""",
            result=False,
        ),
    ],
}
"""table -> columns. ``runs`` is not here: it is computed by the reader from the run folders."""

RUN_TABLES = ("steps", "trajectories", "segments", "groups", "grades", "evals")
"""Tables inside a run folder; ``trials`` belongs to a tuning."""


def column_names(table: str, *, result_only: bool = False) -> list[str]:
    """Names of the columns of a table, in order."""
    return [column.name for column in TABLES[table] if column.result or not result_only]
