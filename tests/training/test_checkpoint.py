"""Checkpoints: bit for bit, torn ones passed over, foreign ones refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gagar_core.errors import RecordsError
from gagar_core.training import checkpoint


def parts(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    network = torch.nn.Linear(3, 2)
    return network, torch.optim.Adam(network.parameters(), lr=0.1)


def train(network: torch.nn.Module, optimiser: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        optimiser.zero_grad()
        x = torch.from_numpy(np.random.default_rng(step).standard_normal((4, 3)).astype(np.float32))
        network(x).square().sum().backward()
        optimiser.step()


def save(
    folder: Path, step: int, run_id: str = "r", attempt: int = 1
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    network, optimiser = parts(0)
    train(network, optimiser, range(step))
    checkpoint.save(folder, run_id, attempt, step, network, optimiser, {"at": step})
    return network, optimiser


def test_training_goes_on_bit_for_bit(tmp_path: Path) -> None:
    save(tmp_path, 5)
    whole, optimiser = parts(0)
    train(whole, optimiser, range(9))
    found = checkpoint.newest(tmp_path, "r")
    assert found is not None
    assert (found.step, found.state) == (5, {"at": 5})
    again, optimiser = parts(1)
    checkpoint.restore(found, again, optimiser)
    train(again, optimiser, range(5, 9))
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("damage", ["manifest gone", "weights cut", "state changed", "manifest cut"])
def test_a_torn_one_is_named_and_the_one_before_is_taken(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 5)
    save(tmp_path, 8)
    folder = tmp_path / "checkpoints" / "000008.a1"
    if damage == "manifest gone":
        (folder / "_manifest.json").unlink()
    elif damage == "weights cut":
        (folder / "policy.npz").write_bytes((folder / "policy.npz").read_bytes()[:-1])
    elif damage == "state changed":
        (folder / "state.json").write_text('{"at": 7}\n')
    else:
        (folder / "_manifest.json").write_text('{"files": ')
    found = checkpoint.newest(tmp_path, "r")
    assert found is not None
    assert found.step == 5
    assert "000008.a1 is passed over" in capsys.readouterr().err


def test_one_of_another_configuration_or_version_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 5, run_id="other")
    with pytest.raises(RecordsError, match="belongs to run other, not to r"):
        checkpoint.newest(tmp_path, "r")
    path = tmp_path / "checkpoints" / "000005.a1" / "_manifest.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 7'))
    with pytest.raises(RecordsError, match="version 7"):
        checkpoint.newest(tmp_path, "r")


def test_the_two_newest_are_kept(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        save(tmp_path, step)
    save(tmp_path, 6, attempt=2)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["000006.a1", "000006.a2"]
    assert checkpoint.newest(tmp_path / "nowhere", "r") is None
