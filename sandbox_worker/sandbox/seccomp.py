"""The system call filter of a box, as classic BPF made by hand: no libseccomp needed.

A deny list: a call that a box has no use for, and through which kernels were or can be attacked, fails.
"""

import errno
import os
import platform
import socket
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
_X32 = 0x40000000
SUPERVISOR = 1
"""Its pid, as its box sees it."""

# Name: number on x86_64, number on aarch64; None where there is no such call.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "adjtimex": (159, 171),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "syslog": (103, 116),
    "personality": (135, 92),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "vmsplice": (278, 75),
    "memfd_secret": (447, 447),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
}


@dataclass(frozen=True)
class Machine:
    audit: int
    column: int
    """In DENIED."""
    clone: int
    ioctl: int
    socket: int
    socketpair: int
    prlimit64: int
    setpriority: int
    schedulers: tuple[int, ...]
    """sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr: each of a process that it is told first."""
    has_x32: bool


MACHINES = {
    "x86_64": Machine(
        0xC000003E, 0, clone=56, ioctl=16, socket=41, socketpair=53, prlimit64=302,
        setpriority=141, schedulers=(142, 144, 203, 314), has_x32=True,
    ),
    "aarch64": Machine(
        0xC00000B7, 1, clone=220, ioctl=29, socket=198, socketpair=199, prlimit64=261,
        setpriority=140, schedulers=(118, 119, 122, 274), has_x32=False,
    ),
}  # fmt: skip
_CLONE3 = 435

Instruction = tuple[int, int, int, int]


def build_filter(machine: str = platform.machine()) -> bytes:
    """Raises KeyError for a machine that it has no table for."""
    code = instructions(MACHINES[machine])
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def instructions(machine: Machine) -> list[Instruction]:
    code = [load(_ARCH), jump(_EQUAL, machine.audit, 1, 0), done(_KILL_PROCESS), load(_NUMBER)]
    if machine.has_x32:
        code += [jump(_AT_LEAST, _X32, 0, 1), fail(errno.ENOSYS)]
    for numbers in DENIED.values():
        if (number := numbers[machine.column]) is not None:
            code += [jump(_EQUAL, number, 0, 1), fail(errno.EPERM)]
    code += [jump(_EQUAL, _CLONE3, 0, 1), fail(errno.ENOSYS)]  # the C library then falls back to clone
    code += when(machine.clone, [load(_ARG0), jump(_ANY_BIT, _NEW_NAMESPACES, 0, 1), fail(errno.EPERM)])
    code += when(machine.ioctl, no_typing_for_others())
    code += when(machine.socket, only_families(socket.AF_UNIX, socket.AF_INET, socket.AF_INET6))
    code += when(machine.socketpair, only_families(socket.AF_UNIX))
    code += when(machine.prlimit64, own_limits_only())
    code += when(machine.setpriority, [*not_of_users(), *not_of_the_supervisor(_ARG1)])
    for number in machine.schedulers:
        code += when(number, not_of_the_supervisor(_ARG0))
    return [*code, done(_ALLOW)]


def when(number: int, body: list[Instruction]) -> list[Instruction]:
    """The body for one call; the accumulator holds the number again after it."""
    return [jump(_EQUAL, number, 0, len(body) + 1), *body, load(_NUMBER)]


def only_families(*families: int) -> list[Instruction]:
    tests = [jump(_EQUAL, family, len(families) - index, 0) for index, family in enumerate(families)]
    return [load(_ARG0), *tests, fail(errno.EAFNOSUPPORT)]


def no_typing_for_others() -> list[Instruction]:
    refused = [jump(_EQUAL, TIOCSTI, 1, 0), jump(_EQUAL, TIOCLINUX, 0, 1)]
    return [load(_ARG1), *refused, fail(errno.EPERM)]


def own_limits_only() -> list[Instruction]:
    """Another process of the same uid may be the supervisor: no new limits for it, though they may be read."""
    of_itself = [load(_ARG0), jump(_EQUAL, 0, 5, 0)]
    without_new = [load(_ARG2), jump(_EQUAL, 0, 0, 2), load(_ARG2 + 4), jump(_EQUAL, 0, 1, 0)]
    return [*of_itself, *without_new, fail(errno.EPERM)]


def not_of_the_supervisor(argument: int) -> list[Instruction]:
    """It shares the uid of its commands: one that took its turn on the processor away would have no time limit."""
    return [load(argument), jump(_EQUAL, SUPERVISOR, 0, 1), fail(errno.EPERM)]


def not_of_users() -> list[Instruction]:
    return [load(_ARG0), jump(_EQUAL, os.PRIO_USER, 0, 1), fail(errno.EPERM)]


def load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def jump(how: int, value: int, if_true: int, if_false: int) -> Instruction:
    return (how, if_true, if_false, value)


def done(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def fail(code: int) -> Instruction:
    return done(_ERRNO | code)
