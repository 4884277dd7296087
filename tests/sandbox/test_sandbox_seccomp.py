"""The filters, run by a small interpreter of the kernel's bytecode: both processors, without either."""

from __future__ import annotations

import struct

import pytest

from gagar_core.sandbox import seccomp

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PID = 4242
FILTERS = {
    "namespaces": lambda machine: seccomp.namespace_filter(machine),
    "landlock": lambda machine: seccomp.with_pid(
        seccomp.landlock_filter(machine, seccomp.PLACEHOLDER, 7), PID
    ),
    "landlock-weak": lambda machine: seccomp.landlock_filter(machine, PID, 2),
}


def verdict(program: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What the kernel would answer."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *arguments, *([0] * (6 - len(arguments))))
    words = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    for _ in range(10_000):
        code, when_true, when_false, value = words[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[
                code
            ]
            at += when_true if holds else when_false
    raise AssertionError("no verdict")


def asked(level: str, machine: str, name: str, *arguments: int) -> int | None:
    number = seccomp._NUMBERS[name][0 if machine == "x86_64" else 1]
    if number is None:
        return None
    return verdict(FILTERS[level](machine), ARCH[machine], number, arguments)


def refused(level: str, machine: str, name: str, *arguments: int) -> bool:
    return asked(level, machine, name, *arguments) != seccomp.ALLOW


@pytest.mark.parametrize("machine", sorted(ARCH))
@pytest.mark.parametrize("level", sorted(FILTERS))
def test_what_never_depends_on_arguments_is_refused(level: str, machine: str) -> None:
    for name in seccomp._ALWAYS:
        assert asked(level, machine, name) in (seccomp.EPERM, None), name
    assert asked(level, machine, "clone3") == seccomp.ENOSYS  # else glibc does not fall back to clone
    assert asked(level, machine, "openat2") == seccomp.ENOSYS


@pytest.mark.parametrize("machine", sorted(ARCH))
@pytest.mark.parametrize("level", sorted(FILTERS))
def test_foreign_calling_conventions_and_young_calls(level: str, machine: str) -> None:
    program = FILTERS[level](machine)
    other = next(arch for name, arch in ARCH.items() if name != machine)
    assert verdict(program, other, 0) == seccomp.KILL
    assert verdict(program, 0x40000003, 0) == seccomp.KILL  # 32-bit x86
    for number in (452, 462, 463, 5000):
        assert verdict(program, ARCH[machine], number) == seccomp.ENOSYS
    if machine == "x86_64":
        assert verdict(program, ARCH[machine], 0x40000000 | 59) == seccomp.EPERM  # x32


@pytest.mark.parametrize("machine", sorted(ARCH))
def test_a_landlocked_child_reaches_no_other_process(machine: str) -> None:
    for name in ("kill", "tkill", "tgkill"):
        assert not refused("landlock", machine, name, PID, 9)
        for target in (0, 1, PID + 1, 0xFFFFFFFF):
            assert refused("landlock", machine, name, target, 9) or (name, target) == ("kill", PID)
    for name in ("prlimit64", "sched_setaffinity"):
        assert not refused("landlock", machine, name, 0)
        assert refused("landlock", machine, name, 1)
    assert refused("landlock", machine, "rt_sigqueueinfo", PID)
    for command in (8, 10, 15):
        assert refused("landlock", machine, "fcntl", 3, command)
    assert not refused("landlock", machine, "fcntl", 3, 4)


@pytest.mark.parametrize("machine", sorted(ARCH))
def test_a_landlocked_child_makes_threads_only(machine: str) -> None:
    thread = 0x3D0F00  # what glibc's pthread_create asks for
    assert not refused("landlock", machine, "clone", thread)
    assert refused("landlock", machine, "clone", 17)
    assert refused("landlock", machine, "clone", 0x01200011)  # what glibc's fork asks for


@pytest.mark.parametrize("machine", sorted(ARCH))
def test_a_child_in_namespaces_forks_but_gets_no_new_rights(machine: str) -> None:
    assert not refused("namespaces", machine, "clone", 0x01200011)
    for flag in (0x10000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80):
        assert refused("namespaces", machine, "clone", 17 | flag)
    assert not refused("namespaces", machine, "clone", 0x20020000 | 17)  # the zygote's own
    assert refused("namespaces", machine, "unshare", 0x10000000)


@pytest.mark.parametrize("machine", sorted(ARCH))
@pytest.mark.parametrize("level", sorted(FILTERS))
def test_a_child_may_not_outlive_its_zygote(level: str, machine: str) -> None:
    assert not refused(level, machine, "prctl", 1, 9)
    assert refused(level, machine, "prctl", 1, 0)
    assert refused(level, machine, "prctl", 1, 15)
    assert not refused(level, machine, "prctl", 15, 0)


@pytest.mark.parametrize("machine", sorted(ARCH))
def test_metadata_and_truncation(machine: str) -> None:
    for name in seccomp._METADATA:
        assert asked("landlock", machine, name) in (seccomp.EPERM, None)
        assert asked("namespaces", machine, name) in (seccomp.ALLOW, None)
    read_and_truncate, write_and_truncate = 0o1000, 0o1001
    assert not refused("landlock", machine, "truncate")  # the kernel's own rules know it from ABI 3 on
    assert refused("landlock-weak", machine, "truncate")
    assert refused("landlock-weak", machine, "openat", 0, 0, read_and_truncate | 0o2000000)
    assert not refused("landlock-weak", machine, "openat", 0, 0, write_and_truncate)
    assert not refused("landlock-weak", machine, "openat", 0, 0, 0)


def test_an_unknown_processor_has_no_filter() -> None:
    with pytest.raises(KeyError):
        seccomp.namespace_filter("riscv64")
