"""The system call filter of a container: the same deny list as bubblewrap's, in the words of the Docker Engine."""

import errno
import json
import os
import platform
import socket

from sandbox_worker.sandbox.seccomp import DENIED, SUPERVISOR, TIOCLINUX, TIOCSTI

_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_NAMESPACES = [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
"""CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}, one bit each."""
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
_SCHEDULERS = ("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr")
_LAST_FAMILY = 64
_LOW_HALF = 0xFFFFFFFF

_Rule = dict[str, object]


def profile(machine: str = platform.machine()) -> str:
    """As JSON. Raises KeyError for a machine that it has no name for."""
    rules = [refuse(sorted(DENIED), errno.EPERM), refuse(["clone3"], errno.ENOSYS)]
    rules += [refuse(["clone"], errno.EPERM, masked(0, bit, bit)) for bit in _NAMESPACES]
    rules += [refuse(["ioctl"], errno.EPERM, masked(1, _LOW_HALF, code)) for code in (TIOCSTI, TIOCLINUX)]
    rules += families("socket", _FAMILIES) + families("socketpair", (socket.AF_UNIX,))
    rules.append(refuse(["prlimit64"], errno.EPERM, compared(0, "NE", 0), compared(2, "NE", 0)))
    rules += [refuse([call], errno.EPERM, masked(0, _LOW_HALF, SUPERVISOR)) for call in _SCHEDULERS]
    rules.append(refuse(["setpriority"], errno.EPERM, masked(0, _LOW_HALF, os.PRIO_USER)))
    rules.append(refuse(["setpriority"], errno.EPERM, masked(1, _LOW_HALF, SUPERVISOR)))
    return json.dumps(
        {"defaultAction": "SCMP_ACT_ALLOW", "architectures": [_ARCHITECTURES[machine]], "syscalls": rules}
    )


def families(call: str, allowed: tuple[int, ...]) -> list[_Rule]:
    """A rule compares each argument once only, so every other family has a rule of its own."""
    others = [number for number in range(_LAST_FAMILY) if number not in allowed]
    rules = [refuse([call], errno.EAFNOSUPPORT, compared(0, "EQ", number)) for number in others]
    return [*rules, refuse([call], errno.EAFNOSUPPORT, compared(0, "GE", _LAST_FAMILY))]


def refuse(names: list[str], code: int, *conditions: dict[str, object]) -> _Rule:
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": code, "args": list(conditions)}


def compared(index: int, how: str, value: int) -> dict[str, object]:
    return {"index": index, "op": f"SCMP_CMP_{how}", "value": value}


def masked(index: int, mask: int, value: int) -> dict[str, object]:
    return {"index": index, "op": "SCMP_CMP_MASKED_EQ", "value": mask, "valueTwo": value}
