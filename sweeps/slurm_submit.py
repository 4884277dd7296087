"""Hands a submission to Slurm through submitit: one job array of workers (several, of one name, where the
cluster's arrays are too small), and nothing of ours stays behind.

Only one fixed function with two strings is pickled; a pickle that a job wrote is never read. The folder with
the pickles belongs to the user alone.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gagar_core.errors import LaunchError
from gagar_core.records import publish_once, to_json
from sweeps import crash
from sweeps.launchers import Slurm
from sweeps.ledger import PRIVATE, Ledger, Submission
from sweeps.process import THREAD_VARIABLES
from sweeps.slurm_view import job_name, max_array
from sweeps.worker import work

CHECKOUT = Path(__file__).resolve().parent.parent

_ADVICE = (
    ("invalid partition", "launcher.partition"),
    ("generic resource|gres", "launcher.gpus or launcher.options={gres: ...}"),
    ("memory", "launcher.mem_gb"),
    ("invalid account|account/partition", "launcher.account"),
    ("qos", "launcher.qos"),
    ("time limit", "launcher.time_min"),
    ("array", "workers"),
    ("node configuration|node count|cpu", "launcher.cpus, launcher.mem_gb or launcher.gpus"),
    ("unrecognized option|invalid option|invalid .* specification", "launcher.options"),
)
"""What sbatch says, and the setting that it is about."""

_UNCLEAR = re.compile("timed out|unable to contact|communication|connection", re.IGNORECASE)
"""Words after which a job may have been accepted all the same."""


class UnclearError(LaunchError):
    """sbatch gave no answer that tells whether it took the job."""


def start_slurm(ledger: Ledger, submission: Submission, settings: Slurm, elements: int) -> None:
    """Submit ``elements`` workers; writes ``ack.json``, or ``void.json`` if sbatch refused."""
    arrays = arrays_of(elements, settings.parallel, max_array() if elements > 1 else 0)
    jobs: list[str] = []
    try:
        for size, parallel in arrays:
            jobs.append(_start_array(ledger, submission, replace(settings, parallel=parallel), size))
            crash.point("job started")
    except LaunchError as err:
        if not jobs:
            if not isinstance(err, UnclearError):
                publish_once(submission.path / "void.json", to_json({"reason": str(err)}))
            raise
        taken = f"{len(jobs)} of {len(arrays)} arrays were taken (jobs {', '.join(jobs)})"
        msg = f"{taken}, the next one not: {err}"
        raise LaunchError(msg) from err
    finally:
        if jobs:
            started = sum(size for size, _ in arrays[: len(jobs)])
            publish_once(
                submission.path / "ack.json", to_json({"job": jobs[0], "jobs": jobs, "elements": started})
            )
    crash.point("ack written")


def arrays_of(elements: int, parallel: int, most: int) -> list[tuple[int, int]]:
    """Sizes of arrays and how many elements of each may run at once, 0 = all.

    No array has more than ``most`` elements (0 = no limit). Together no more than ``parallel`` run at once:
    each array gets a share. Where that leaves nothing for some arrays these are left out: elements take
    runs until none is left, so fewer of them do the same work.
    """
    if not most or elements <= most:
        return [(elements, parallel)]
    number = math.ceil(elements / most)
    number = min(number, parallel) if parallel else number
    elements = min(elements, number * most)
    sizes = [elements // number + (k < elements % number) for k in range(number)]
    shares = [parallel // number + (k < parallel % number) for k in range(number)]
    return list(zip(sizes, shares, strict=True))


def _start_array(ledger: Ledger, submission: Submission, settings: Slurm, elements: int) -> str:
    import submitit

    folder = submission.path / "slurm"
    folder.mkdir(mode=PRIVATE, exist_ok=True)
    check_private(submission.path)
    executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=0, python=settings.python or None)
    name, copy = job_name(ledger, submission), code_folder(ledger, submission)
    executor.update_parameters(**sbatch_parameters(settings, name, elements, copy))
    arguments = [str(ledger.path.resolve())] * elements, [submission.nonce] * elements
    try:
        with _outside_of_jobs():
            jobs = executor.map_array(work, *arguments)
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as err:
        raise _refused(str(err)) from err
    return str(jobs[0].job_id).split("_")[0]


def render(folder: Path, settings: Slurm, elements: int) -> str:
    """The script that a submission would hand to sbatch now; NONCE stands for what it would draw.

    Of several arrays it is the first one's; a last line tells of the others.
    """
    import submitit.slurm.slurm as slurm

    (elements, parallel), *more = arrays_of(elements, settings.parallel, max_array() if elements > 1 else 0)
    settings = replace(settings, parallel=parallel)

    submission = Submission(folder / "submissions" / "NONCE")
    logs = submission.path / "slurm"
    parameters = sbatch_parameters(settings, job_name(Ledger(folder), submission), elements)
    python = settings.python or shlex.quote(sys.executable)
    command = f"{python} -u -m submitit.core._submit {shlex.quote(str(logs))}"
    number = elements if elements > 1 else None
    script = str(slurm._make_sbatch_string(command=command, folder=logs, map_count=number, **parameters))
    others = ", ".join(f"0-{size - 1}%{share or size}" for size, share in more)
    return script + (f"\n# and the same for --array={others}\n" if others else "")


def code_folder(ledger: Ledger, submission: Submission) -> Path:
    """Where a submission's workers import from: its copy of the code."""
    copy = submission.intent.get("code", {}).get("copy")
    return (ledger.path / "code" / copy).resolve() if copy else CHECKOUT


