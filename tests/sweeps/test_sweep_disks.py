"""Disks that are full or read-only: named, refused before anything runs, nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gates import CHECKOUT, HERE
from plans import write_plan

from experiments.room import check_room, disk_fault
from gagar_core.errors import RecordsError

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def test_every_folder_that_refuses_is_named_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check_room(tmp_path / "not" / "there" / "yet", tmp_path)
    with pytest.raises(RecordsError) as caught:
        check_room(tmp_path / "good", tmp_path / "file" / "runs", Path("/proc/nowhere"))
    text = str(caught.value)
    assert f"cannot write to {tmp_path / 'file' / 'runs'}: Not a directory" in text
    assert "cannot write to /proc/nowhere: " in text
    assert "good" not in text.replace("give another root=", "")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_only_faults_of_a_disk_are_told_as_such() -> None:
    assert disk_fault(OSError(28, "No space left on device", "/r/x")) == (
        "cannot write to /r/x: No space left on device; free some space, or give another root="
    )
    assert disk_fault(FileNotFoundError(2, "No such file or directory", "/r/x")) == ""


@pytest.mark.slow
def test_full_and_read_only_disks(tmp_path: Path) -> None:
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    ledger = write_plan(tmp_path / "made", seeds=[0])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"head": ledger.head, "lines": ledger.planned}))
    place = tmp_path / "disk"
    place.mkdir()
    command = [*UNSHARE, sys.executable, str(HERE / "refusing_disks.py"), str(place), str(plan)]
    env = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{HERE}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for disk, why in (("full", "No space left on device"), ("read-only", "Read-only file system")):
        told = found[disk]
        assert told.pop("changed") == []
        assert told.pop("status") == [0, ""]
        for code, text in told.values():
            assert (code, why in text) == (2, True), (disk, text)
        assert f"cannot write to {place / 'new'}: " in told["new plan"][1]
        assert f"cannot write to {place / 'tiny' / 'submissions'}: " in told["resume"][1]


def test_a_full_disk_names_what_was_written_not_what_was_copied() -> None:
    fault = OSError(errno.ENOSPC, "No space left on device", "/code/a.py", None, "/full/a.py")
    assert disk_fault(fault).startswith("cannot write to /full/a.py: No space left on device")
