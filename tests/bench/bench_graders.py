"""What grading costs: groups per CPU second in batches, its share of a training step, its memory.

    python tests/bench/bench_graders.py [steps]

Groups are those that real policies wrote; runs are of size small, each in a process of its own, everything
counted: the process and its sandbox.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments import artifacts
from experiments.attempts import claim, create_run_folder
from experiments.compose import compose
from experiments.execute import execute
from experiments.grader_artifact import load_snapshot, tasks_of
from gagar_core import records
from gagar_core.grading.grade import grade_groups
from gagar_core.grading.labelled import read_lines
from gagar_core.sandbox import open_sandbox
from gagar_core.types import Group

GRADERS = ("none", "length", "distilled_s", "distilled_l", "agentic_s", "agentic_l")
_PHASES = ("rollout", "execute", "grade", "gold", "recalibrate", "train", "record")
_BATCH = 96


def words(grader: str, steps: int, root: Path) -> list[str]:
    """Overrides of a run; without a grader it is the base algorithm on the same groups."""
    chosen = ["algorithm=dr_grpo"] if grader == "none" else ["algorithm=gagar", f"grader={grader}"]
    gold = [] if grader in ("none", "length") else ["grader.gold_every=0"]
    return [*chosen, *gold, f"budget.steps={steps}", "budget.eval_every=0", "tracking=none", f"root={root}"]


def run_once(grader: str, steps: int, root: Path) -> dict[str, float]:
    """Figures of one run, read from its records; peak memory is that of this whole process."""
    folder = create_run_folder(compose(words(grader, steps, root)))
    execute(folder, claim(folder).number)
    frame = records.read(folder, "steps")
    cpu = {phase: float(frame[f"{phase}_cpu_s"].fill_null(0.0).sum()) for phase in _PHASES}
    sampling = cpu["rollout"] + cpu["execute"]
    return {
        "share of a step": cpu["grade"] / sum(cpu.values()),
        "CPU ms per group": 1000 * cpu["grade"] / max(int(frame["groups_kept"].sum()), 1),
        "sampling, CPU ms per group": 1000 * sampling / max(int(frame["groups_sampled"].sum()), 1),
        "peak memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_own_process(grader: str, steps: int, root: Path) -> dict[str, float]:
    """The same in a fresh process, so that memory is its own; artifacts are built here, before."""
    for spec in artifacts.required(compose(words(grader, steps, root))):
        artifacts.ensure(spec)
    command = [sys.executable, __file__, "--one", grader, str(steps), str(root)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def batch_rate(root: Path, grader: str = "distilled_s", groups: int = 1000) -> float:
    """Groups of 8 per CPU second, graded in batches, of groups in which all 8 pass: the dearest kind."""
    config = compose(words(grader, 0, root))
    weights = load_snapshot(artifacts.ensure(artifacts.grader_of(config)), config.grader)
    folder = artifacts.ensure(artifacts.graded_groups_of(config))
    found = [one.group for one in read_lines(folder / "train.jsonl", tasks_of(config))]
    full = [passing_only(group, config.budget.group_size) for group in found]
    batches = [[full[(k + i) % len(full)] for i in range(_BATCH)] for k in range(0, groups, _BATCH)]
    network = config.grader.build(weights)
    with open_sandbox(config.sandbox) as sandbox:
        grade_groups(batches[0], network, sandbox)
        started = time.process_time() + sandbox.cpu_s
        for batch in batches:
            grade_groups(batch, network, sandbox)
        return _BATCH * len(batches) / (time.process_time() + sandbox.cpu_s - started)


def passing_only(group: Group, size: int) -> Group:
    """A group of ``size`` made of a group's passing trajectories, repeated."""
    own = [group.trajectories[i] for i in group.passing]
    return Group(group.id, group.task, tuple(own[i % len(own)] for i in range(size)))


def measure(steps: int, root: Path) -> dict[str, float]:
    """All figures by name."""
    figures = {}
    for grader in GRADERS:
        for name, value in in_own_process(grader, steps, root).items():
            figures[f"{grader}: {name}"] = value
    figures["distilled_s: groups of 8 passing per CPU s"] = batch_rate(root)
    sampled = 1000 / figures["distilled_s: sampling, CPU ms per group"]
    figures["distilled_s: grading against sampling the same groups, times as fast"] = (
        figures["distilled_s: groups of 8 passing per CPU s"] / sampled
    )
    return figures


def main() -> None:
    """Print the figures."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(run_once(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))))
        return
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as root:
        for name, value in measure(steps, Path(root)).items():
            print(f"{name:72} {value:10.3f}")


if __name__ == "__main__":
    main()
