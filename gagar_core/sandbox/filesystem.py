"""What a candidate sees of the file system, and how its remains are removed."""

# ruff: noqa: PTH102, PTH104, PTH106, PTH110, PTH112, PTH120, PTH208, PTH211
from __future__ import annotations

import fcntl
import os
import stat

from gagar_core.sandbox import kernel

WORKSPACE = "/candidate"
"""Where a candidate may write, inside a private root."""
_MOUNT_POINTS = ("/mnt", "/media", "/srv", "/opt", "/run", "/var/tmp", "/tmp")
_SCRATCH_PARENTS = ("/dev/shm", "/tmp")
_SCRATCH_PREFIX = "gagar-sandbox-"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")


def private_root(readable: list[str]) -> None:
    """Give this mount namespace a new root: ``readable`` at their own paths, read-only, an empty place to
    work at, and three devices. No /proc, no /tmp of others, no home."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    base = _mount_point(readable)
    kernel.mount("tmpfs", base, "tmpfs", kernel.MS_NOSUID, "size=1m,mode=755")
    for path in outermost(readable):
        _show(base, path)
    for device in _DEVICES:
        if os.path.exists(device):
            _bind(base, device)
    os.mkdir(base + WORKSPACE)  # fails if something readable lies there: it would be hidden
    if not os.path.lexists(base + "/tmp"):  # unless something readable lies there
        os.symlink(WORKSPACE, base + "/tmp")
    os.chdir(base)
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")
    kernel.make_read_only("/")


def mount_workspace(megabytes: int, files: int) -> None:
    """A file system of this run's own; it vanishes with the mount namespace."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("tmpfs", WORKSPACE, "tmpfs", flags, f"size={megabytes}m,nr_inodes={files},mode=777")


def _mount_point(readable: list[str]) -> str:
    """An existing folder that hides none of the paths still to be bound."""
    for folder in _MOUNT_POINTS:
        inside = folder + "/"
        if os.path.isdir(folder) and not any(os.path.realpath(p).startswith(inside) for p in readable):
            return folder
    raise OSError(2, "no folder left to build a private root on")


def outermost(paths: list[str]) -> list[str]:
    """Drop paths that lie inside others."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(above.rstrip("/") + "/") for above in kept):
            kept.append(path)
    return kept


def _show(base: str, path: str) -> None:
    """Make ``path`` readable under ``base``, and what a symbolic link on the way stands for."""
    real = os.path.realpath(path)
    if not os.path.lexists(base + real):
        _bind(base, real)
    if real != path:
        _make_way(base, os.path.dirname(path))
        if not os.path.lexists(base + path):
            os.symlink(real, base + path)


def _bind(base: str, path: str) -> None:
    target = base + path
    if os.path.isdir(path):
        _make_way(base, path)
    else:
        _make_way(base, os.path.dirname(path))
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    kernel.mount(path, target, None, kernel.MS_BIND | kernel.MS_REC)


def _make_way(base: str, path: str) -> None:
    """Make the folders of ``path``: a way to walk, not to look around on."""
    made = base
    for name in path.strip("/").split("/"):
        made += "/" + name
        if not os.path.isdir(made):
            os.mkdir(made, 0o711)


def locked_scratch() -> str:
    """Make a folder for workspaces, on memory if possible; it stays locked for as long as this process
    lives."""
    parent = next(p for p in (*_SCRATCH_PARENTS, ".") if os.access(p, os.W_OK | os.X_OK))
    name = os.urandom(8).hex()
    folder = f"{parent}/.{name}"  # renamed when locked: a sweep must not take it for abandoned
    os.mkdir(folder, 0o700)
    fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_EX)
    os.rename(folder, f"{parent}/{_SCRATCH_PREFIX}{name}")
    return f"{parent}/{_SCRATCH_PREFIX}{name}"


def sweep() -> None:
    """Remove workspaces whose zygote has died together with its broker (nobody holds their lock)."""
    for parent in _SCRATCH_PARENTS:
        for name in os.listdir(parent) if os.access(parent, os.R_OK) else ():
            if name.startswith(_SCRATCH_PREFIX):
                _sweep_one(f"{parent}/{name}")


def _sweep_one(folder: str) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # another user's, or gone
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        wipe(folder)
    except OSError:
        return  # in use, or being swept by somebody else
    finally:
        os.close(descriptor)


class Quota:
    """Whether what lies below a folder has grown past a bound; cheap as long as the disk has not filled."""

    def __init__(self, folder: str, limit_bytes: int, limit_files: int) -> None:
        self._folder, self._limit, self._files = folder, limit_bytes, limit_files
        self._before = os.statvfs(folder)

    def exceeded(self) -> bool:
        """Look at the file system's free space first, and at the files only if it has shrunk."""
        now = os.statvfs(self._folder)
        shrunk = (self._before.f_bavail - now.f_bavail) * now.f_frsize
        if shrunk < self._limit and self._before.f_ffree - now.f_ffree < self._files:
            return False
        return self._measured()

    def _measured(self) -> bool:
        pending, size, entries = [self._folder], 0, 0
        while pending:
            try:
                with os.scandir(pending.pop()) as found:
                    for entry in found:
                        entries += 1
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        else:
                            size += entry.stat(follow_symlinks=False).st_size
                        if size > self._limit or entries > self._files:
                            return True
            except OSError:
                continue  # removed meanwhile
        return False


def wipe(folder: str) -> None:
    """Empty and remove a folder that a hostile program filled.

    Works without recursion and without long paths (nested folders are moved up to the top first), gives
    itself the rights it needs, and never follows a link.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    fresh, prefix = 0, f".{os.urandom(8).hex()}-"  # a name that the program could not have taken
    try:
        while names := os.listdir(top):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                fresh = _lift_contents(name, top, fresh, prefix)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)


def _lift_contents(name: str, top: int, fresh: int, prefix: str) -> int:
    """Move the folders inside ``name`` up to ``top`` and delete its files."""
    os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        for entry in os.listdir(inner):
            if not _is_folder(entry, inner):
                os.unlink(entry, dir_fd=inner)
                continue
            os.chmod(entry, 0o700, dir_fd=inner)
            fresh += 1
            os.rename(entry, f"{prefix}{fresh}", src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    return fresh


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
