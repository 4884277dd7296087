"""Unified diffs from untrusted hands: read strictly, applied by own code.

What a diff may do here is less than ``git apply`` allows (which has let paths and links out of the tree
before): create, change and delete regular text files below the root. Standard library only; the applying half
runs in a child.
"""

from __future__ import annotations

import re
from typing import Any

MAX_BYTES = 1_000_000
"""Longer diffs are refused."""
_HUNK = re.compile(r"^@@ -(\d{1,7})(?:,(\d{1,7}))? \+(\d{1,7})(?:,(\d{1,7}))? @@")
_REFUSED = (
    *("old mode", "new mode", "similarity index", "dissimilarity index", "rename from", "rename to"),
    *("copy from", "copy to", "Binary files", "GIT binary patch"),
)
_MODES = ("100644", "100755")
_SEARCH = 400
"""Lines that a hunk may have moved by."""


class DiffError(ValueError):
    """A diff is malformed, does not apply, or asks for what is not allowed; says where."""


class FilePatch:
    """What happens to one file. ``hunks`` is ``[[first old line, old lines, new lines], ...]``."""

    def __init__(self, path: str, action: str, hunks: list[list[Any]]) -> None:
        self.path, self.action, self.hunks = path, action, hunks

    def as_message(self) -> list[Any]:
        """The form in which a child takes it."""
        return [self.path, self.action, self.hunks]

    @property
    def added(self) -> list[str]:
        """Lines that were not there before."""
        return [line for _, old, new in self.hunks for line in new if line not in old]


def parse(text: str) -> list[FilePatch]:
    """Read a unified diff (plain or as git writes it). Raises ``DiffError``."""
    if len(text) > MAX_BYTES:
        raise DiffError(f"the diff has {len(text)} characters; {MAX_BYTES} are allowed")
    lines = text.split("\n")
    patches: list[FilePatch] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(_REFUSED):
            raise DiffError(
                f"line {at + 1}: {line[:60]!r} is not allowed; text files can be created, changed or deleted"
            )
        if line.startswith(("new file mode ", "deleted file mode ")) and line.rsplit(" ", 1)[1] not in _MODES:
            raise DiffError(f"line {at + 1}: only regular files are allowed: {line[:60]!r}")
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            patch, at = _file_patch(lines, at)
            patches.append(patch)
        elif line.startswith("@@"):
            raise DiffError(f"line {at + 1}: a hunk without a file")
        else:
            at += 1
    paths = [patch.path for patch in patches]
    if len(set(paths)) != len(paths):
        raise DiffError("a file is patched twice")
    return patches


def _file_patch(lines: list[str], at: int) -> tuple[FilePatch, int]:
    old, new = _name(lines[at][4:], at), _name(lines[at + 1][4:], at + 1)
    at += 2
    hunks: list[list[Any]] = []
    while at < len(lines) and lines[at].startswith("@@"):
        hunk, at = _hunk(lines, at)
        hunks.append(hunk)
    if old is None and new is None:
        raise DiffError(f"line {at}: neither side of the patch is a file")
    if old is not None and new is not None and old != new:
        raise DiffError(f"line {at}: renaming {old!r} to {new!r} is not allowed")
    action = "create" if old is None else "delete" if new is None else "change"
    return FilePatch(str(new or old), action, hunks), at


def _name(field: str, at: int) -> str | None:
    """The path below the root, None for /dev/null."""
    name = field.split("\t")[0].rstrip("\r")
    if name == "/dev/null":
        return None
    path = name[2:] if name.startswith(("a/", "b/")) else name
    parts = path.split("/")
    if not path or path.startswith("/") or any(part in ("", ".", "..", ".git") for part in parts):
        raise DiffError(f"line {at + 1}: path {name[:80]!r} is not allowed")
    if any(ord(c) < 32 or c in '\\"' or c == "\x7f" for c in path) or len(path) > 200:
        raise DiffError(f"line {at + 1}: path {name[:80]!r} is not allowed")
    return path


def _hunk(lines: list[str], at: int) -> tuple[list[Any], int]:
    match = _HUNK.match(lines[at])
    if match is None:
        raise DiffError(f"line {at + 1}: malformed hunk header {lines[at][:60]!r}")
    first = int(match[1])
    left, right = int(match[2] or 1), int(match[4] or 1)
    old: list[str] = []
    new: list[str] = []
    last_sides: list[list[str]] = []
    at += 1
    while len(old) < left or len(new) < right or (at < len(lines) and lines[at].startswith("\\")):
        line = lines[at] if at < len(lines) else ""
        sign = line[:1]
        if sign == "\\":  # the line before has no line end
            for side in last_sides:
                side[-1] = side[-1].removesuffix("\n")
        elif sign in (" ", "+", "-") or (line == "" and at + 1 < len(lines)):
            last_sides = [side for side, signs in ((old, " -"), (new, " +")) if (sign or " ") in signs]
            for side in last_sides:
                side.append(line[1:] + "\n")
        else:
            raise DiffError(f"line {at + 1}: the hunk ends too early")
        at += 1
    if len(old) != left or len(new) != right:
        raise DiffError(f"line {at}: the hunk does not have the lines that it announces")
    return [first, old, new], at


def apply(text: str, hunks: list[list[Any]]) -> str:
    """``text`` with the hunks applied; each at its line or, if its context is found there, not far from
    it."""
    lines = [line + "\n" for line in text.split("\n")]  # not splitlines: a form feed ends no line in a diff
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    shift = 0
    for first, old, new in hunks:
        expected = max(first - 1, 0) + shift if old else first + shift
        place = _place(lines, old, expected)
        lines[place : place + len(old)] = new
        shift += len(new) - len(old) + (place - expected)
    return "".join(lines)


def _place(lines: list[str], old: list[str], expected: int) -> int:
    for distance in range(_SEARCH):
        for place in {expected - distance, expected + distance}:
            if 0 <= place <= len(lines) and lines[place : place + len(old)] == old:
                return place
    raise DiffError(f"a hunk does not fit near line {expected + 1}")
