"""Axis ``policy``, choice ``transformer``: settings of the embedded attention policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gagar_core.errors import check_choice, check_range, gather

if TYPE_CHECKING:
    from gagar_core.policies.embedded import EmbeddedPolicy
    from gagar_core.protocols import Sandbox
    from gagar_core.tasks.list_functions import ListFunctions

SHAPES = {"xs": (64, 2), "s": (96, 2), "m": (128, 2), "l": (128, 4)}
"""Width and layers by size."""


@dataclass(kw_only=True)
class Transformer:
    """Decoder with attention: slower per update than the GRU, but it can copy lists."""

    size: str = "s"
    """xs, s, m or l: width 64, 96, 128, 128 and 2, 2, 2, 4 layers."""

    sft_lr: float = 2e-3
    """Peak learning rate of the SFT warm start, > 0."""

    def __post_init__(self) -> None:
        faults = check_choice("size", self.size, SHAPES) + check_range(
            "sft_lr", self.sft_lr, 0, open_low=True
        )
        gather(faults, headline="invalid transformer")

    def build(self, tasks: ListFunctions, sandbox: Sandbox, seed: int) -> EmbeddedPolicy:
        """The untrained policy of a seed block."""
        from gagar_core.agent.codec import Codec
        from gagar_core.policies.embedded import EmbeddedPolicy
        from gagar_core.policies.transformer_network import TransformerNetwork, TransformerSampler
        from gagar_core.seeds import torch_stream

        width, layers = SHAPES[self.size]
        network = TransformerNetwork(width, layers, tasks.token_budget, Codec())
        network.initialise(torch_stream(seed, "policy", "transformer", self.size))
        return EmbeddedPolicy(network, TransformerSampler, tasks, sandbox)
