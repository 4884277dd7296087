"""Commands on a real file system that refuses: ``refusing_disks.py MOUNT PLAN.json``, in a mount namespace.

Prints a JSON object: for each situation, exit code and message of each command, and what was left behind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gates import Done, run_cli

from experiments.compose import compose
from experiments.run import run
from gagar_core.errors import GagarError
from sweeps.ledger import create

WORDS = ("algorithm=grpo", "budget=smoke", "tracking=none")


def mount(place: Path, *options: str) -> None:
    """A small memory file system, or other options for the one that is there."""
    subprocess.run(["mount", *options, "none", str(place)], check=True)


def single(root: Path) -> Done:
    """``experiments.run``, without the start of a process."""
    try:
        run(compose([*WORDS, f"root={root}"]))
    except GagarError as err:
        return Done(2, "", str(err))
    return Done(0, "", "")


def told(root: Path) -> dict[str, object]:
    """What every command says, and which files are there before and after."""
    before = files(root)
    name = f"root={root}"
    done = {
        "new plan": run_cli("submit", *WORDS, "name=new", name),
        "resume": run_cli("resume", "tiny", name),
        "cancel": run_cli("cancel", "tiny", "seed=0", name),
        "run": single(root),
        "status": run_cli("status", "tiny", name),
    }
    return {key: [value.returncode, value.stderr] for key, value in done.items()} | {
        "changed": sorted(before ^ files(root))
    }


def files(root: Path) -> set[str]:
    """Everything below a root."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def main(place: str, plan: str) -> None:
    """Full, then read-only."""
    root, content = Path(place), json.loads(Path(plan).read_text())
    mount(root, "-t", "tmpfs", "-o", "size=4m")
    create(root / "tiny", content["head"], content["lines"])
    with (root / "ballast").open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"\0" * 4096)
        except OSError:
            pass
    found = {"full": told(root)}
    (root / "ballast").unlink()
    mount(root, "-o", "remount,ro")
    found["read-only"] = told(root)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
