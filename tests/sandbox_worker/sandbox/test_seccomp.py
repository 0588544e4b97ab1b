"""The filter for both machines, run by a small interpreter of its instructions."""

import errno
import os
import socket

import pytest

from sandbox_worker.sandbox.seccomp import DENIED, MACHINES, build_filter, instructions

ALLOW, KILL = 0x7FFF0000, 0x80000000


def answer(machine: str, number: int, *args: int, arch: int | None = None) -> int:
    """What the kernel would do with a call."""
    words = {0: number, 4: MACHINES[machine].audit if arch is None else arch}
    for index, value in enumerate(args):
        words[16 + 8 * index], words[20 + 8 * index] = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
    code, at, accumulator = instructions(MACHINES[machine]), 0, 0
    while True:
        how, if_true, if_false, value = code[at]
        at += 1
        if how == 0x06:
            return value
        if how == 0x20:
            accumulator = words.get(value, 0)
            continue
        holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[how]
        at += if_true if holds else if_false


def refused(code: int) -> int:
    return 0x00050000 | code


@pytest.mark.parametrize("machine", list(MACHINES))
def test_every_denied_call_is_refused(machine: str) -> None:
    for numbers in DENIED.values():
        number = numbers[MACHINES[machine].column]
        assert number is None or answer(machine, number) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", list(MACHINES))
def test_other_architectures_are_killed(machine: str) -> None:
    assert answer(machine, 0, arch=0x40000003) == KILL


@pytest.mark.parametrize("machine", list(MACHINES))
def test_only_plain_clones_pass(machine: str) -> None:
    clone = MACHINES[machine].clone
    assert answer(machine, clone, 0x1200011) == ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, clone, flag | 17) == refused(errno.EPERM)
    assert answer(machine, 435) == refused(errno.ENOSYS)


@pytest.mark.parametrize("machine", list(MACHINES))
def test_only_unix_and_internet_sockets_pass(machine: str) -> None:
    passing = {family for family in range(64) if answer(machine, MACHINES[machine].socket, family) == ALLOW}
    assert passing == {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6}


@pytest.mark.parametrize("machine", list(MACHINES))
def test_nobody_types_for_others(machine: str) -> None:
    ioctl = MACHINES[machine].ioctl
    assert answer(machine, ioctl, 0, 0x5412) == refused(errno.EPERM)
    assert answer(machine, ioctl, 0, 0x1_0000_5412) == refused(errno.EPERM)
    assert answer(machine, ioctl, 0, 0x541C) == refused(errno.EPERM)
    assert answer(machine, ioctl, 0, 0x5413) == ALLOW


@pytest.mark.parametrize("machine", list(MACHINES))
def test_limits_of_others_are_read_only(machine: str) -> None:
    prlimit = MACHINES[machine].prlimit64
    assert answer(machine, prlimit, 0, 7, 0x7F00_0000_0000) == ALLOW
    assert answer(machine, prlimit, 1, 7, 0) == ALLOW
    assert answer(machine, prlimit, 1, 7, 0x7F00_0000_0000) == refused(errno.EPERM)
    assert answer(machine, prlimit, 1, 7, 0x1000) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", list(MACHINES))
def test_nobody_takes_the_supervisors_turn_on_the_processor(machine: str) -> None:
    of = MACHINES[machine]
    for number in of.schedulers:
        assert [answer(machine, number, pid) for pid in (0, 2, 77)] == [ALLOW] * 3
        assert answer(machine, number, 1) == answer(machine, number, 0x1_0000_0001) == refused(errno.EPERM)
    assert answer(machine, of.setpriority, os.PRIO_PROCESS, 0, 5) == ALLOW
    for which in (os.PRIO_PROCESS, os.PRIO_PGRP, 0x1_0000_0000):
        assert answer(machine, of.setpriority, which, 1, 5) == refused(errno.EPERM)
    assert answer(machine, of.setpriority, os.PRIO_USER, 0, 5) == refused(errno.EPERM)


def test_the_second_table_of_numbers_is_closed() -> None:
    assert answer("x86_64", 0x40000000) == refused(errno.ENOSYS)


def test_instructions_are_eight_bytes() -> None:
    assert len(build_filter("aarch64")) == 8 * len(instructions(MACHINES["aarch64"]))
