"""The few Linux calls that Python does not offer, through ctypes; used inside workers only.

Numbers are those of the kernel's own tables for x86-64 (``arch/x86/entry/syscalls/syscall_64.tbl``) and for
aarch64 (``include/uapi/asm-generic/unistd.h``). Every wrapper raises ``OSError`` on failure.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any

MACHINE = os.uname().machine

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_THREAD = 0x00010000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_CAPBSET_DROP = 1, 4, 8, 24
PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 38, 36

SYSCALLS: dict[str, dict[str, int]] = {
    "x86_64": {
        "clone": 56,
        "pivot_root": 155,
        "capset": 126,
        "seccomp": 317,
        "setresuid": 117,
        "landlock_create_ruleset": 444,
        "landlock_add_rule": 445,
        "landlock_restrict_self": 446,
        "mount_setattr": 442,
    },
    "aarch64": {
        "clone": 220,
        "pivot_root": 41,
        "capset": 91,
        "seccomp": 277,
        "setresuid": 147,
        "landlock_create_ruleset": 444,
        "landlock_add_rule": 445,
        "landlock_restrict_self": 446,
        "mount_setattr": 442,
    },
}

_libc = ctypes.PyDLL(None, use_errno=True)
"""PyDLL keeps the interpreter lock: a child made by a raw clone must not come back to a lock it lost."""
_libc.syscall.restype = ctypes.c_long


def known_machine() -> bool:
    """Whether the tables cover this processor; without them there is no isolation."""
    return MACHINE in SYSCALLS


def syscall(name: str, *arguments: Any) -> int:
    """Call the kernel by name."""
    numbers = SYSCALLS.get(MACHINE)
    if numbers is None:
        raise OSError(38, f"no system call table for {MACHINE}")
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = _libc.syscall(ctypes.c_long(numbers[name]), *converted)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _checked(name: str, *arguments: Any) -> int:
    result: int = getattr(_libc, name)(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int = 0) -> None:
    """Set one process attribute."""
    _checked("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _checked("unshare", flags)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount a file system, or bind or remount one."""
    _checked(
        "mount",
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )


def detach(target: str) -> None:
    """Unmount ``target`` and all below it, as soon as nobody uses it."""
    _checked("umount2", target.encode(), MNT_DETACH)


def make_read_only(target: str) -> None:
    """Make a mount and all mounts below it read-only and blind to set-user-id bits."""
    mount_attr_rdonly, mount_attr_nosuid, at_recursive = 1, 2, 0x8000
    attributes = struct.pack("=QQQQ", mount_attr_rdonly | mount_attr_nosuid, 0, 0, 0)
    syscall("mount_setattr", -100, target.encode(), at_recursive, attributes, len(attributes))


def pivot_root(new: str, old: str) -> None:
    """Exchange the root directory of this mount namespace."""
    syscall("pivot_root", new.encode(), old.encode())


def fork_into(flags: int) -> int:
    """``fork`` whose child also enters new namespaces; one thread only, as the interpreter demands.

    ``unshare`` cannot be used for this: it works for one child per process, and a process whose first child
    has gone cannot fork again.
    """
    hooks = ctypes.pythonapi
    hooks.PyOS_BeforeFork()
    sigchld = 17
    pid: int = _libc.syscall(_CLONE_NUMBER, ctypes.c_long(flags | sigchld), _NULL, _NULL, _NULL, _NULL)
    if pid == 0:
        hooks.PyOS_AfterFork_Child()
        return 0
    code = ctypes.get_errno()
    hooks.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(code, f"clone: {os.strerror(code)}")
    return pid


_CLONE_NUMBER = ctypes.c_long(SYSCALLS.get(MACHINE, {"clone": -1})["clone"])
_NULL = ctypes.c_long(0)
_CAP_HEADER = struct.pack("=II", 0x20080522, 0)
_NO_CAPS = bytes(24)


def drop_capabilities() -> None:
    """Give up every capability of this process."""
    syscall("capset", _CAP_HEADER, _NO_CAPS)


def keep_only_capability(number: int) -> None:
    """Give up every capability but one (which stays permitted and effective)."""
    low, high = (1 << number, 0) if number < 32 else (0, 1 << (number - 32))
    syscall("capset", _CAP_HEADER, struct.pack("=6I", low, low, 0, high, high, 0))


def drop_bounding_set() -> None:
    """Make sure that nothing this process starts can gain a capability."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            return  # one past the last capability, or not ours to drop


def attach_filter(program: bytes) -> None:
    """Attach a seccomp filter given as packed BPF instructions."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    set_mode_filter = 1
    syscall("seccomp", set_mode_filter, 0, header)
