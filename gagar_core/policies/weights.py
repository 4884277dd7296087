"""Parameters on disk as plain arrays: nothing that is loaded here can run code."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from gagar_core.errors import ArtifactError
from gagar_core.records.files import publish


def save_weights(network: nn.Module, path: Path) -> None:
    """Write every parameter as one ``.npz`` file that appears whole."""
    stream = io.BytesIO()
    arrays = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    np.savez(stream, allow_pickle=False, **arrays)
    publish(path, stream.getvalue())


def load_weights(network: nn.Module, path: Path) -> None:
    """Read parameters back; raise ``ArtifactError`` if the file is damaged or of another network."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            network.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, EOFError, zipfile.BadZipFile) as err:
        msg = f"{path} does not hold the weights of this policy ({err}); remove its folder to build it again"
        raise ArtifactError(msg) from err
