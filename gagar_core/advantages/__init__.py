"""Advantages of groups of rollouts: base estimators, quality weights, redistribution. Pure NumPy, float64.

Read ``compute`` for the order of things, ``estimators`` for the base, ``weightings`` for rank to weight, and
``redistribution`` for what the method does with both.
"""

from gagar_core.advantages.compute import AdvantageResult, compute_advantages

__all__ = ["AdvantageResult", "compute_advantages"]
