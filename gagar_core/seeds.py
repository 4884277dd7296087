"""Named random streams: every random number of a run comes from one seed and a path of names.

Streams with different names are independent, and a stream does not change when another one is added or
consumed further. This is what makes a *seed block* possible: two variants with the same seed draw the same
SFT weights, the same tasks at the same step and the same evaluation rollouts.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed that depends on ``seed`` and every name, equal on every machine."""
    path = "/".join([str(int(seed)), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the NumPy generator of this name path."""
    return np.random.Generator(np.random.PCG64(derive(seed, *names)))


def torch_stream(seed: int, *names: str | int) -> torch.Generator:
    """Return the torch CPU generator of this name path."""
    import torch

    generator = torch.Generator()
    generator.manual_seed(derive(seed, *names))
    return generator
