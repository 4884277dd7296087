"""Speed and memory of the advantages against verl's estimators, in one process on the same arrays.

    python tests/bench/bench_advantages.py [--rollouts 65536] [--json]

Without verl the same is measured against a plain loop and a vectorised form written here. Only ratios mean
anything: the two sides are interleaved and the smallest CPU time of several repeats counts. Coding the group
labels is part of our time.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import tracemalloc
import uuid
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # measure this checkout, whatever is installed

from gagar_core.advantages import compute_advantages
from gagar_core.advantages.estimators import DrGrpo
from gagar_core.advantages.redistribution import Paper
from gagar_core.advantages.tokens import broadcast
from gagar_core.advantages.weightings import Linear

GROUP = 8
GATES = {
    "loop / ours, ranks, uuid": (">=", 50.0),
    "ours / vectorised, ranks, uuid": ("<=", 0.5),
    "ours / vectorised, weights, int": ("<=", 4.0),
    "ours / vectorised, ranks, int": ("<=", 12.0),
    "8x rollouts / 1x, ranks, uuid": ("<=", 12.0),
    "peak bytes per rollout, ranks, uuid": ("<=", 80.0),
    "peak bytes per rollout, weights, int": ("<=", 80.0),
}


def plain_loop(rewards: torch.Tensor, mask: torch.Tensor, index: np.ndarray) -> torch.Tensor:
    """Group-normalised advantages with one Python step per row on tensor elements."""
    scores, members = rewards.sum(dim=-1), defaultdict(list)
    for row in range(len(scores)):
        members[index[row]].append(scores[row])
    mean = {label: torch.mean(torch.stack(own)) for label, own in members.items()}
    spread = {label: torch.std(torch.stack(own)) for label, own in members.items()}
    for row in range(len(scores)):
        scores[row] = (scores[row] - mean[index[row]]) / (spread[index[row]] + 1e-6)
    return scores.unsqueeze(-1) * mask


def plain_vectorised(rewards: torch.Tensor, mask: torch.Tensor, index: np.ndarray) -> torch.Tensor:
    """The same with sorted labels and scatter sums."""
    scores = rewards.sum(dim=-1)
    codes = torch.from_numpy(np.unique(index, return_inverse=True)[1])
    count = torch.bincount(codes).to(scores.dtype)
    centred = scores - (torch.zeros_like(count).index_add_(0, codes, scores) / count)[codes]
    squares = torch.zeros_like(count).index_add_(0, codes, centred * centred)
    return ((centred / (torch.sqrt(squares / (count - 1)) + 1e-6)[codes]).unsqueeze(-1)) * mask


def rivals() -> tuple[str, Callable[..., Any], Callable[..., Any]]:
    """Name, loop and vectorised form of what we are compared with."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from verl.trainer.ppo import core_algos
    except ImportError:
        return "plain forms (verl is not installed)", plain_loop, plain_vectorised
    loop = core_algos.compute_grpo_outcome_advantage
    return "verl", loop, core_algos.compute_grpo_vectorized_outcome_advantage


