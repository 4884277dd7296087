"""What follows the last run of a sweep: its mirror. Runs in a process of its own, never in a worker."""

from __future__ import annotations

from experiments.tracking import MirrorCounts, mirror_by_config
from gagar_core.errors import GagarError
from sweeps.ledger import Ledger
from sweeps.status import status_of


def sync(ledger: Ledger) -> int:
    """Write a tuning's tables, mirror every ended run to where its configuration says, and tell."""
    if ledger.is_tuning:
        from sweeps.tuning_report import write_tuning

        print(write_tuning(ledger))
    folders = [ledger.run_folder(line["run_id"]) for line in ledger.runs]
    begun = [path for path in folders if (path / "config.json").exists()]
    counts = mirror_by_config(begun)
    if counts == MirrorCounts():
        print(f"{ledger.name}: nothing to mirror{' (tracking=none)' if begun else ', no run has been begun'}")
        return 0
    print(
        f"{ledger.name}: {counts.sent} runs mirrored with {counts.points} points, "
        f"{counts.skipped} were there already, {counts.unended} have not ended"
    )
    store = ledger.root / "mlflow.db"
    if store.exists():
        print(f"to look at them: mlflow ui --backend-store-uri sqlite:///{store}")
    return 0


def finish(ledger: Ledger) -> int:
    """After a worker's last job: mirror and report, unless others are still at work and will do it."""
    if any(row.state == "running" for row in status_of(ledger).rows):
        print(f"{ledger.name}: others are at work; the last one mirrors")
        return 0
    try:
        return sync(ledger)
    except GagarError as err:
        print(f"not mirrored: {err}")  # records are complete, and a run must not suffer from its tracker
        return 1
