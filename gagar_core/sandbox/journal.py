"""One JSON line per executed program: what ran, under what, with which outcome."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from gagar_core.sandbox.jobs import Job
from gagar_core.sandbox.levels import Report
from gagar_core.sandbox.settings import SandboxSettings


class Journal:
    """Appends to a file; the first line of a sandbox tells its level and limits."""

    def __init__(self, settings: SandboxSettings, report: Report) -> None:
        path = Path(settings.log)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        limits = {k: v for k, v in asdict(settings).items() if k != "log"}
        self._line({"sandbox": report.as_dict(), "limits": limits, "pid": os.getpid()})

    def write(self, jobs: list[Job]) -> None:
        """Record executed programs."""
        for job in jobs:
            self._line(
                {
                    "sha256": hashlib.sha256(job.program.source.encode("utf-8", "surrogatepass")).hexdigest(),
                    "entry_point": job.program.entry_point,
                    "mode": job.mode,
                    "statuses": [result.status for result in job.results],
                    "messages": [result.message for result in job.results],
                    "suspicious": job.suspicious,
                    "load": os.getloadavg()[0],
                }
            )

    def _line(self, fields: dict[str, object]) -> None:
        self._file.write(json.dumps(fields) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