def sbatch_parameters(settings: Slurm, name: str, elements: int, imports: Path = CHECKOUT) -> dict[str, Any]:
    """submitit's parameters for the settings of the launcher; an option set to false is left out.

    ``imports`` is the folder that workers import our packages from.
    """
    exports = [f"export {variable}=1" for variable in THREAD_VARIABLES]
    path = f'export PYTHONPATH={shlex.quote(str(imports))}"${{PYTHONPATH:+:$PYTHONPATH}}"'
    safe = "export PYTHONSAFEPATH=1"  # the folder that a job starts in is no place to import from
    # what is killed is begun anew by resume, as a new attempt; Slurm must not start it a second time
    options = {"no-requeue": True, **settings.options}
    wanted = {
        "job_name": name,
        "time": settings.time_min,
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": settings.cpus,
        "gpus_per_node": settings.gpus or None,
        "mem": f"{int(settings.mem_gb * 1024)}MB" if settings.mem_gb else None,
        "partition": settings.partition or None,
        "account": settings.account or None,
        "qos": settings.qos or None,
        "array_parallelism": settings.parallel or elements,
        "signal_delay_s": settings.warn_s,
        "stderr_to_stdout": True,
        "wckey": None,  # submitit's default is refused where wckeys are checked
        "setup": [*settings.setup, path, safe, *exports],
        "additional_parameters": {k: v for k, v in options.items() if v is not False},
    }
    return {key: value for key, value in wanted.items() if value is not None or key == "wckey"}


def check_private(folder: Path) -> None:
    """Refuse a folder in which others could put a pickle that our job would load."""
    facts = folder.stat()
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        msg = f"{folder} can be written to by others, and Slurm jobs load pickles from it: chmod go-w it"
        raise LaunchError(msg)


def _refused(text: str) -> LaunchError:
    text = text.strip() or "sbatch gave no reason"
    if _UNCLEAR.search(text):
        return UnclearError(
            f"sbatch did not answer clearly: {text}\nThe job may have been accepted all the same: look with "
            "`python -m sweeps status` in a minute, then submit again (a job too many finds nothing to do)"
        )
    advice = next((setting for words, setting in _ADVICE if re.search(words, text, re.IGNORECASE)), "")
    hint = f"\nChange {advice}" if advice else "\n`python -m sweeps doctor` shows what this cluster offers"
    return LaunchError(f"sbatch refused: {text}{hint}")


@contextmanager
def _outside_of_jobs() -> Iterator[None]:
    """Submitting from inside a job must not hand that job's variables on; where Slurm is configured stays."""
    import submitit

    configuration = os.environ.get("SLURM_CONF")
    with submitit.helpers.clean_env():
        if configuration is not None:
            os.environ["SLURM_CONF"] = configuration
        yield
