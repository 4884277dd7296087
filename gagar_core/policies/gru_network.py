"""The recurrent network of the embedded policy, for sampling (one token at a time) and for training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from gagar_core.agent.codec import SPEC_WORDS, Codec

_EMBEDDING = 64


@dataclass
class GruState:
    """State of a batch while it is sampled: hidden (B, H), and what the spec adds to gates and logits."""

    hidden: torch.Tensor
    gates: torch.Tensor
    logits: torch.Tensor


class GruNetwork(nn.Module):
    """GRU over tokens, conditioned on the spec vector at every input and every output."""

    def __init__(self, hidden: int, codec: Codec) -> None:
        super().__init__()
        self.codec = codec
        self.embedding = nn.Embedding(codec.size, _EMBEDDING)
        self.spec_embedding = nn.Embedding(len(SPEC_WORDS), _EMBEDDING)
        self.spec_mlp = nn.Sequential(
            nn.Linear(_EMBEDDING, _EMBEDDING), nn.ReLU(), nn.Linear(_EMBEDDING, _EMBEDDING)
        )
        self.gru = nn.GRU(2 * _EMBEDDING, hidden, batch_first=True)
        self.head = nn.Linear(hidden + _EMBEDDING, codec.size)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw every weight from one generator, so that a seed block shares them."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "embedding" in name:
                    parameter.normal_(0.0, 0.5, generator=generator)
                elif parameter.dim() == 2:
                    bound = parameter.shape[1] ** -0.5
                    parameter.uniform_(-bound, bound, generator=generator)
                else:
                    parameter.zero_()

    def forward(self, specs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Log-probabilities (B, T, V) of each position's token, from specs (B, S) and tokens (B, T).

        Position t sees tokens before t only; position 0 sees the begin token.
        """
        spec = self._spec(specs)
        shifted = torch.cat([torch.full_like(tokens[:, :1], self.codec.bos), tokens[:, :-1]], 1)
        wide = spec.unsqueeze(1).expand(-1, tokens.shape[1], -1)
        hidden, _ = self.gru(torch.cat([self.embedding(shifted), wide], 2))
        return torch.log_softmax(self.head(torch.cat([hidden, wide], 2)), 2)

    def _spec(self, specs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.spec_mlp(self.spec_embedding(specs).sum(1))
        return result


class GruSampler:
    """The same network as a ``TokenModel``, with everything that does not change per token computed once."""

    def __init__(self, network: GruNetwork) -> None:
        self._hidden_size = network.gru.hidden_size
        with torch.no_grad():
            gate_input, gate_spec = torch.split(_weight(network.gru, "weight_ih_l0"), _EMBEDDING, 1)
            head_hidden, self._head_spec = torch.split(
                network.head.weight, [self._hidden_size, _EMBEDDING], 1
            )
            self._table = network.embedding.weight @ gate_input.T
            self._gate_spec = gate_spec
            self._input_bias = _weight(network.gru, "bias_ih_l0")
            self._hidden_bias = _weight(network.gru, "bias_hh_l0")
            self._recurrent = _weight(network.gru, "weight_hh_l0").T.contiguous()
            self._head_hidden = head_hidden.T.contiguous()
        self._network = network

    def start(self, specs: torch.Tensor) -> GruState:
        """State for (B, S) spec word ids."""
        network = self._network
        spec = network._spec(specs)
        return GruState(
            hidden=torch.zeros(len(specs), self._hidden_size),
            gates=spec @ self._gate_spec.T + self._input_bias,
            logits=spec @ self._head_spec.T + network.head.bias,
        )

    def step(self, state: GruState, tokens: torch.Tensor) -> torch.Tensor:
        """Feed (B,) tokens; (B, V) log-probabilities of the next."""
        size = self._hidden_size
        from_input = self._table[tokens] + state.gates
        from_hidden = torch.addmm(self._hidden_bias, state.hidden, self._recurrent)
        gates = torch.sigmoid(from_input[:, : 2 * size] + from_hidden[:, : 2 * size])
        reset, update = gates[:, :size], gates[:, size:]
        candidate = torch.tanh(from_input[:, 2 * size :] + reset * from_hidden[:, 2 * size :])
        state.hidden = torch.lerp(candidate, state.hidden, update)
        return torch.log_softmax(torch.addmm(state.logits, state.hidden, self._head_hidden), 1)

    def keep(self, state: GruState, rows: torch.Tensor) -> GruState:
        """State of these rows only."""
        return GruState(state.hidden[rows], state.gates[rows], state.logits[rows])


def _weight(module: nn.Module, name: str) -> torch.Tensor:
    parameter = getattr(module, name)
    assert isinstance(parameter, torch.Tensor)
    return parameter
