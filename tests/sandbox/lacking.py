"""Run a command on a machine that lacks something: ``python lacking.py WHAT... -- COMMAND...``.

``WHAT`` is the name of a system call that shall be refused (as Docker's and Ubuntu's rules do), ``landlock``
to have none, ``userns`` for a user whose quota of user namespaces is 0, or ``fakeroot`` to be root in name
only.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from gagar_core.sandbox import kernel, seccomp

ORDINARY = 61_000


def refuse(names: list[str]) -> None:
    """Have the kernel refuse these calls from now on."""
    assembler = seccomp.Assembler(kernel.MACHINE, first_unknown=100_000)
    for name in names:
        if name == "landlock":
            assembler.refuse("landlock_create_ruleset", seccomp.ENOSYS)
        else:
            assembler.refuse(name)
    kernel.attach_filter(assembler.program())


def enter_user_namespace(*, quota: int | None, root: bool) -> None:
    """Enter a user namespace of one's own, mapped from outside by a helper process."""
    was_root = os.geteuid() == 0
    uid = os.geteuid()
    here, there = os.pipe(), os.pipe()
    target = os.getpid()
    if os.fork() == 0:
        os.read(here[0], 1)
        inner = 0 if root else uid
        count = 65_536 if was_root and not root else 1
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{inner} {uid} {count}"),
            ("gid_map", f"{inner} {os.getegid()} {count}"),
        ):
            if name != "setgroups" or count == 1:
                Path(f"/proc/{target}/{name}").write_text(text)
        os.write(there[1], b"x")
        os._exit(0)
    kernel.unshare(kernel.CLONE_NEWUSER)
    os.write(here[1], b"x")
    os.read(there[0], 1)
    os.wait()
    if quota is not None:
        Path("/proc/sys/user/max_user_namespaces").write_text(str(quota))
    if was_root and not root:
        os.setgroups([])
        os.setresgid(ORDINARY, ORDINARY, ORDINARY)
        os.setresuid(ORDINARY, ORDINARY, ORDINARY)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


def main() -> None:
    """Lose what is named, then become the command."""
    split = sys.argv.index("--")
    what, command = sys.argv[1:split], sys.argv[split + 1 :]
    if "userns" in what:
        enter_user_namespace(quota=0, root=False)
    if "fakeroot" in what:
        enter_user_namespace(quota=None, root=True)
    refuse([name for name in what if name not in ("userns", "fakeroot")])
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
