"""Costs of running many: ``python tests/bench/bench_sweeps.py``. CPU seconds, with the bound that each must keep."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from sweeps.process import THREAD_VARIABLES

os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))  # before anything loads a numerical library

from gagar_core.records import read_json
from sweeps.jobs import Job
from sweeps.ledger import Ledger
from sweeps.plan import build_plan
from sweeps.plan_source import PlanSource
from sweeps.process import Perform, perform, warm
from sweeps.puller import Puller
from sweeps.spec import from_words
from sweeps.status import status_of

Figure = tuple[str, float, float, str]
"""What, measured, bound, unit."""

SMALLEST = (
    "budget=smoke",
    "budget.steps=0",
    "budget.sft_demos=40",
    "budget.eval_tasks=1",
    "budget.eval_attempts=1",
)


def plan_of(root: Path, number: int, *words: str) -> Ledger:
    """A plan of ``number`` runs of one variant."""
    return build_plan(
        from_words(["algorithm=gagar", *words, f"seed=range({number})", f"root={root}"])
    ).write()


def start_of_a_run(root: Path) -> Iterator[Figure]:
    """CPU of worker and child for a job that does nothing, and for the smallest real run, in a warm worker."""
    ledger = plan_of(root / "nothing", 40)
    warm([ledger.planned[0]["config"]])
    before = time.process_time()
    children = _pull(ledger, lambda job: None)
    total = time.process_time() - before + sum(children)
    yield "start of a job that does nothing", total / len(children), 0.5, "CPU s"
    runs = [
        cpu for job, cpu in _pull_named(plan_of(root / "smallest", 3, *SMALLEST), perform) if job == "run"
    ]
    yield (
        "the smallest real run (sandbox, weights, evaluation, records)",
        sum(runs) / len(runs),
        1.0,
        "CPU s",
    )


def _pull(ledger: Ledger, do: Perform) -> list[float]:
    return [cpu for _, cpu in _pull_named(ledger, do)]


def _pull_named(ledger: Ledger, do: Perform) -> list[tuple[str, float]]:
    done: list[Job] = []

    class Source(PlanSource):
        def report(self, job: Job, result: object) -> None:
            done.append(job)
            super().report(job, result)  # type: ignore[arg-type]

    def mark(job: Job) -> None:
        do(job)
        if do is not perform and job.kind == "artifact":
            folder = Path(job.spec["root"]) / "artifacts" / job.spec["artifact"] / job.identity
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "done.json").write_text("{}")

    Puller(Source(ledger, "bench"), 1, mark, say=lambda text: None).work()
    return [(job.kind, read_json(job.attempt.path / "exit.json")["cpu_s"]) for job in done]


PULLER = """
import sys
from pathlib import Path
from sweeps.ledger import Ledger
from sweeps.plan_source import PlanSource
from sweeps.process import warm
from sweeps.puller import Puller
ledger = Ledger(Path(sys.argv[1]))
warm([ledger.planned[0]["config"]])
Puller(PlanSource(ledger, "bench"), 16, lambda job: None, say=lambda text: None).work()
"""


def packed(root: Path) -> Iterator[Figure]:
    """CPU per run of 64 that do nothing, in 4 warm pullers of 16 slots: what packing adds to a run's own."""
    ledger = plan_of(root, 64)
    for line in ledger.artifacts:
        ledger.artifact_folder(line).mkdir(parents=True)
        (ledger.artifact_folder(line) / "done.json").write_text("{}")
    before = os.times()
    command = [sys.executable, "-c", PULLER, str(ledger.path)]
    pullers = [subprocess.Popen(command, cwd=Path(__file__).parents[2]) for _ in range(4)]
    assert [puller.wait() for puller in pullers] == [0] * 4
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert len(list(ledger.path.glob("runs/*/attempts/1/exit.json"))) == 64
    yield "64 packed runs, per run above its own", spent / 64, 0.5, "CPU s"


def optuna_per_trial(root: Path) -> Iterator[Figure]:
    """CPU of asking and telling, first and after 200 trials."""
    from sweeps.study import Study
    from sweeps.tuning import build_tuning

    study = Study(build_tuning("quality_weight", [f"root={root}"]).write())

    def trials(number: int) -> float:
        before = time.process_time()
        for _ in range(number):
            asked = study.ask(10**6, "w", lambda worker: True)
            assert asked is not None
            study.tell(asked.number, float(asked.settings.get("floor", 0.5)))
        return 1000 * (time.process_time() - before) / number

    yield "Optuna, trials 1-100", trials(100), 50.0, "CPU ms"
    trials(100)
    yield "Optuna, trials 201-250", trials(50), 50.0, "CPU ms"


def looking(root: Path) -> Iterator[Figure]:
    """CPU of planning and looking at 1,000 runs, and of --help."""
    before = time.process_time()
    ledger = plan_of(root, 1000)
    yield "plan of 1,000 runs of one variant", time.process_time() - before, 10.0, "CPU s"
    before = time.process_time()
    words = ["algorithm=grpo,gagar", "budget.steps=range(1,501)", f"root={root}", "name=wide"]
    build_plan(from_words(words)).write()
    yield "plan of 1,000 variants", time.process_time() - before, 10.0, "CPU s"
    before = time.process_time()
    status_of(ledger)
    yield "status of 1,000 runs", time.process_time() - before, 1.0, "CPU s"
    before_children = os.times()
    subprocess.run([sys.executable, "-m", "sweeps", "--help"], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    spent = (
        after.children_user
        + after.children_system
        - before_children.children_user
        - before_children.children_system
    )
    yield "--help", spent, 0.4, "CPU s"


HYDRA_APP = """
import hydra
from omegaconf import DictConfig
from experiments.compose import CONF, register
register()
@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def app(config: DictConfig) -> None:
    pass
app()
"""


def against_hydra(root: Path) -> Iterator[Figure]:
    """CPU per job that does nothing: Hydra's basic launcher, and a plan, a submission's claims and its ends."""
    jobs = 50
    app = root / "app.py"
    app.write_text(HYDRA_APP)
    words = [
        "-m",
        f"budget.steps=range(1,{jobs + 1})",
        f"hydra.sweep.dir={root}/out",
        "hydra.output_subdir=.h",
    ]
    before = os.times()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(
        [sys.executable, str(app), *words], cwd=root, env=env, stdout=subprocess.DEVNULL, check=True
    )
    after = os.times()
    theirs = after.children_user + after.children_system - before.children_user - before.children_system
    before_s = time.process_time()
    words = ["algorithm=gagar", f"budget.steps=range(1,{jobs + 1})", f"root={root}", "name=ours"]
    ledger = build_plan(from_words(words)).write()
    children = _pull(ledger, lambda job: None)
    ours = time.process_time() - before_s + sum(children)
    yield "Hydra's basic launcher, per job", theirs / jobs, float("inf"), "CPU s"
    yield "plan, claim, process and exit file, per job", ours / jobs, theirs / jobs, "CPU s"


def main() -> int:
    """Print every figure; exit code 1 if one is above its bound."""
    above = False
    for group in (start_of_a_run, packed, optuna_per_trial, looking, against_hydra):
        with tempfile.TemporaryDirectory() as folder:
            for what, measured, bound, unit in group(Path(folder)):
                above |= measured > bound
                limit = f"  (< {bound:g})"
                print(f"{what:64s} {measured:8.3f} {unit}{limit}", flush=True)
    return int(above)


if __name__ == "__main__":
    sys.exit(main())
