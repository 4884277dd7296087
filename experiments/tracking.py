"""MLflow as a mirror: one process copies ended run folders, as often as one likes, to the same effect.

Runs write records only; nothing here is imported by a run. A mirrored run is found again by its tag
``gagar.run_id``; what has been sent completely carries the tag ``gagar.mirrored`` and is skipped. Sending
again after an interruption repeats equal rows (times come from the records), which MLflow stores once.

MLflow turns infinities into 1.8e308, which then sort first, and NaN breaks its pages: both are left out and
named in a tag instead. The records keep them exactly.
"""

from __future__ import annotations

import datetime
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.lease import lease
from gagar_core.errors import GagarError
from gagar_core.records import RunFolder, read, read_json

if TYPE_CHECKING:
    import polars as pl

_BATCH = 1000
_PARAM_LIMIT = 6000
_PARAM_BATCH = 100
_TAG_LIMIT = 5000
_LEASE_WAIT_S = 120.0

EVAL_METRICS = ("passed", "audit_passed", "gen_tokens", "test_runs", "turns", "truncated")
"""Columns of ``evals`` whose means over valid attempts are mirrored, per split and step."""


class TrackingError(GagarError):
    """The tracking store refused or did not answer; the records are complete all the same."""


@dataclass(frozen=True)
class MirrorCounts:
    """What one call did: runs sent, points sent, runs already there, runs that have not ended."""

    sent: int = 0
    points: int = 0
    skipped: int = 0
    unended: int = 0

    def __add__(self, other: MirrorCounts) -> MirrorCounts:
        return MirrorCounts(
            self.sent + other.sent,
            self.points + other.points,
            self.skipped + other.skipped,
            self.unended + other.unended,
        )


@dataclass(frozen=True)
class Ended:
    """A run that has ended: its folder, the attempt that counts, and MLflow's word for the end."""

    folder: RunFolder
    attempt: int
    status: str
    reason: str = ""

    @property
    def mark(self) -> str:
        """Content of the tag that says "all of this has been sent"."""
        return f"attempt {self.attempt} {self.status}"


def mirror_by_config(run_folders: Iterable[Path]) -> MirrorCounts:
    """Mirror each run to where its own configuration says; runs with ``tracking=none`` are left alone."""
    targets: dict[tuple[str, str], list[Path]] = {}
    for path in run_folders:
        tracking = RunFolder(path).config["config"]["tracking"]
        if tracking["kind"] != "none":
            targets.setdefault((tracking["uri"], tracking["experiment"]), []).append(path)
    total = MirrorCounts()
    for (uri, experiment), paths in targets.items():
        total += mirror(paths, uri, experiment)
    return total


def mirror(run_folders: Sequence[Path], uri: str = "", experiment: str = "") -> MirrorCounts:
    """Copy ended runs to one MLflow experiment; raises ``TrackingError`` if the store cannot be used.

    Parameters
    ----------
    run_folders
        Folders ``<root>/<sweep>/runs/<run_id>`` of one sweep.
    uri
        Tracking server or database; "" is ``<root>/mlflow.db``, created here, by one process at a time.
    experiment
        Name of the experiment; "" is the name of the sweep.
    """
    if not run_folders:
        return MirrorCounts()
    sweep = run_folders[0].resolve().parents[1]
    uri = uri or f"sqlite:///{sweep.parent / 'mlflow.db'}"
    found = [ended(path) for path in run_folders]
    todo = [run for run in found if run is not None]
    unended = len(found) - len(todo)
    with lease(sweep.parent / "mlflow.lease", wait_s=_LEASE_WAIT_S):
        try:
            counts = _mirror(todo, uri, experiment or sweep.name, sweep)
        except GagarError:
            raise
        except Exception as err:  # MLflow lets errors of its database and HTTP libraries through
            first_line = str(err).strip().splitlines()[:1]
            msg = (
                f"MLflow at {uri}: {type(err).__name__}: {' '.join(first_line)}. The records are complete; "
                f"`python -m sweeps sync {sweep}` sends them again"
            )
            raise TrackingError(msg) from err
    return counts + MirrorCounts(unended=unended)


def ended(path: Path) -> Ended | None:
    """How a run ended, or None if it has not."""
    folder = RunFolder(path)
    attempt = max(folder.attempts(), default=0)
    if folder.finished:
        result = folder.result
        diverged = result.get("status") == "diverged"
        return Ended(folder, attempt, "FAILED" if diverged else "FINISHED", str(result.get("reason") or ""))
    exit_file = folder.attempt_path(attempt) / "exit.json"
    if not exit_file.exists():
        return None
    told = read_json(exit_file)
    status = "KILLED" if told["status"] == "killed" else "FAILED"
    return Ended(folder, attempt, status, str(told.get("reason") or ""))


def _mirror(runs: Sequence[Ended], uri: str, experiment: str, sweep: Path) -> MirrorCounts:
    client = open_client(uri)
    experiment_id = _experiment(client, experiment, uri, sweep.parent)
    known = _known_runs(client, experiment_id)
    counts = MirrorCounts()
    for run in runs:
        tags = known.get(run.folder.run_id, {})
        if tags.get("gagar.mirrored") == run.mark:
            counts += MirrorCounts(skipped=1)
            continue
        points = _send(client, experiment_id, run, tags, sweep.name)
        counts += MirrorCounts(sent=1, points=points)
    return counts


