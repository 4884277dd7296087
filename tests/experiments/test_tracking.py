"""The MLflow mirror against a real sqlite store: complete, idempotent, careful with what it spoils."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from experiments import tracking
from experiments.attempts import Attempt, create_run_folder, try_claim
from experiments.compose import compose
from experiments.tracking import TrackingError, flatten, mirror, mirror_by_config, open_client
from gagar_core.records import RunWriter, publish_once, to_json

STEPS = 12

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")
"""MLflow 3.17 under SQLAlchemy 2.1."""


def make_run(root: Path, seed: int = 0, *words: str, rewards: dict[int, float] | None = None) -> Path:
    """A run folder with ``STEPS`` steps and two evaluations, not yet ended."""
    folder = create_run_folder(compose(["budget=smoke", f"seed={seed}", f"root={root}", "name=s", *words]))
    attempt = try_claim(folder, 1, started_at="2026-01-01T00:00:00+00:00")
    assert attempt is not None
    write_steps(folder, 1, rewards or {})
    return folder


def write_steps(folder: Path, attempt: int, rewards: dict[int, float]) -> None:
    """Pass rates step/10 and the given rewards; held-out attempts of which half pass."""
    writer = RunWriter(folder, folder.name, attempt)
    for step in range(STEPS):
        row = {"pass_rate": step / 10, "reward_mean": rewards.get(step, 0.5), "step_s": 2.0}
        writer.add("steps", step, [row])
    for step in (0, STEPS):
        tried = [(True, True), (False, True), (True, False)]
        rows = [{"split": "held_out", "passed": passed, "valid": valid} for passed, valid in tried]
        writer.add("evals", step, rows)
    writer.flush()


def end(folder: Path, status: str = "finished", attempt: int = 1) -> None:
    """Write the result and the exit file."""
    publish_once(folder / "result.json", to_json({"status": status, "reason": ""}))
    Attempt(folder, attempt).exit("ok")


def store(root: Path) -> Any:
    """A client of the store in ``root``."""
    return open_client(f"sqlite:///{root / 'mlflow.db'}")


def runs_of(root: Path, name: str = "s") -> list[Any]:
    """Active MLflow runs of an experiment."""
    client = store(root)
    return list(client.search_runs([client.get_experiment_by_name(name).experiment_id]))


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A root with one mirrored run, and the run's folder."""
    root = tmp_path_factory.mktemp("root")
    folder = make_run(root, rewards={3: math.nan, 5: math.inf})
    end(folder)
    counts = mirror([folder])
    assert (counts.sent, counts.skipped) == (1, 0)
    return root, folder


def test_params_tags_and_metrics_are_those_of_the_records(mirrored: tuple[Path, Path]) -> None:
    root, folder = mirrored
    (run,) = runs_of(root)
    assert run.info.status == "FINISHED"
    assert run.data.params["estimator"] == "dr_grpo"
    assert run.data.params["budget.steps"] == "3"
    assert run.data.params["seed"] == "0"
    assert run.data.tags["gagar.run_id"] == folder.name
    assert run.data.tags["gagar.variant"] == "gagar"
    history = store(root).get_metric_history(run.info.run_id, "pass_rate")
    assert [(point.step, point.value) for point in history] == [(step, step / 10) for step in range(STEPS)]
    start = 1767225600000  # 2026-01-01 in ms
    assert [point.timestamp - start for point in history] == [2000 * (step + 1) for step in range(STEPS)]
    evals = store(root).get_metric_history(run.info.run_id, "eval/held_out/passed")
    assert [(point.step, point.value) for point in evals] == [(0, 0.5), (STEPS, 0.5)]
    assert "step" not in run.data.metrics
    assert "attempt" not in run.data.metrics


def test_values_that_mlflow_spoils_are_left_out_and_named(mirrored: tuple[Path, Path]) -> None:
    root, _ = mirrored
    (run,) = runs_of(root)
    history = store(root).get_metric_history(run.info.run_id, "reward_mean")
    assert [point.step for point in history] == [step for step in range(STEPS) if step not in (3, 5)]
    assert run.data.tags["gagar.nonfinite.reward_mean"] == "step 3: nan, step 5: inf"


def test_the_whole_configuration_is_an_artifact(mirrored: tuple[Path, Path]) -> None:
    root, folder = mirrored
    (path,) = (root / "mlartifacts").rglob("config.json")
    assert json.loads(path.read_text()) == json.loads((folder / "config.json").read_text())


