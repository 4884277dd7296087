"""Hands a submission to Slurm through submitit: one job array of workers, and nothing of ours stays behind.

Only one fixed function with two strings is pickled; a pickle that a job wrote is never read. The folder with
the pickles belongs to the user alone.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gagar_core.errors import LaunchError
from gagar_core.records import publish_once, to_json
from sweeps import crash
from sweeps.launchers import Slurm
from sweeps.ledger import PRIVATE, Ledger, Submission
from sweeps.process import THREAD_VARIABLES
from sweeps.slurm_view import job_name
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


def start_slurm(ledger: Ledger, submission: Submission, settings: Slurm, elements: int) -> None:
    """Submit an array of ``elements`` workers; writes ``ack.json``, or ``void.json`` if sbatch refused."""
    import submitit

    folder = submission.path / "slurm"
    folder.mkdir(mode=PRIVATE)
    check_private(submission.path)
    executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=0, python=settings.python or None)
    name, copy = job_name(ledger, submission), code_folder(ledger, submission)
    executor.update_parameters(**sbatch_parameters(settings, name, elements, copy))
    arguments = [str(ledger.path.resolve())] * elements, [submission.nonce] * elements
    try:
        with _outside_of_jobs():
            jobs = executor.map_array(work, *arguments)
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as err:
        raise _refused(submission, str(err)) from err
    job = str(jobs[0].job_id).split("_")[0]
    crash.point("job started")
    publish_once(submission.path / "ack.json", to_json({"job": job, "elements": elements}))
    crash.point("ack written")


def render(folder: Path, settings: Slurm, elements: int) -> str:
    """The script that a submission would hand to sbatch now; NONCE stands for what it would draw."""
    import submitit.slurm.slurm as slurm

    submission = Submission(folder / "submissions" / "NONCE")
    logs = submission.path / "slurm"
    parameters = sbatch_parameters(settings, job_name(Ledger(folder), submission), elements)
    python = settings.python or shlex.quote(sys.executable)
    command = f"{python} -u -m submitit.core._submit {shlex.quote(str(logs))}"
    number = elements if elements > 1 else None
    return str(slurm._make_sbatch_string(command=command, folder=logs, map_count=number, **parameters))


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


def _refused(submission: Submission, text: str) -> LaunchError:
    text = text.strip() or "sbatch gave no reason"
    if _UNCLEAR.search(text):
        return LaunchError(
            f"sbatch did not answer clearly: {text}\nThe job may have been accepted all the same: look with "
            "`python -m sweeps status` in a minute, then submit again (a job too many finds nothing to do)"
        )
    publish_once(submission.path / "void.json", to_json({"reason": text}))
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
