"""Artifacts: shared by variants of a seed block, built once by racing processes, rebuilt after a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from experiments import artifacts
from experiments.compose import compose
from experiments.schema import RunConfig
from gagar_core.records import read_json
from tests.conftest import TINY

ROOT = Path(__file__).parent.parent.parent


def config(root: Path, *words: str) -> RunConfig:
    return compose([*TINY, f"root={root}", *words])


def digest(*words: str) -> str:
    return artifacts.required(config(Path("x"), *words))[0].digest


def test_a_seed_block_shares_its_warm_start() -> None:
    assert digest("algorithm=gagar") == digest(
        "algorithm=grpo", "sampling=keep_all", "trainer.lr=1e-3", "budget.steps=9"
    )
    others = [
        "seed=1",
        "policy.size=m",
        "budget.sft_demos=401",
        "budget.sft_epochs=2",
        "tasks.public_tests=3",
    ]
    assert len({digest(word) for word in ["seed=0", *others]}) == 6


SCRIPT = """
import sys
from experiments import artifacts, sft_artifact
from experiments.compose import compose
original = sft_artifact.build
def build(*args, **kwargs):
    print("building", flush=True)
    return original(*args, **kwargs)
sft_artifact.build = build
artifacts.ensure(artifacts.required(compose(sys.argv[1:]))[0])
print("have it")
"""


def start(root: Path) -> subprocess.Popen[str]:
    words = [*TINY, f"root={root}"]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def test_two_processes_build_once(tmp_path: Path) -> None:
    outputs = [process.communicate()[0] for process in [start(tmp_path), start(tmp_path)]]
    assert sorted(output.count("building") for output in outputs) == [0, 1]
    assert all(output.endswith("have it\n") for output in outputs)
    spec = artifacts.required(config(tmp_path))[0]
    assert read_json(spec.path() / "done.json")["demonstrations"] == 400
    assert sorted(p.name for p in spec.path().parent.iterdir()) == [spec.digest]


def test_a_killed_builder_is_replaced(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "building\n"
    process.kill()
    process.wait()
    process.stdout.close()
    spec = artifacts.required(config(tmp_path))[0]
    assert not spec.done()
    assert artifacts.ensure(spec) == spec.path()
    assert spec.done()
