"""Where the time of a training step goes: prints the shares, rollouts per CPU second, and the cost's flatness.

    python tests/bench/bench_training.py [steps]

Runs one gagar run of size small with everything counted: this process and the sandbox's.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from experiments.attempts import claim, create_run_folder
from experiments.compose import compose
from experiments.execute import execute
from gagar_core import records

PHASES = ("rollout", "execute", "grade", "train", "record")


def measure(steps: int, root: Path) -> dict[str, float]:
    """Run and read the figures from the records."""
    words = [
        "algorithm=gagar",
        f"budget.steps={steps}",
        "budget.eval_every=0",
        "tracking=none",
        f"root={root}",
    ]
    folder = create_run_folder(compose(words))
    execute(folder, claim(folder).number)
    frame = records.read(folder, "steps").sort("step")
    cpu = frame.select([pl.col(f"{phase}_cpu_s").fill_null(0.0).alias(phase) for phase in PHASES])
    per_step = cpu.sum_horizontal().to_numpy()
    tokens = (frame["gen_tokens"] + frame["obs_tokens"]).to_numpy()
    half = steps // 2
    figures = {f"{phase} share": float(cpu[phase].sum() / per_step.sum()) for phase in PHASES}
    figures["rollouts per CPU second"] = float(frame["traj_sampled"].sum() / per_step.sum())
    figures["CPU us per token, first half"] = 1e6 * float(per_step[:half].sum() / tokens[:half].sum())
    figures["CPU us per token, second half"] = 1e6 * float(per_step[half:].sum() / tokens[half:].sum())
    figures["CPU s per step, median"] = float(np.median(per_step))
    figures["peak memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def main() -> None:
    """Print the figures."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as root:
        for name, value in measure(steps, Path(root)).items():
            print(f"{name:32} {value:10.3f}")


if __name__ == "__main__":
    main()
