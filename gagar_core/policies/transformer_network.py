"""A small decoder-only Transformer (arXiv 1706.03762, pre-norm), and its sampler with a key-value cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from gagar_core.agent.codec import SPEC_WORDS, Codec

_HEAD_WIDTH = 32


class Block(nn.Module):
    """Attention over what came before, then a feed-forward layer, each added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // _HEAD_WIDTH
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.feed_norm = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def split(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values (B, heads, T, head width) of (B, T, width)."""
        batch, length, _ = x.shape
        parts = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, _HEAD_WIDTH)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        return query, key, value

    def close(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Add what was attended to (B, heads, T, head width) and the feed-forward layer to ``x``."""
        batch, length, width = x.shape
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        result: torch.Tensor = x + self.feed(self.feed_norm(x))
        return result

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, width) to the same shape; position t sees positions up to t."""
        query, key, value = self.split(x)
        return self.close(x, functional.scaled_dot_product_attention(query, key, value, is_causal=True))


class TransformerNetwork(nn.Module):
    """Token, position and spec vectors are summed at the input."""

    def __init__(self, width: int, layers: int, longest: int, codec: Codec) -> None:
        super().__init__()
        self.codec = codec
        self.embedding = nn.Embedding(codec.size, width)
        self.position_embedding = nn.Embedding(longest, width)
        self.spec_embedding = nn.Embedding(len(SPEC_WORDS), width)
        self.spec_mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, codec.size)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw every weight from one generator, so that a seed block shares them."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "embedding" in name:
                    parameter.normal_(0.0, 0.2, generator=generator)
                elif parameter.dim() == 2:
                    parameter.normal_(0.0, parameter.shape[1] ** -0.5, generator=generator)
                elif "norm" in name and name.endswith("weight"):
                    parameter.fill_(1.0)
                else:
                    parameter.zero_()

    def forward(self, specs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Log-probabilities (B, T, V) of each position's token, from specs (B, S) and tokens (B, T)."""
        shifted = torch.cat([torch.full_like(tokens[:, :1], self.codec.bos), tokens[:, :-1]], 1)
        positions = self.position_embedding.weight[: tokens.shape[1]]
        x = self.embedding(shifted) + positions + self.spec(specs).unsqueeze(1)
        for block in self.blocks:
            x = block(x)
        return torch.log_softmax(self.head(self.norm(x)), 2)

    def spec(self, specs: torch.Tensor) -> torch.Tensor:
        """Spec vector (B, width)."""
        result: torch.Tensor = self.spec_mlp(self.spec_embedding(specs).sum(1))
        return result


@dataclass
class Cache:
    """State of a batch while it is sampled: spec vectors, keys and values per layer (grown by doubling)."""

    spec: torch.Tensor
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    length: int = 0


class TransformerSampler:
    """The network as a ``TokenModel``: each token costs one position, not the whole prefix."""

    def __init__(self, network: TransformerNetwork) -> None:
        self._network = network
        self._blocks = [block for block in network.blocks if isinstance(block, Block)]

    def start(self, specs: torch.Tensor) -> Cache:
        """State for (B, S) spec word ids."""
        empty = [torch.zeros(len(specs), block.heads, 16, _HEAD_WIDTH) for block in self._blocks]
        return Cache(self._network.spec(specs), [e.clone() for e in empty], empty)

    def step(self, state: Cache, tokens: torch.Tensor) -> torch.Tensor:
        """Feed (B,) tokens; (B, V) log-probabilities of the next."""
        network, at = self._network, state.length
        x = (network.embedding(tokens) + network.position_embedding.weight[at] + state.spec).unsqueeze(1)
        if at == state.keys[0].shape[2]:
            _double(state.keys)
            _double(state.values)
        state.length += 1
        for block, keys, values in zip(self._blocks, state.keys, state.values, strict=True):
            query, keys[:, :, at : at + 1], values[:, :, at : at + 1] = block.split(x)
            seen = slice(0, at + 1)
            attended = functional.scaled_dot_product_attention(query, keys[:, :, seen], values[:, :, seen])
            x = block.close(x, attended)
        return torch.log_softmax(network.head(network.norm(x))[:, 0], 1)

    def keep(self, state: Cache, rows: torch.Tensor) -> Cache:
        """State of these rows only."""
        keys, values = [k[rows] for k in state.keys], [v[rows] for v in state.values]
        return Cache(state.spec[rows], keys, values, state.length)


def _double(caches: list[torch.Tensor]) -> None:
    for i, cache in enumerate(caches):
        caches[i] = torch.cat([cache, torch.zeros_like(cache)], 2)
