"""Landlock rules: which files a process may read, and the one folder that it may write.

Needs no privilege. Rights and attribute layouts are those of ``linux/landlock.h``; each ABI adds some.
"""

# ruff: noqa: PTH110
from __future__ import annotations

import os
import struct

from gagar_core.sandbox import kernel

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILES_BY_ABI = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_REFUSED_IN_WORKSPACE = (1 << 6) | (1 << 9) | (1 << 11)  # character devices, sockets, block devices
_TCP, _SCOPES = 0b11, 0b11


def abi() -> int:
    """The version that the kernel offers, 0 if it has none or it is switched off."""
    try:
        return kernel.syscall("landlock_create_ruleset", 0, 0, 1)
    except OSError:
        return 0


def file_rights(version: int) -> int:
    """Every file right that this ABI knows."""
    return sum(bits for since, bits in _FILES_BY_ABI if version >= since)


class Ruleset:
    """Rules prepared by the zygote; a child adds its own workspace and confines itself.

    The readable paths are opened once, so a child needs no right to walk to them.
    """

    def __init__(self, readable: list[str], version: int) -> None:
        self.version = version
        self._rights = file_rights(version)
        self._readable = [
            os.open(path, os.O_PATH | os.O_CLOEXEC) for path in readable if os.path.exists(path)
        ]
        self._nowhere = os.open(os.devnull, os.O_PATH | os.O_CLOEXEC) if os.path.exists(os.devnull) else None

    def confine(self, workspace: str) -> None:
        """Restrict this process for good. Raises ``OSError`` if the kernel refuses."""
        attributes = struct.pack("=Q", self._rights)
        if self.version >= 4:
            attributes += struct.pack("=Q", _TCP)
        if self.version >= 6:
            attributes += struct.pack("=Q", _SCOPES)
        ruleset = kernel.syscall("landlock_create_ruleset", attributes, len(attributes), 0)
        for folder in self._readable:
            self._add(ruleset, folder, _READ)
        if self._nowhere is not None:
            self._add(ruleset, self._nowhere, _READ_FILE | _WRITE_FILE)
        place = os.open(workspace, os.O_PATH | os.O_CLOEXEC)
        self._add(ruleset, place, self._rights & ~_REFUSED_IN_WORKSPACE & ~_EXECUTE)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.syscall("landlock_restrict_self", ruleset, 0)
        for descriptor in (place, ruleset):
            os.close(descriptor)

    def _add(self, ruleset: int, folder: int, rights: int) -> None:
        path_beneath = 1
        if os.fstat(folder).st_mode & 0o170000 != 0o040000:
            rights &= ~_READ_DIR  # a rule on a file may not speak of folders
        kernel.syscall("landlock_add_rule", ruleset, path_beneath, struct.pack("=Qi", rights, folder), 0)
