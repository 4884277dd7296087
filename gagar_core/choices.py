"""The one table of choices, read by configuration, ``--help``, sweeps, tuning and contract tests alike.

Adding a choice = one file with a dataclass + one line here.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from dataclasses import fields
from typing import Any

from gagar_core.advantages import (
    baselines,
    estimators,
    graded_weightings,
    redistribution,
    redistribution_arms,
    shaping,
    weightings,
)
from gagar_core.errors import ConfigError
from gagar_core.grading import agentic, constitution, distilled, rules, tiered
from gagar_core.policies import gru, transformer
from gagar_core.sampling import adaptive, outcome, refill, shares
from gagar_core.tasks import list_functions, list_variants, mixed, repair, scalar_hard_coding
from gagar_core.training import losses, policy_gradient

CHOICES: dict[str, dict[str, type[Any]]] = {
    "sampling": {
        "mixed_only": outcome.MixedOnly,
        "keep_all": outcome.KeepAll,
        "refill": refill.Refill,
        "anchors": shares.Anchors,
        "band": shares.Band,
        "adaptive_group": adaptive.AdaptiveGroup,
        "curriculum": adaptive.Curriculum,
    },
    "grader": {
        "none": rules.NoGrader,
        "trajectory_rule": rules.TrajectoryRule,
        "constitution": constitution.Constitution,
        "size_bucket": rules.SizeBucket,
        "length": rules.Length,
        "random": rules.RandomGrader,
        "self_likelihood": rules.SelfLikelihood,
        "distilled_xs": distilled.DistilledXs,
        "distilled_s": distilled.DistilledS,
        "distilled_m": distilled.DistilledM,
        "distilled_l": distilled.DistilledL,
        "agentic_s": agentic.AgenticS,
        "agentic_l": agentic.AgenticL,
        "tiered": tiered.Tiered,
        "oracle": rules.Oracle,
    },
    "policy": {
        "gru": gru.Gru,
        "transformer": transformer.Transformer,
    },
    "tasks": {
        "list_functions": list_functions.ListFunctions,
        "weak_tests": list_variants.WeakTests,
        "scalar_hard_coding": scalar_hard_coding.ScalarHardCoding,
        "hard": list_variants.Hard,
        "mixed": mixed.Mixed,
        "repair": repair.Repair,
    },
    "trainer": {
        "policy_gradient": policy_gradient.PolicyGradient,
        "process_reward": policy_gradient.ProcessReward,
    },
    "estimator": {
        "reinforce": baselines.Reinforce,
        "grpo": estimators.Grpo,
        "dr_grpo": estimators.DrGrpo,
        "rloo": estimators.Rloo,
        "reinforce_pp": baselines.ReinforcePP,
        "opo": baselines.Opo,
        "maxrl": baselines.MaxRl,
        "gpg": baselines.Gpg,
        "passk": baselines.PassK,
        "grpo_trl": estimators.GrpoTrl,
        "dr_grpo_trl": estimators.DrGrpoTrl,
        "rloo_trl": estimators.RlooTrl,
        "grpo_verl": estimators.GrpoVerl,
        "dr_grpo_verl": estimators.DrGrpoVerl,
        "rloo_verl": estimators.RlooVerl,
        "reinforce_pp_verl": baselines.ReinforcePPVerl,
        "opo_verl": baselines.OpoVerl,
        "gpg_verl": baselines.GpgVerl,
        "passk_verl": baselines.PassKVerl,
        "grpo_openrlhf": estimators.GrpoOpenrlhf,
        "dr_grpo_openrlhf": estimators.DrGrpoOpenrlhf,
        "rloo_openrlhf": estimators.RlooOpenrlhf,
        "reinforce_pp_openrlhf": baselines.ReinforcePPOpenrlhf,
    },
    "weighting": {
        "uniform": weightings.Uniform,
        "linear": weightings.Linear,
        "geometric_span": weightings.GeometricSpan,
        "geometric_step": weightings.GeometricStep,
        "exponential": weightings.Exponential,
        "softmax_score": graded_weightings.SoftmaxScore,
        "reciprocal_rank": weightings.ReciprocalRank,
        "dcg": weightings.Dcg,
        "top_k": weightings.TopK,
        "top_fraction": weightings.TopFraction,
        "downweight_lowest": weightings.DownweightLowest,
        "tiers": graded_weightings.Tiers,
        "tiers_flat": graded_weightings.TiersFlat,
        "borda": weightings.Borda,
        "bradley_terry": graded_weightings.BradleyTerry,
        "length_bucket": graded_weightings.LengthBucket,
    },
    "redistribution": {
        "none": redistribution.NoRedistribution,
        "sum_preserving": redistribution.SumPreserving,
        "paper": redistribution.Paper,
        "share_cap": redistribution_arms.ShareCap,
        "downweight_only": redistribution_arms.DownweightOnly,
    },
    "shaping": {
        "none": shaping.NoShaping,
        "length_penalty": shaping.LengthPenalty,
        "overlong": shaping.Overlong,
        "product": shaping.ProductReward,
    },
    "loss": {
        "token_mean": losses.TokenMean,
        "seq_mean_token_mean": losses.SeqMeanTokenMean,
        "seq_mean_token_sum": losses.SeqMeanTokenSum,
        "constant_norm": losses.ConstantNorm,
        "prompt_mean": losses.PromptMean,
    },
}
"""axis -> name -> settings class. ``experiments`` adds budget and tracking, ``sweeps`` adds launcher."""


def choice_class(axis: str, name: str, choices: dict[str, dict[str, type[Any]]] | None = None) -> type[Any]:
    """Return the class of a named choice, or raise ``ConfigError`` listing the valid names."""
    table = CHOICES if choices is None else choices
    if axis not in table:
        msg = f"unknown axis {axis!r}; choose one of {', '.join(sorted(table))}"
        raise ConfigError(msg)
    if name not in table[axis]:
        msg = f"unknown {axis} {name!r}; choose one of {', '.join(sorted(table[axis]))}"
        raise ConfigError(msg)
    return table[axis][name]


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the doc line written under each field of a settings class (unit, range, what 0 means)."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, following in itertools.pairwise(body.body):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                docs[statement.target.id] = _string(following) or docs.get(statement.target.id, "")
    return {field.name: docs.get(field.name, "") for field in fields(cls)}


def _string(node: ast.stmt) -> str:
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return " ".join(node.value.value.split())
    return ""