def test_a_second_mirror_adds_nothing(mirrored: tuple[Path, Path]) -> None:
    root, folder = mirrored
    counts = mirror([folder])
    assert (counts.sent, counts.points, counts.skipped) == (0, 0, 1)
    assert len(runs_of(root)) == 1
    assert not (root / "mlflow.lease").exists()


def test_a_mirror_killed_on_the_way_is_completed_without_doubles(
    mirrored: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = mirrored
    folder = make_run(root, seed=1)
    end(folder)

    class Killed(BaseException):
        pass

    def die(*args: object, **kwargs: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        from mlflow import MlflowClient

        patch.setattr(MlflowClient, "set_terminated", die)
        with pytest.raises(Killed):
            mirror([folder])
    assert mirror([folder]).sent == 1
    (run,) = [run for run in runs_of(root) if run.data.tags["gagar.run_id"] == folder.name]
    assert len(store(root).get_metric_history(run.info.run_id, "pass_rate")) == STEPS


def test_ends_are_told_and_unended_runs_wait(mirrored: tuple[Path, Path]) -> None:
    root, _ = mirrored
    names = ("failed", "killed", "diverged", "open")
    folders = {name: make_run(root, seed) for seed, name in enumerate(names, 10)}
    Attempt(folders["failed"], 1).exit("failed", "ValueError: x")
    Attempt(folders["killed"], 1).exit("killed", "cancelled")
    end(folders["diverged"], "diverged")
    counts = mirror(list(folders.values()))
    assert (counts.sent, counts.unended) == (3, 1)
    by_id = {run.data.tags["gagar.run_id"]: run for run in runs_of(root)}
    found = {name: by_id[path.name].info.status for name, path in folders.items() if path.name in by_id}
    assert found == {"failed": "FAILED", "killed": "KILLED", "diverged": "FAILED"}
    assert by_id[folders["failed"].name].data.tags["gagar.reason"] == "ValueError: x"


def test_a_new_attempt_replaces_the_old_curve(mirrored: tuple[Path, Path]) -> None:
    root, _ = mirrored
    folder = make_run(root, seed=20)
    Attempt(folder, 1).exit("killed", "x")
    mirror([folder])
    assert try_claim(folder, 2, started_at="2026-01-02T00:00:00+00:00") is not None
    write_steps(folder, 2, {})
    end(folder, attempt=2)
    assert mirror([folder]).sent == 1
    (run,) = [run for run in runs_of(root) if run.data.tags["gagar.run_id"] == folder.name]
    assert (run.info.status, run.data.tags["gagar.attempt"]) == ("FINISHED", "2")
    assert len(store(root).get_metric_history(run.info.run_id, "pass_rate")) == STEPS


def test_each_run_goes_where_its_configuration_says(mirrored: tuple[Path, Path]) -> None:
    root, _ = mirrored
    off = make_run(root, 30, "tracking=none")
    named = make_run(root, 31, "tracking.experiment=elsewhere")
    end(off)
    end(named)
    assert mirror_by_config([off, named]).sent == 1
    assert [run.data.tags["gagar.run_id"] for run in runs_of(root, "elsewhere")] == [named.name]


def test_long_values_are_cut_and_marked(mirrored: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root, _ = mirrored
    folder = make_run(root, 40)
    end(folder)
    params = {f"k{number}": "v" for number in range(300)} | {"long": "x" * 9000}
    monkeypatch.setattr(tracking, "flatten", lambda config: params)
    mirror([folder])
    (run,) = [run for run in runs_of(root) if run.data.tags["gagar.run_id"] == folder.name]
    assert len(run.data.params) == 301
    assert len(run.data.params["long"]) == 6000
    assert run.data.tags["gagar.params_cut"] == "long"


def test_a_dead_server_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(tmp_path)
    end(folder)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(
        TrackingError, match=r"MLflow at http://127.0.0.1:9: .*The records are complete; .* sync"
    ):
        mirror([folder], "http://127.0.0.1:9")


def test_a_deleted_experiment_is_named(mirrored: tuple[Path, Path]) -> None:
    root, folder = mirrored
    client = store(root)
    client.delete_experiment(client.create_experiment("gone"))
    with pytest.raises(TrackingError, match=r"experiment 'gone' .* was deleted"):
        mirror([folder], experiment="gone")


def test_parameters_name_kinds_and_fields() -> None:
    config = {"loss": {"kind": "token_mean", "clip": 0.2, "names": ["a"]}, "seed": 3, "name": "s"}
    assert flatten(config) == {
        "loss": "token_mean",
        "loss.clip": "0.2",
        "loss.names": '["a"]',
        "seed": "3",
        "name": "s",
    }
