"""Things built once and used by many runs, stored under a digest of what they were built from.

    <root>/artifacts/<kind>/<digest>/spec.json + the builder's files + done.json

``done.json`` is written last: a folder without it is not an artifact. Building is guarded by a lease, so that
two processes that miss the same artifact build it once; the loser waits and reads the winner's.
"""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.identity import delta, digest_of
from experiments.schema import CONFIG_EPOCH, RunConfig, to_record
from gagar_core.errors import RecordsError
from gagar_core.records import publish, publish_once, read_json, to_json

BUILDERS = {"sft": "experiments.sft_artifact"}
"""kind -> module with ``build(config, folder)``; imported only when something is built."""

LEASE_STALE_S = 60.0
"""A lease whose owner has not touched it for this long (in file-server time) may be broken."""


@dataclass(frozen=True)
class ArtifactSpec:
    """What to build: the kind, the part of a configuration that matters, and the digest of both."""

    kind: str
    digest: str
    seed: int
    config: RunConfig

    def path(self) -> Path:
        """Folder of the artifact."""
        return Path(self.config.root) / "artifacts" / self.kind / self.digest

    def done(self) -> bool:
        """Whether it has been built completely."""
        return (self.path() / "done.json").exists()


def required(config: RunConfig) -> list[ArtifactSpec]:
    """The artifacts that a run needs, in the order in which they must be built."""
    parts = {
        "tasks": delta(config, ("tasks",)),
        "policy": delta(config, ("policy",)),
        "demos": [config.budget.sft_demos, config.budget.sft_epochs],
        "seed": config.seed,
        "epoch": CONFIG_EPOCH,
    }
    return [ArtifactSpec("sft", digest_of(["sft", parts]), config.seed, config)]


def ensure(spec: ArtifactSpec, beat: Callable[[], None] = lambda: None) -> Path:
    """Return the artifact's folder, building it if nobody else does; ``beat`` is called while waiting."""
    while not spec.done():
        lease = spec.path().with_name(f"{spec.digest}.lease")
        lease.parent.mkdir(parents=True, exist_ok=True)
        if publish_once(lease, to_json({"host": socket.gethostname(), "pid": os.getpid()})):
            try:
                _build(spec, lease)
            finally:
                lease.unlink(missing_ok=True)
        else:
            _wait_or_break(lease)
            beat()
    return spec.path()


def _build(spec: ArtifactSpec, lease: Path) -> None:
    if spec.done():
        return
    folder = spec.path()
    folder.mkdir(parents=True, exist_ok=True)
    publish(
        folder / "spec.json",
        to_json({"kind": spec.kind, "seed": spec.seed, "config": to_record(spec.config)}),
    )
    builder = importlib.import_module(BUILDERS[spec.kind])
    summary = builder.build(spec.config, folder, beat=lambda: os.utime(lease))
    publish_once(folder / "done.json", to_json(summary))


def _wait_or_break(lease: Path) -> None:
    # the probe's time comes from the same file server as the lease's: clocks of hosts are never compared
    probe = lease.with_name(f"{lease.name}.{os.getpid()}.probe")
    try:
        owner = read_json(lease)
        probe.touch()
        age = probe.stat().st_mtime - lease.stat().st_mtime
        same_host_dead = owner["host"] == socket.gethostname() and not pid_alive(owner["pid"])
        if same_host_dead or age > LEASE_STALE_S:
            lease.replace(lease.with_name(f"{lease.name}.{os.getpid()}.broken"))
            return
    except (FileNotFoundError, RecordsError):
        return  # the owner finished between our looks
    finally:
        probe.unlink(missing_ok=True)
    time.sleep(0.2)


def pid_alive(pid: int) -> bool:
    """Whether a process of this host exists (a zombie does not count)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def summary_of(spec: ArtifactSpec) -> dict[str, Any]:
    """What the builder said about the artifact (accuracy, CPU seconds)."""
    return dict(read_json(spec.path() / "done.json"))
