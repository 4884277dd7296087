"""Training of the agentic grader: the judge on labelled groups, then the chooser on an expert's traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gagar_core.errors import InputError
from gagar_core.grading.agentic_network import AgenticNetwork, Files, stacked
from gagar_core.grading.casefile import CaseFile
from gagar_core.grading.expert import Labels, School, Traces, joined, judge_loss, reveals
from gagar_core.grading.labelled import LabelledGroup

_BATCH = 32
_WEIGHT_DECAY = 1e-3


def fit_agentic(
    network: AgenticNetwork,
    files: Sequence[CaseFile],
    data: Sequence[LabelledGroup],
    allowed: torch.Tensor,
    *,
    epochs: int,
    lr: float,
    noise: float,
    price: float,
    rounds: int | None,
    rng: np.random.Generator,
) -> None:
    """Train in place.

    ``files`` know everything that the ``allowed`` (S,) slots can tell. The chooser imitates the expert on the
    expert's own traces and then, ``rounds`` times, in the states that it comes into itself (DAgger, Ross et
    al. 2011); ``rounds`` None leaves it as it is.
    """
    if not data:
        msg = "no labelled group has two passing trajectories: raise budget.sft_demos or grader.data_steps"
        raise InputError(msg)
    full, labels = stacked(files), _labels(files, data, noise, rng)
    _fit_judge(network, full, labels, epochs, lr, rng)
    if rounds is None:
        return
    school = School(full, labels, reveals(files), allowed, price)
    traces = school.states(None, network)
    _fit_chooser(network, school, traces, epochs, lr, rng)
    for _ in range(rounds):
        own = school.states(lambda state: network.chosen(state, allowed).argmax(1), network)
        traces = joined([traces, own])
        _fit_chooser(network, school, traces, epochs, lr, rng)


def _labels(
    files: Sequence[CaseFile], data: Sequence[LabelledGroup], noise: float, rng: np.random.Generator
) -> Labels:
    size = max(len(file.rows) for file in files)
    quality, right = np.zeros((len(files), size), np.float32), np.zeros((len(files), size), np.float32)
    for g, (file, one) in enumerate(zip(files, data, strict=True)):
        for j, row in enumerate(file.rows):
            quality[g, j] = one.quality[row[0]] + (noise * rng.standard_normal() if noise else 0.0)
            right[g, j] = one.right(row[0])
    return Labels(torch.from_numpy(quality), torch.from_numpy(right))


def _fit_judge(
    network: AgenticNetwork, full: Files, labels: Labels, epochs: int, lr: float, rng: np.random.Generator
) -> None:
    """Half of the updates hide something: the judge must also judge while little is known."""
    parameters = [*network.judge.parameters(), *network.verdict.parameters()]
    for part, update in _updates(parameters, len(labels.right), epochs, lr, rng):
        known = full.known[part]
        if rng.random() < 0.5:
            known = known & torch.from_numpy(_kept(tuple(known.shape), rng))
        files = full.part(part, known)
        update(judge_loss(*network.judged(files), labels.part(part), files.copies).mean())


def _kept(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """What is not hidden: single entries, or slots of a whole group, at a rate of each group's own."""
    rate = rng.random((shape[0], 1, 1))
    return np.broadcast_to(
        rng.random(shape if rng.random() < 0.5 else (shape[0], 1, shape[2])) < rate, shape
    ).copy()


def _fit_chooser(
    network: AgenticNetwork, school: School, traces: Traces, epochs: int, lr: float, rng: np.random.Generator
) -> None:
    """Cross-entropy on the expert's actions, weighted by what is at stake.

    The expert knows labels that nobody sees, so a chooser can only learn how often looking paid: weights make
    rare large losses count as much as frequent small savings.
    """
    parameters = [*network.look.parameters(), *network.slots.parameters(), *network.stop.parameters()]
    actions, stakes = traces.actions, traces.stakes
    for part, update in _updates(parameters, len(actions), max(epochs // 4, 1), lr, rng, batch=2 * _BATCH):
        files = school.files.part(traces.groups[part], traces.known[part])
        chosen = network.chosen(files, school.allowed)
        update((stakes[part] * functional.nll_loss(chosen, actions[part], reduction="none")).mean())


def _updates(
    parameters: Sequence[nn.Parameter],
    size: int,
    epochs: int,
    lr: float,
    rng: np.random.Generator,
    batch: int = _BATCH,
) -> Iterator[tuple[torch.Tensor, Callable[[torch.Tensor], None]]]:
    """Batches of positions, each with what to do with its loss: AdamW, learning rate falling to 0."""
    optimiser = torch.optim.AdamW(parameters, lr=lr, weight_decay=_WEIGHT_DECAY)
    total = epochs * -(-size // batch)

    def update(loss: torch.Tensor) -> None:
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()

    done = 0
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(size))
        for part in torch.split(order, batch):
            optimiser.param_groups[0]["lr"] = lr * (1 - done / total)
            done += 1
            yield part, update
