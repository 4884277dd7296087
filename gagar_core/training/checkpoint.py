"""Checkpoints of a run: everything that the next step depends on, whole or not at all.

    checkpoints/<step>.a<attempt>/  policy.npz  optimiser.npz  [grader.npz]  state.json  _manifest.json (last)

Random numbers need no state: every stream follows from the seed and the step. A folder whose manifest is
missing or does not match its files is torn, and is passed over.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gagar_core.errors import RecordsError
from gagar_core.policies.weights import load_weights, save_weights
from gagar_core.records.files import publish, read_json, to_json
from gagar_core.records.folder import MANIFEST, check_version
from gagar_core.records.schema import SCHEMA_VERSION

_FILES = ("policy.npz", "optimiser.npz", "state.json")
_GRADER = "grader.npz"
_KEPT = 2
"""Checkpoints kept: the newest, and one more in case it turns out to be damaged."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: training goes on at ``step``; ``state`` is plain data of the loop's parts."""

    folder: Path
    step: int
    state: dict[str, Any]


def save(
    run_folder: Path,
    run_id: str,
    attempt: int,
    step: int,
    network: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    state: dict[str, Any],
    grader: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> None:
    """Write the checkpoint before ``step`` (that many steps are done and recorded); drop the oldest ones.

    ``grader`` holds the parameters of a grader that changes in the run.
    """
    folder = run_folder / "checkpoints" / f"{step:06d}.a{attempt}"
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(network, folder / "policy.npz")
    publish(folder / "optimiser.npz", _optimiser_bytes(optimiser))
    publish(folder / "state.json", to_json(state))
    files: tuple[str, ...] = _FILES
    if grader is not None:
        publish(folder / _GRADER, arrays_bytes(grader))
        files = (*_FILES, _GRADER)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "step": step,
        "attempt": attempt,
        "files": {name: _digest(folder / name) for name in files},
    }
    publish(folder / MANIFEST, to_json(manifest))
    for old in _newest_first(run_folder)[_KEPT:]:
        shutil.rmtree(old)


def newest(run_folder: Path, run_id: str) -> Checkpoint | None:
    """The newest complete checkpoint, or None; a torn one is named on stderr and passed over.

    Raises ``RecordsError`` for one of another version or another configuration: it must not be mixed in.
    """
    for folder in _newest_first(run_folder):
        fault = _fault(folder)
        if fault:
            print(f"checkpoint {folder} is passed over: {fault}", file=sys.stderr)
            continue
        manifest = read_json(folder / MANIFEST)
        check_version(manifest["schema_version"], folder)
        if manifest["run_id"] != run_id:
            msg = f"{folder} belongs to run {manifest['run_id']}, not to {run_id}; remove it or change root="
            raise RecordsError(msg)
        return Checkpoint(folder, manifest["step"], read_json(folder / "state.json"))
    return None


def restore(checkpoint: Checkpoint, network: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Put parameters and optimiser moments back, bit for bit."""
    load_weights(network, checkpoint.folder / "policy.npz")
    with np.load(
        io.BytesIO((checkpoint.folder / "optimiser.npz").read_bytes()), allow_pickle=False
    ) as arrays:
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for name in arrays.files:
            index, key = name.split(".")
            moments.setdefault(int(index), {})[key] = torch.from_numpy(arrays[name])
    content = optimiser.state_dict()
    optimiser.load_state_dict({"state": moments, "param_groups": content["param_groups"]})


def grader_weights(checkpoint: Checkpoint) -> dict[str, np.ndarray[Any, Any]] | None:
    """Parameters of the grader, where it had been fitted again."""
    path = checkpoint.folder / _GRADER
    if not path.exists():
        return None
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def arrays_bytes(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Arrays as the bytes of one ``.npz`` file."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **dict(arrays))
    return stream.getvalue()


def _optimiser_bytes(optimiser: torch.optim.Optimizer) -> bytes:
    moments = optimiser.state_dict()["state"]
    arrays = {f"{i}.{key}": value.cpu().numpy() for i, part in moments.items() for key, value in part.items()}
    return arrays_bytes(arrays)


def _newest_first(run_folder: Path) -> list[Path]:
    folders = [path for path in (run_folder / "checkpoints").glob("*.a*") if path.is_dir()]
    return sorted(folders, key=_order, reverse=True)


def _order(folder: Path) -> tuple[int, int]:
    step, attempt = folder.name.split(".a")
    return int(step), int(attempt)


def _fault(folder: Path) -> str:
    if not (folder / MANIFEST).exists():
        return "it was not finished"
    try:
        files = read_json(folder / MANIFEST)["files"]
        damaged = [name for name in {*_FILES, *files} if _digest(folder / name) != files[name]]
    except (RecordsError, KeyError, OSError) as err:
        return str(err)
    return f"{', '.join(damaged)} does not match its digest" if damaged else ""


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
