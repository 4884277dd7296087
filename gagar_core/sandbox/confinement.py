"""What stands between a candidate and the machine: one class per isolation level, used inside the zygote.

``enter`` runs once in the zygote (what children can inherit is made once), ``fork`` makes a child, ``seal``
runs in the child before it reads a single byte of untrusted code, ``clean`` runs in the zygote after the
child is gone.
"""

# ruff: noqa: PTH102, PTH110, PTH112, PTH118, PTH120
from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Any, Protocol

from gagar_core.sandbox import filesystem, kernel, landlock, seccomp

_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
_CAP_SYS_ADMIN = 21


class Limits:
    """What a zygote was told: resource limits of its children, and where they may work.

    A plain class: ``dataclasses`` would add megabytes to every zygote, and time to every fork.
    """

    level: str
    fuel: int
    memory_mb: int
    output_bytes: int
    file_bytes: int
    workspace_mb: int
    workspace_files: int
    processes: int
    descriptors: int
    uids: list[int]
    """Unprivileged user ids that root may turn into, best first."""
    readable: list[str]
    """Folders beside the standard library that children may read."""
    landlock_cap: int = 99
    """Pretend that the kernel's Landlock is no newer than this."""
    forbid_user_namespaces: bool = False
    """Pretend that the machine refuses user namespaces."""

    def __init__(self, told: dict[str, Any]) -> None:
        for name, value in told.items():
            setattr(self, name, value)

    @property
    def memory_bytes(self) -> int:
        """Address space of a child."""
        return self.memory_mb << 20


class Confinement(Protocol):
    """One isolation level."""

    scratch: str
    """Folder outside that must be removed at the end; "" if there is none."""

    def enter(self) -> None:
        """Prepare the zygote; ``OSError`` if the machine does not offer this level."""

    def fork(self) -> int:
        """Make a child: its pid, or 0 in the child."""

    def seal(self) -> None:
        """Confine this child; there is no way back."""

    def clean(self, pid: int) -> None:
        """Remove what a dead child left."""


def limit_resources(limits: Limits, processes: int | None) -> None:
    """Set the kernel's per-process limits of a child; both soft and hard."""
    for kind, value in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.descriptors),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(kind, (value, value))
    if processes is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))


def become(uids: list[int]) -> bool:
    """Take on the first unprivileged user id that this process is really able to; False if there is none.

    Asking for the effective user id would not do: in a rootless container 0 is an ordinary user, and there
    may be no other.
    """
    for uid in uids:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        except OSError:
            continue
        return True
    return False


def may_become(uids: list[int], readable: list[str]) -> bool:
    """Whether one of ``uids`` could be taken on and would still be able to import."""
    folders = [path for path in readable if os.path.isdir(path)]
    pid = os.fork()
    if pid == 0:
        able = become(uids) and all(os.access(path, os.R_OK | os.X_OK) for path in folders)
        os._exit(0 if able else 1)
    return os.waitpid(pid, 0)[1] == 0


def standard_library() -> list[str]:
    """What a child must be able to read to import: Python's own modules and the system's shared libraries."""
    modules = os.path.dirname(os.__file__)
    libraries = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"]
    own = [os.path.join(sys.base_prefix, "lib")]
    return [path for path in (modules, *own, *libraries, "/usr/share/zoneinfo") if os.path.exists(path)]


def try_child(confinement: Confinement) -> None:
    """Start one child, end to end: a machine may allow every step but the last."""
    pid = confinement.fork()
    if pid == 0:
        try:
            confinement.seal()
            os._exit(0)
        except BaseException:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    confinement.clean(pid)
    if status != 0:
        raise OSError(1, "a child could not be sealed")


