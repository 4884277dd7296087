"""Every error that the workbench raises on purpose.

    GagarError                  something a user can act on; printed without a traceback
    ├── ConfigError             a choice, key, type or range that cannot be meant (also a ValueError)
    ├── InputError              arrays, tasks or files handed in are inconsistent (also a ValueError)
    ├── RecordsError            a run folder is missing, torn, or of another version
    ├── ArtifactError           a prerequisite (SFT weights, grader snapshot) cannot be built or read
    ├── SandboxError            the sandbox cannot start, or its level is not good enough
    ├── StoppedError            a signal ended a run between two steps, after a checkpoint was written
    ├── DivergedError           training produced a non-finite loss or gradient; names the step
    └── LaunchError             a scheduler or worker process refused; carries its own words

A message shows the value, lists what is valid, and says what to do next. Errors gather all faults before
they are raised, so that a user fixes a configuration once.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar


class GagarError(Exception):
    """Base of all errors raised on purpose."""

    faults: tuple[str, ...] = ()
    """What ``gather`` found, one sentence each; empty where the message is a single one."""


class ConfigError(GagarError, ValueError):
    """A configuration value is unknown, of a wrong type, or out of range."""


class InputError(GagarError, ValueError):
    """Data handed to a function is inconsistent."""


class RecordsError(GagarError):
    """A run folder is missing, incomplete, damaged or of another schema version."""


class ArtifactError(GagarError):
    """An artifact cannot be built, read or trusted."""


class SandboxError(GagarError):
    """The sandbox cannot be started, or cannot give the isolation that was asked for."""


class DivergedError(GagarError):
    """A non-finite loss, gradient or parameter ended a run."""


class StoppedError(GagarError):
    """A run was asked to stop and did, after writing a checkpoint."""


class LaunchError(GagarError):
    """A launcher or scheduler refused or lost a submission."""


def gather(faults: Iterable[str], *, headline: str, error: type[GagarError] = ConfigError) -> None:
    """Raise one ``error`` listing every fault, or return if there is none.

    Parameters
    ----------
    faults
        One complete sentence per fault.
    headline
        What was being checked, e.g. ``"invalid grpo settings"``.
    """
    found = list(faults)
    if not found:
        return
    lines = [headline + ":"] + ["  - " + fault.replace("\n", "\n    ") for fault in found]
    gathered = error("\n".join(lines))
    gathered.faults = tuple(found)
    raise gathered


_T = TypeVar("_T")


def noted(faults: list[str], make: Callable[[], _T]) -> _T | None:
    """What ``make`` gives; or None, with the faults that it raised added to those known so far."""
    try:
        return make()
    except GagarError as err:
        faults += err.faults or [str(err)]
        return None


def check_choice(name: str, value: str, valid: Iterable[str]) -> list[str]:
    """Return a fault if ``value`` is not one of ``valid``, else an empty list."""
    allowed = sorted(valid)
    return [] if value in allowed else [f"{name} must be one of {', '.join(allowed)}; got {value!r}"]


_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def check_folder_name(name: str) -> list[str]:
    """A fault unless ``name`` can be the name of a folder everywhere, and of nothing outside it."""
    if _FOLDER_NAME.fullmatch(name):
        return []
    return [f"name must be 1 to 80 of A-Z a-z 0-9 . _ - and begin with a letter or digit; got {name[:80]!r}"]


def check_range(
    name: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> list[str]:
    """A fault if ``value`` is outside the interval (NaN and infinity always are), else an empty list."""
    below = low is not None and not (value > low if open_low else value >= low)
    above = high is not None and not (value < high if open_high else value <= high)
    if not below and not above and math.isfinite(value):
        return []
    left = "(-inf" if low is None else f"{'(' if open_low else '['}{low:g}"
    right = "inf)" if high is None else f"{high:g}{')' if open_high else ']'}"
    return [f"{name} must be in {left}, {right}; got {value!r}"]


@contextmanager
def until_reader_leaves() -> Iterator[None]:
    """Around a command, or decorating one: it ends quietly once nobody reads its output (``| head``)."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, and not at exit, where Python would complain
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