class Batch:
    """Rollouts in contiguous groups, half of them passing, with tied ranks."""

    def __init__(self, rollouts: int, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        groups = rollouts // GROUP
        self.ints = np.repeat(np.arange(groups), GROUP)
        names = [str(uuid.UUID(bytes=generator.bytes(16))) for _ in range(groups)]
        self.uuids = np.array([names[code] for code in self.ints], dtype=object)
        self.rewards = (generator.random(rollouts) < 0.5).astype(np.float64)
        self.ranks = np.where(self.rewards > 0, generator.integers(1, GROUP + 1, rollouts), np.nan)
        self.weights = generator.uniform(0.1, 1.0, rollouts)
        self.tensor = torch.from_numpy(self.rewards.astype(np.float32))[:, None]
        self.mask = torch.ones(rollouts, 1)
        self.trained = self.mask.numpy()

    def ranked(self, ids: np.ndarray) -> Any:
        """Full redistribution from ranks: coding, base, weights, rescale, cap, recentring, broadcast."""
        result = compute_advantages(
            self.rewards,
            ids,
            estimator=DrGrpo(),
            redistribution=Paper(),
            weighting=Linear(),
            ranks=self.ranks,
        )
        return result, broadcast(result.advantages, self.trained)

    def weighted(self, ids: np.ndarray) -> Any:
        """The same with weights given."""
        result = compute_advantages(
            self.rewards, ids, estimator=DrGrpo(), redistribution=Paper(), weights=self.weights
        )
        return result, broadcast(result.advantages, self.trained)


def fastest(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Smallest CPU seconds of each call over interleaved repeats."""
    best = dict.fromkeys(calls, float("inf"))
    gc.disable()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    gc.enable()
    return best


def peak(call: Callable[[], Any]) -> int:
    """Bytes allocated at the worst moment of a call, result and coding of labels included."""
    call()
    tracemalloc.start()
    call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def measure(rollouts: int) -> dict[str, Any]:
    """All times, ratios and peaks."""
    torch.set_num_threads(1)
    name, loop, vectorised = rivals()
    batch, large = Batch(rollouts), Batch(8 * rollouts)
    seconds = fastest(
        {
            "ours, ranks, uuid": lambda: batch.ranked(batch.uuids),
            "ours, ranks, int": lambda: batch.ranked(batch.ints),
            "ours, weights, uuid": lambda: batch.weighted(batch.uuids),
            "ours, weights, int": lambda: batch.weighted(batch.ints),
            "vectorised, uuid": lambda: vectorised(batch.tensor, batch.mask, batch.uuids),
            "vectorised, int": lambda: vectorised(batch.tensor, batch.mask, batch.ints),
        },
        repeats=15,
    )
    seconds |= fastest({"loop, uuid": lambda: loop(batch.tensor.clone(), batch.mask, batch.uuids)}, repeats=2)
    seconds |= fastest({"ours, ranks, uuid, 8x": lambda: large.ranked(large.uuids)}, repeats=5)
    ratios = {
        "loop / ours, ranks, uuid": seconds["loop, uuid"] / seconds["ours, ranks, uuid"],
        "ours / vectorised, ranks, uuid": seconds["ours, ranks, uuid"] / seconds["vectorised, uuid"],
        "ours / vectorised, weights, int": seconds["ours, weights, int"] / seconds["vectorised, int"],
        "ours / vectorised, ranks, int": seconds["ours, ranks, int"] / seconds["vectorised, int"],
        "8x rollouts / 1x, ranks, uuid": seconds["ours, ranks, uuid, 8x"] / seconds["ours, ranks, uuid"],
    }
    for label, call, ids in (
        ("ranks, uuid", batch.ranked, batch.uuids),
        ("weights, int", batch.weighted, batch.ints),
    ):
        ratios[f"peak bytes per rollout, {label}"] = peak(lambda call=call, ids=ids: call(ids)) / rollouts
    return {"against": name, "rollouts": rollouts, "milliseconds": seconds, "ratios": ratios}


def missed(ratios: dict[str, float]) -> list[str]:
    """Gates that the ratios do not meet."""
    return [
        f"{name}: {ratios[name]:.2f}, must be {sign} {bound:g}"
        for name, (sign, bound) in GATES.items()
        if not (ratios[name] >= bound if sign == ">=" else ratios[name] <= bound)
    ]


def main() -> int:
    """Print the measurements; exit 1 if a gate is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=65536)
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a table")
    options = parser.parse_args()
    found = measure(options.rollouts)
    found["milliseconds"] = {name: 1e3 * value for name, value in found["milliseconds"].items()}
    faults = missed(found["ratios"])
    if options.json:
        print(json.dumps({**found, "missed": faults}))
        return bool(faults)
    print(f"{found['rollouts']} rollouts in groups of {GROUP}, against {found['against']}")
    for name, value in found["milliseconds"].items():
        print(f"  {value:10.2f} ms  {name}")
    for name, value in found["ratios"].items():
        gate = " ".join(map(str, GATES[name])) if name in GATES else ""
        print(f"  {value:10.2f}     {name}  {gate}")
    print("\n".join(f"missed: {fault}" for fault in faults) or "all gates met")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
