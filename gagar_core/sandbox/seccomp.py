"""Which system calls a candidate may make, as a BPF program for x86-64 and aarch64.

What is listed is refused with EPERM; everything newer than the tables, and calls that glibc falls back from,
with ENOSYS. Whatever is not listed stays allowed: reading, memory, time, threads, its own files.
"""

from __future__ import annotations

import struct

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | 1, 0x00050000 | 38
FIRST_UNKNOWN = 452
"""Numbers from here on (the same on both processors) are younger than the tables below."""
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _SET_BITS, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

Number = tuple[int | None, int | None]
_NUMBERS: dict[str, Number] = {  # (x86-64, aarch64)
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    "execve": (59, 221),
    "execveat": (322, 281),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semctl": (66, 191),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "prctl": (157, 167),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "truncate": (76, 45),
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "acct": (163, 89),
    "syslog": (103, 116),
    "personality": (135, 92),
    "lookup_dcookie": (212, 18),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "landlock_create_ruleset": (444, 444),
}
_METADATA = (
    *("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "lremovexattr", "fremovexattr"),
)
_STRANGERS = ("rt_sigqueueinfo", "rt_tgsigqueueinfo")
_CHECKED = ("clone", "kill", "tkill", "tgkill", "prlimit64", "sched_setaffinity", "fcntl", "ioctl", "prctl")
_SPECIAL = (
    *_CHECKED,
    "landlock_create_ruleset",
    "clone3",
    "openat2",
    "open",
    "openat",
    "truncate",
    "mount",
    "fork",
    "vfork",
)
_ALWAYS = tuple(name for name in _NUMBERS if name not in (*_METADATA, *_STRANGERS, *_SPECIAL))
_GROUP = 8
PLACEHOLDER = 0x7A6B5C4D
"""Stands for the pid of a child that is not born yet."""
_CLONE_THREAD = 0x00010000
_NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag, time namespace included
_MOUNT_AND_PID = 0x20020000  # what the zygote itself needs to start a child


def _word(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    """One BPF instruction; jumps count the instructions to leave out."""
    return struct.pack("=HBBI", code, when_true, when_false, value & 0xFFFFFFFF)


def _argument(position: int) -> bytes:
    return _word(_LOAD, _ARGUMENTS + 8 * position)  # the low half: ids, flags and commands are 32 bits


_ALLOWED, _REFUSED = _word(_RETURN, ALLOW), _word(_RETURN, EPERM)


class Assembler:
    """Collects one rule per system call. A rule ends in returns, so no jump leaves it."""

    def __init__(self, machine: str, first_unknown: int = FIRST_UNKNOWN) -> None:
        self._column = 0 if machine == "x86_64" else 1
        self._header = _header(machine, first_unknown)
        self._rules: dict[int, list[bytes]] = {}

    def _rule(self, name: str, *words: bytes) -> None:
        number = _NUMBERS[name][self._column]
        if number is not None:
            self._rules[number] = [_word(_EQUAL, number, 0, len(words)), *words]

    def program(self) -> bytes:
        """The instructions, packed as the kernel wants them; calls without a rule are allowed.

        Rules stand in order of number, and whole groups of them are jumped over: the kernel runs a new filter
        once for every call there is, so attaching a long chain of comparisons takes longer than all else that
        a child does.
        """
        numbers = sorted(self._rules)
        groups = [numbers[k : k + _GROUP] for k in range(0, len(numbers), _GROUP)] or [[]]
        words = list(self._header)
        for group, after in zip(groups, [*groups[1:], None], strict=True):
            block = [word for number in group for word in self._rules[number]]
            block.append(_ALLOWED)
            if after is not None:
                words.append(_word(_AT_LEAST, after[0], len(block), 0))
            words += block
        return b"".join(words)

    def refuse(self, name: str, verdict: int = EPERM) -> None:
        """Refuse a call whatever its arguments."""
        self._rule(name, _word(_RETURN, verdict))

    def allow_only(self, name: str, argument: int, value: int) -> None:
        """Allow a call only if an argument equals ``value``."""
        self._rule(name, _argument(argument), _word(_EQUAL, value, 0, 1), _ALLOWED, _REFUSED)

    def refuse_values(self, name: str, argument: int, values: tuple[int, ...]) -> None:
        """Refuse a call if an argument has one of ``values``."""
        tests = [word for value in values for word in (_word(_EQUAL, value, 0, 1), _REFUSED)]
        self._rule(name, _argument(argument), *tests, _ALLOWED)

    def refuse_masked(self, name: str, argument: int, mask: int, value: int) -> None:
        """Refuse a call if ``argument & mask == value``."""
        test = _word(_AND, mask), _word(_EQUAL, value, 0, 1)
        self._rule(name, _argument(argument), *test, _REFUSED, _ALLOWED)

    def refuse_bits(self, name: str, argument: int, bits: int) -> None:
        """Refuse a call if an argument has any of ``bits``."""
        self._rule(name, _argument(argument), _word(_SET_BITS, bits, 0, 1), _REFUSED, _ALLOWED)

    def allow_bits(self, name: str, argument: int, bits: int) -> None:
        """Allow a call only if an argument has one of ``bits``."""
        self._rule(name, _argument(argument), _word(_SET_BITS, bits, 0, 1), _ALLOWED, _REFUSED)

    def only_deadly_parent_signal(self) -> None:
        """``prctl(PR_SET_PDEATHSIG)`` may ask for SIGKILL only: a child must not outlive its zygote."""
        set_parent_signal, kill = 1, 9
        test = _argument(0), _word(_EQUAL, set_parent_signal, 0, 3), _argument(1), _word(_EQUAL, kill, 1, 0)
        self._rule("prctl", *test, _REFUSED, _ALLOWED)


def _header(machine: str, first_unknown: int) -> list[bytes]:
    """Refuse foreign calling conventions and numbers younger than the tables; leave the number loaded."""
    words = [
        _word(_LOAD, _ARCH),
        _word(_EQUAL, _AUDIT[machine], 1, 0),
        _word(_RETURN, KILL),
        _word(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        words += [_word(_AT_LEAST, _X32, 0, 1), _REFUSED]
    return [*words, _word(_AT_LEAST, first_unknown, 0, 1), _word(_RETURN, ENOSYS)]


def _common(machine: str) -> Assembler:
    assembler = Assembler(machine)
    assembler.refuse("clone3", ENOSYS)  # glibc tries clone then; EPERM would end it
    assembler.refuse("openat2", ENOSYS)  # its flags sit in memory, out of a filter's sight
    for name in _ALWAYS:
        assembler.refuse(name)
    return assembler


def namespace_filter(machine: str) -> bytes:
    """For the zygote of level ``namespaces``; its children inherit it.

    ``clone`` with a mount and a process namespace and ``mount`` stay open: the zygote needs them, and a child
    without capabilities is refused by the kernel.
    """
    assembler = _common(machine)
    assembler.refuse_bits("clone", 0, _NEW_NAMESPACES & ~_MOUNT_AND_PID)
    assembler.only_deadly_parent_signal()
    return assembler.program()


def landlock_filter(machine: str, pid: int, abi: int) -> bytes:
    """For one child of a landlock level: no new process, no stranger's process, no metadata of files.

    ``pid`` is the child's own; a zygote prepares the program with ``PLACEHOLDER`` and fills it in later.

    Landlock leaves modes, times and extended attributes of files open; below ABI 3 also truncation, by
    ``truncate`` and by opening for reading with O_TRUNC.
    """
    assembler = _common(machine)
    for name in (*_METADATA, *_STRANGERS, "fork", "vfork", "mount"):
        assembler.refuse(name)
    assembler.allow_bits("clone", 0, _CLONE_THREAD)
    for name in ("kill", "tkill", "tgkill"):
        assembler.allow_only(name, 0, pid)
    for name in ("prlimit64", "sched_setaffinity"):
        assembler.allow_only(name, 0, 0)
    assembler.refuse_values("fcntl", 1, (8, 10, 15))  # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals by detour
    assembler.refuse_values("ioctl", 1, (0x8901, 0x8902, 0x5412))  # FIOSETOWN, SIOCSPGRP, TIOCSTI
    assembler.only_deadly_parent_signal()
    if abi < 3:
        assembler.refuse("truncate")
        truncating_read, mask = 0o1000, 0o1003  # O_TRUNC with O_RDONLY
        assembler.refuse_masked("open", 1, mask, truncating_read)
        assembler.refuse_masked("openat", 2, mask, truncating_read)
    return assembler.program()


def with_pid(program: bytes, pid: int) -> bytes:
    """A prepared program with the pid in its place."""
    return program.replace(struct.pack("=I", PLACEHOLDER), struct.pack("=I", pid))
