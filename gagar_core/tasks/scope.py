"""How far a change reaches: lines added and deleted, files and functions touched."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """A change against the starter files; counts of lines, files and top-level functions."""

    added: int
    deleted: int
    files: int
    functions: int


def scope_of(before: Mapping[str, str], after: Mapping[str, str]) -> Scope:
    """The scope of a change; a file that is in one of the two only counts with all of its lines."""
    added = deleted = files = functions = 0
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, ""), after.get(name, "")
        if old == new:
            continue
        more, fewer = line_changes(old.splitlines(), new.splitlines())
        added, deleted, files = added + more, deleted + fewer, files + 1
        blocks = [functions_in(text) for text in (old, new)]
        functions += sum(
            blocks[0].get(key) != blocks[1].get(key) for key in blocks[0].keys() | blocks[1].keys()
        )
    return Scope(added, deleted, files, functions)


def line_changes(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Lines added and deleted, outside of the longest common subsequences that difflib finds."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    middle_old, middle_new = old[first : len(old) - last], new[first : len(new) - last]
    if not middle_old or not middle_new:
        return len(middle_new), len(middle_old)
    matcher = difflib.SequenceMatcher(None, middle_old, middle_new, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return len(middle_new) - same, len(middle_old) - same


def functions_in(source: str) -> dict[str, str]:
    """Top-level functions by name, by their text up to the next line without indent; need not parse."""
    found: dict[str, str] = {}
    name = ""
    for line in source.splitlines():
        if line.startswith("def "):
            name = line[4:].split("(")[0].strip()
            found[name] = found.get(name, "") + line + "\n"
        elif name and (line.startswith((" ", "\t")) or not line.strip()):
            found[name] += line + "\n"
        else:
            name = ""
    return found
