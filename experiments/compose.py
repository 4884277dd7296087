"""From override words (``algorithm=gagar seed=3``) to a checked ``RunConfig``, through Hydra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.schema import AXES, CHOICES, RunConfig
from gagar_core.errors import ConfigError, GagarError

CONF = Path(__file__).parent / "conf"


def register() -> None:
    """Put every choice into Hydra's store: group = axis, schema = the settings class itself."""
    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunConfig)
    for axis, named in CHOICES.items():
        for name, cls in named.items():
            store.store(group=axis, name=name, node=cls)


def compose(overrides: Sequence[str]) -> RunConfig:
    """Compose and check one run; raise ``ConfigError`` naming key, value and what is valid."""
    register()
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            return to_config(hydra_compose("config", overrides=list(overrides)))
    except (HydraException, OmegaConfBaseException) as err:
        raise ConfigError(explain(err)) from err


def to_config(composed: Any) -> RunConfig:
    """Turn Hydra's container into live settings; their own range checks run here."""
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as err:
        if isinstance(err.__cause__, GagarError):
            raise err.__cause__ from None
        raise ConfigError(explain(err)) from err
    assert isinstance(config, RunConfig)
    return config


def explain(err: BaseException) -> str:
    """Hydra's words without its internals, and a pointer to where the valid names are listed."""
    lines = [line for line in str(err).splitlines() if line.strip() and "object_type=" not in line]
    cause = err.__cause__
    if cause is not None and str(cause) not in str(err):
        lines += [line for line in str(cause).splitlines() if line.strip() and "object_type=" not in line]
    hint = f"axes: {', '.join(AXES)}; `python -m experiments.run --help` lists their choices and fields"
    return "\n".join([*lines, hint])
