"""Things built once and used by many runs, stored under a digest of what they were built from.

    <root>/artifacts/<kind>/<digest>/spec.json + the builder's files + done.json

``done.json`` is written last: a folder without it is not an artifact. Building is guarded by a lease, so that
two processes that miss the same artifact build it once; the loser waits and reads the winner's.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.identity import delta, digest_of
from experiments.lease import LeaseHeldError, lease
from experiments.schema import CONFIG_EPOCH, RunConfig, to_record
from gagar_core.records import publish, publish_once, to_json

BUILDERS = {"sft": "experiments.sft_artifact"}
"""kind -> module with ``build(config, folder)``; imported only when something is built."""

_POLL_S = 0.2
"""Between looks at what somebody else builds, seconds."""


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
    held = spec.path().with_name(f"{spec.digest}.lease")
    while not spec.done():
        try:
            with lease(held):
                _build(spec, held)
        except LeaseHeldError:
            time.sleep(_POLL_S)
            beat()
    return spec.path()


def _build(spec: ArtifactSpec, held: Path) -> None:
    if spec.done():
        return
    folder = spec.path()
    folder.mkdir(parents=True, exist_ok=True)
    publish(
        folder / "spec.json",
        to_json({"kind": spec.kind, "seed": spec.seed, "config": to_record(spec.config)}),
    )
    builder = importlib.import_module(BUILDERS[spec.kind])
    summary = builder.build(spec.config, folder, beat=lambda: held.touch())
    publish_once(folder / "done.json", to_json(summary))
