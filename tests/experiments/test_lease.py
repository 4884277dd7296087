"""Leases: one holder, given back, broken when the holder is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.lease import LeaseHeldError, lease
from experiments.liveness import STALE_S, file_time, whoami
from gagar_core.records import publish_once, read_json, to_json


def test_one_holder_at_a_time_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "x.lease"
    with lease(path):
        assert read_json(path)["pid"] == os.getpid()
        with pytest.raises(LeaseHeldError, match=f"held by process {os.getpid()}"), lease(path):
            pass
    assert not path.exists()
    with lease(path):
        pass


def test_it_is_given_back_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), lease(tmp_path / "x.lease"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_dead_holder_is_broken_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.lease"
    hold = "import sys, os, pathlib; from experiments.lease import lease"
    hold += "; held = lease(pathlib.Path(sys.argv[1])); held.__enter__(); os._exit(0)"
    subprocess.run([sys.executable, "-c", hold, str(path)], check=True)
    assert path.exists()
    with lease(path):
        assert read_json(path)["pid"] == os.getpid()


@pytest.mark.parametrize(("age", "taken"), [(STALE_S - 10, False), (STALE_S + 5, True)])
def test_a_holder_elsewhere_is_broken_when_it_is_old(tmp_path: Path, age: float, taken: bool) -> None:
    path = tmp_path / "x.lease"
    publish_once(path, to_json({**whoami(), "place": "elsewhere"}))
    moment = file_time(tmp_path) - age
    os.utime(path, (moment, moment))
    if taken:
        with lease(path):
            assert read_json(path)["place"] == whoami()["place"]
    else:
        with pytest.raises(LeaseHeldError), lease(path):
            pass


def test_a_lease_that_was_broken_and_taken_meanwhile_is_left_to_its_new_holder(tmp_path: Path) -> None:
    path = tmp_path / "x.lease"
    with lease(path):
        path.unlink()
        path.write_text('{"host": "elsewhere", "pid": 1}')
    assert path.exists()
