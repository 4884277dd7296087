"""Axis ``policy``, choice ``gru``: settings of the embedded recurrent policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gagar_core.errors import check_choice, check_range, gather

if TYPE_CHECKING:
    from gagar_core.policies.embedded import EmbeddedPolicy
    from gagar_core.protocols import Sandbox
    from gagar_core.tasks.list_functions import ListFunctions

HIDDEN = {"xs": 64, "s": 128, "m": 192, "l": 256}
"""Hidden units by size."""


@dataclass(kw_only=True)
class Gru:
    """Recurrent policy conditioned on the task's spec words; fast on one CPU core."""

    size: str = "s"
    """xs, s, m or l: 64, 128, 192 or 256 hidden units (about 70k, 150k, 260k, 400k parameters)."""

    sft_lr: float = 8e-3
    """Peak learning rate of the SFT warm start, > 0."""

    def __post_init__(self) -> None:
        faults = check_choice("size", self.size, HIDDEN) + check_range(
            "sft_lr", self.sft_lr, 0, open_low=True
        )
        gather(faults, headline="invalid gru")

    def build(self, tasks: ListFunctions, sandbox: Sandbox, seed: int) -> EmbeddedPolicy:
        """The untrained policy of a seed block."""
        from gagar_core.agent.codec import Codec
        from gagar_core.policies.embedded import EmbeddedPolicy
        from gagar_core.policies.gru_network import GruNetwork, GruSampler
        from gagar_core.seeds import torch_stream

        network = GruNetwork(HIDDEN[self.size], Codec())
        network.initialise(torch_stream(seed, "policy", "gru", self.size))
        return EmbeddedPolicy(network, GruSampler, tasks, sandbox)
