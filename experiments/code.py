"""Which code runs: digests of the packages that decide a result, and a copy of them for a submission.

A commit alone says too little (the working tree may differ from it), and a tree that is edited while a sweep
is at work would give its runs different code. So a submission copies the packages, and its workers import the
copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gagar_core.records import read_json, to_json

ROOT = Path(__file__).resolve().parent.parent
"""The checkout, or the copy that this process runs from."""

DECIDING = ("gagar_core", "experiments")
"""Packages whose code decides what a run finds out."""

COPIED = (*DECIDING, "sweeps")
RESULTS = "sweeps/results"
"""Published results, which are no code: not copied, and without a part in any digest."""

FACTS = "code.json"


def facts(root: Path = ROOT) -> dict[str, Any]:
    """``digest`` of the deciding packages, ``commit`` and whether the tree is ``dirty`` (where git tells)."""
    known = root / FACTS
    if known.exists():  # a copy: its facts were written down when it was made
        content = read_json(known)
        return {key: content[key] for key in ("digest", "commit", "dirty") if key in content}
    return {"digest": digest(file_digests(root)), **_revision(root)}


@cache
def file_digests(root: Path = ROOT) -> Mapping[str, str]:
    """Relative path to digest, of every file of the copied packages."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for package in COPIED
        for path in sorted((root / package).rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and not path.is_relative_to(root / RESULTS)
        and not path.name.startswith(".")
    }


def digest(files: Mapping[str, str], packages: tuple[str, ...] = DECIDING) -> str:
    """One digest over the files of some packages."""
    chosen = {path: value for path, value in files.items() if path.split("/", 1)[0] in packages}
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:12]


def snapshot(folder: Path, root: Path = ROOT) -> Path:
    """Copy the packages into ``folder/<digest>``, whole or not at all; an equal copy is found there."""
    files = file_digests(root)
    target = folder / digest(files, COPIED)
    if target.exists():
        return target
    aside = folder / f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    for name in files:
        copy = aside / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, copy)
        copy.chmod(0o444)
    (aside / FACTS).write_bytes(to_json({**facts(root), "files": dict(files)}))
    try:
        aside.rename(target)
    except OSError:
        shutil.rmtree(aside)
        if not target.exists():
            raise
    return target


def differences(copy: Path, root: Path = ROOT) -> list[str]:
    """Paths of deciding files in which the tree and an earlier copy differ."""
    before, now = dict(read_json(copy / FACTS)["files"]), file_digests(root)
    paths = sorted(before.keys() | now.keys())
    return [p for p in paths if before.get(p) != now.get(p) and p.split("/", 1)[0] in DECIDING]


def _revision(root: Path) -> dict[str, Any]:
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git(root, "status", "--porcelain", "--", *COPIED))}
    except (OSError, subprocess.CalledProcessError):
        return {}


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