def open_client(uri: str) -> Any:
    """A client of the store; telemetry off, and few retries: a mirror is repeated, not waited for."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["DO_NOT_TRACK"] = "true"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


def _experiment(client: Any, name: str, uri: str, root: Path) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        place = (
            {"artifact_location": (root / "mlartifacts" / name).as_uri()} if uri.startswith("sqlite:") else {}
        )
        return str(client.create_experiment(name, **place))
    if found.lifecycle_stage != "active":
        msg = (
            f"MLflow experiment {name!r} at {uri} was deleted: restore it, or give tracking.experiment=OTHER"
        )
        raise TrackingError(msg)
    return str(found.experiment_id)


def _known_runs(client: Any, experiment_id: str) -> dict[str, dict[str, str]]:
    """Tags of the mirrored runs of an experiment by our run id, with MLflow's id under ``id``."""
    known, token = {}, None
    while True:
        page = client.search_runs([experiment_id], max_results=1000, page_token=token)
        for run in page:
            if "gagar.run_id" in run.data.tags:
                known[run.data.tags["gagar.run_id"]] = {**run.data.tags, "id": run.info.run_id}
        token = page.token
        if not token:
            return known


def _send(client: Any, experiment_id: str, run: Ended, tags: Mapping[str, str], sweep: str) -> int:
    if tags and tags.get("gagar.attempt") != str(run.attempt):
        client.delete_run(tags["id"])  # an earlier attempt's curve must not be mixed with this one's
        tags = {}
    start = _started_ms(run)
    mlflow_id = tags.get("id") or _create(client, experiment_id, run, sweep, start)
    points, odd, last = _points(run, start)
    for batch in _batches(points, _BATCH):
        client.log_batch(mlflow_id, metrics=batch)
    for name, text in odd.items():
        client.set_tag(mlflow_id, f"gagar.nonfinite.{name}", text[:_TAG_LIMIT])
    client.set_terminated(mlflow_id, run.status, end_time=last)
    client.set_tag(mlflow_id, "gagar.mirrored", run.mark)
    return len(points)


def _create(client: Any, experiment_id: str, run: Ended, sweep: str, start: int) -> str:
    from mlflow.entities import Param

    config = run.folder.config
    name = f"{config['variant']} seed {config['seed']}"
    tags = {
        "gagar.run_id": run.folder.run_id,
        "gagar.variant": config["variant"],
        "gagar.seed": str(config["seed"]),
        "gagar.sweep": sweep,
        "gagar.attempt": str(run.attempt),
        "gagar.reason": run.reason[:_TAG_LIMIT],
    }
    created = client.create_run(experiment_id, start_time=start, tags=tags, run_name=name)
    mlflow_id = str(created.info.run_id)
    params = flatten(config["config"])
    cut = sorted(key for key, value in params.items() if len(value) > _PARAM_LIMIT)
    if cut:
        client.set_tag(mlflow_id, "gagar.params_cut", ", ".join(cut)[:_TAG_LIMIT])
    listed = [Param(key, value[:_PARAM_LIMIT]) for key, value in params.items()]
    for batch in _batches(listed, _PARAM_BATCH):
        client.log_batch(mlflow_id, params=batch)
    client.log_text(mlflow_id, json.dumps(config, indent=1, sort_keys=True), "config.json")
    return mlflow_id


def flatten(config: Mapping[str, Any]) -> dict[str, str]:
    """Configuration as MLflow parameters: ``axis`` is the kind of a choice, ``axis.field`` its settings."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat[key] = str(value.get("kind", ""))
            flat |= {f"{key}.{name}": _text(entry) for name, entry in value.items() if name != "kind"}
        else:
            flat[key] = _text(value)
    return flat


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _started_ms(run: Ended) -> int:
    claim = run.folder.attempt_path(run.attempt) / "claim.json"
    if not claim.exists():
        return 0
    return int(datetime.datetime.fromisoformat(read_json(claim)["started_at"]).timestamp() * 1000)


def _points(run: Ended, start: int) -> tuple[list[Any], dict[str, str], int]:
    """Metrics to send, non-finite values as text by name, and the time of the last point (ms)."""
    from mlflow.entities import Metric

    steps = read(run.folder.path, "steps").sort("step")
    seconds = steps["step_s"].fill_null(0.0).fill_nan(0.0).cum_sum()
    times = {step: start + int(s * 1000) for step, s in zip(steps["step"], seconds, strict=True)}
    last = max(times.values(), default=start)
    points: list[Any] = []
    odd: dict[str, list[str]] = {}
    for name, step, value in [*_step_values(steps), *_eval_values(read(run.folder.path, "evals"))]:
        if math.isfinite(value):
            points.append(Metric(name, value, times.get(step, last), step))
        else:
            odd.setdefault(name, []).append(f"step {step}: {value}")
    return points, {name: ", ".join(entries) for name, entries in odd.items()}, last


def _step_values(steps: pl.DataFrame) -> Iterator[tuple[str, int, float]]:
    for name in steps.columns:
        if name in ("step", "attempt") or not steps.schema[name].is_numeric():
            continue
        for step, value in zip(steps["step"], steps[name], strict=True):
            if value is not None:
                yield name, step, float(value)


def _eval_values(evals: pl.DataFrame) -> Iterator[tuple[str, int, float]]:
    import polars as pl

    valid = evals.filter(pl.col("valid"))
    means = [pl.col(name).cast(pl.Float64).mean() for name in EVAL_METRICS]
    for row in valid.group_by("split", "step", maintain_order=True).agg(means).iter_rows(named=True):
        for name in EVAL_METRICS:
            if row[name] is not None:
                yield f"eval/{row['split']}/{name}", row["step"], row[name]


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]