class Namespaces:
    """Own user, mount, pid, network, ipc and uts namespaces; killing a child's first process kills all of
    it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.scratch = ""
        self.children = 0
        self._landlock: landlock.Ruleset | None = None

    def enter(self) -> None:
        if not kernel.known_machine():
            raise OSError(38, f"no system call table for {kernel.MACHINE}")
        proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        readable = [*standard_library(), *self.limits.readable]
        if os.geteuid() != 0 or not self._enter_as_root(readable, proc):
            self._new_user_namespace(proc)
            filesystem.private_root(readable)
        os.close(proc)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.drop_bounding_set()
        version = min(landlock.abi(), self.limits.landlock_cap)
        if version:
            self._landlock = landlock.Ruleset(["/"], version)  # only what may be read is there
        kernel.attach_filter(seccomp.namespace_filter(kernel.MACHINE))
        try_child(self)

    def _enter_as_root(self, readable: list[str], proc: int) -> bool:
        """Build the view of the file system with root's rights, so that no path is out of reach; then stop
        being root. False if this is the root of a container that may not."""
        try:
            kernel.unshare(_NAMESPACES)
        except OSError:
            return False
        filesystem.private_root(readable)
        kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
        if not become(self.limits.uids):
            raise OSError(1, "root cannot take on an unprivileged user id")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else /proc/self belongs to root
        try:
            self._new_user_namespace(proc)
        except OSError:
            kernel.keep_only_capability(_CAP_SYS_ADMIN)  # enough to start children in namespaces
        return True

    def _new_user_namespace(self, proc: int) -> None:
        """Full rights inside, the caller's own outside; the user id keeps its number."""
        if self.limits.forbid_user_namespaces:
            raise OSError(1, "user namespaces are switched off")
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(kernel.CLONE_NEWUSER | _NAMESPACES)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            descriptor = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc)
            os.write(descriptor, text.encode())
            os.close(descriptor)

    def fork(self) -> int:
        pid = kernel.fork_into(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS)
        self.children += pid != 0
        return pid

    def seal(self) -> None:
        os.setsid()  # kill(0, ...) reaches the process group, across pid namespaces
        filesystem.mount_workspace(self.limits.workspace_mb, self.limits.workspace_files)
        os.chdir(filesystem.WORKSPACE)
        # the kernel counts this user id in the zygote's namespace: the zygote, its other children, and ours
        limit_resources(self.limits, 1 + self.children + self.limits.processes)
        if self._landlock is not None:
            self._landlock.confine(filesystem.WORKSPACE)
        kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)

    def clean(self, pid: int) -> None:
        self.children -= 1  # the workspace went with the namespace


class _Folders:
    """Workspaces in a folder of shared memory, for levels without a mount namespace of their own."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.scratch = ""
        self._made = 0
        self._place = ""
        self._places: dict[int, str] = {}

    def leave_root(self) -> None:
        """Become an unprivileged user, unless imports would fail then; give up all capabilities anyway."""
        readable = [*standard_library(), *self.limits.readable]
        if may_become(self.limits.uids, readable):
            become(self.limits.uids)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        self.scratch = filesystem.locked_scratch()
        self._zygote = os.getpid()

    def fork(self) -> int:
        self._made += 1
        self._place = f"{self.scratch}/{self._made}"
        os.mkdir(self._place, 0o700)
        pid = os.fork()
        if pid:
            self._places[pid] = self._place
        return pid

    def settle(self) -> None:
        """Own process group, own folder, limits."""
        os.setsid()
        os.chdir(self._place)
        limit_resources(self.limits, None)

    def tie_to_zygote(self) -> None:
        """Die with the zygote, even if it is dead already."""
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._zygote:
            os._exit(1)

    def clean(self, pid: int) -> None:
        place = self._places.pop(pid)
        filesystem.wipe(place)


class Landlock(_Folders):
    """Landlock for files and seccomp for the rest; needs no privilege and no namespaces."""

    lowest_abi = 3

    def enter(self) -> None:
        if not kernel.known_machine():
            raise OSError(38, f"no system call table for {kernel.MACHINE}")
        version = min(landlock.abi(), self.limits.landlock_cap)
        if version < self.lowest_abi:
            raise OSError(38, f"Landlock ABI {version} is below {self.lowest_abi}")
        self.leave_root()
        kernel.drop_bounding_set()
        kernel.drop_capabilities()
        readable = [os.path.realpath(path) for path in (*standard_library(), *self.limits.readable)]
        self._rules = landlock.Ruleset(filesystem.outermost(readable), version)
        self._filter = seccomp.landlock_filter(kernel.MACHINE, seccomp.PLACEHOLDER, version)
        try_child(self)

    def seal(self) -> None:
        self.settle()
        self._rules.confine(self._place)
        self.tie_to_zygote()
        kernel.attach_filter(seccomp.with_pid(self._filter, os.getpid()))


class WeakLandlock(Landlock):
    """The same on kernels whose Landlock does not know truncation; seccomp covers it."""

    lowest_abi = 1


class ResourceLimits(_Folders):
    """Limits only. Files, network and processes of the machine lie open: no isolation."""

    def enter(self) -> None:
        self.leave_root()
        if kernel.known_machine():
            kernel.drop_capabilities()
        try_child(self)

    def seal(self) -> None:
        self.settle()
        self.tie_to_zygote()


CONFINEMENTS: dict[str, type[Namespaces | Landlock | ResourceLimits]] = {
    "namespaces": Namespaces,
    "landlock": Landlock,
    "landlock-weak": WeakLandlock,
    "rlimits": ResourceLimits,
}
