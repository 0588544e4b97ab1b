"""What boxes need of the kernel, each tried and not read off its version."""

import ctypes
import errno
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

from sandbox_worker.sandbox import launch, layout
from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.delegation import Place, braced, mend_groups, or_weaker
from sandbox_worker.sandbox.findings import HOST, Finding, State, found_of
from sandbox_worker.sandbox.hierarchies import find_tree
from sandbox_worker.sandbox.preflight import MEND_CPU, mend_namespaces, require_machine, switches_off, weakness
from sandbox_worker.sandbox.seccomp import MACHINES
from sandbox_worker.sandbox.uids import available

_SECONDS = 10.0
_CLOSE_RANGE = 436
"""Its number on every machine that boxes run on."""
_NOT_OPEN = 2**31 - 2
_NEWER = "Boot a kernel of 5.10 or later; this one lacks what the supervisor of a box is built on."
_UNSHARE = """
import ctypes, os
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
    print(os.strerror(ctypes.get_errno()))
"""
_MOST_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")
"""Of filters; absent where the kernel has none."""


def kernel_findings() -> list[Finding]:
    """What every back end needs."""
    rows: dict[str, Callable[[], Finding]] = {
        "kernel": kernel,
        "seccomp filters": seccomp_filters,
        "pidfd": pidfd,
        "memfd exec": memfd_exec,
        "close_range": close_range,
    }
    return [found_of(HOST, name, look) for name, look in rows.items()]


def kernel() -> Finding:
    found = f"{platform.system()} {platform.release()} on {platform.machine()}"
    try:
        require_machine(platform.system().lower(), platform.machine())
    except HostCannotIsolateError as error:
        return Finding(HOST, "kernel", State.MISSING, found, error.mend)
    return Finding(HOST, "kernel", State.OK, found)


def user_namespaces() -> Finding:
    """Tried by a user who is not root, as bubblewrap is."""
    name = "user namespaces"
    uid = available().start if os.geteuid() == 0 else None
    command = [layout.PYTHON, "-I", "-c", _UNSHARE]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        cwd="/",
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
    )
    if said := (done.stdout + done.stderr).strip():
        words = f"an ordinary user can make none: {said[-300:]}"
        return Finding(HOST, name, State.MISSING, words, mend_namespaces())
    most = _MOST_NAMESPACES.read_text().strip() if _MOST_NAMESPACES.exists() else "any number"
    narrowed = "; AppArmor lets only programs with a profile use them" if switches_off() else ""
    return Finding(HOST, name, State.OK, f"an ordinary user can make them, at most {most}{narrowed}")


def seccomp_filters() -> Finding:
    name = "seccomp filters"
    if _ACTIONS.exists() and "errno" in (actions := _ACTIONS.read_text().split()):
        return Finding(HOST, name, State.OK, f"{len(actions)} actions, errno among them; for {' and '.join(MACHINES)}")
    mend = "Boot a kernel with CONFIG_SECCOMP_FILTER: without it every system call of a box reaches the kernel."
    return Finding(HOST, name, State.MISSING, "this kernel filters no system calls", mend)


def pidfd() -> Finding:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding(HOST, "pidfd", State.MISSING, f"no process can be held by descriptor: {error.strerror}", _NEWER)
    return Finding(HOST, "pidfd", State.OK, "a process can be held by descriptor, so that none is killed by mistake")


def memfd_exec() -> Finding:
    """The supervisor is run from a sealed file in memory."""
    name = "memfd exec"
    try:
        program = launch.sealed_program("probe", Path("/bin/true").read_bytes())
    except HostCannotIsolateError as error:
        return Finding(HOST, name, State.MISSING, error.missing, error.mend)
    try:
        subprocess.run([f"/proc/self/fd/{program}"], pass_fds=(program,), timeout=_SECONDS, check=True)
    except PermissionError:
        mend = "Set sysctl vm.memfd_noexec=0 or 1, and let no security module forbid it."
        return Finding(HOST, name, State.MISSING, "a sealed file in memory cannot be run", mend)
    finally:
        os.close(program)
    return Finding(HOST, name, State.OK, "a sealed file in memory can be run")


def close_range() -> Finding:
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.c_uint(_NOT_OPEN)
    if libc.syscall(ctypes.c_long(_CLOSE_RANGE), first, first, ctypes.c_uint(0)) == 0:
        return Finding(HOST, "close_range", State.OK, "descriptors can be closed all at once")
    words = f"descriptors cannot be closed all at once: {errno.errorcode.get(ctypes.get_errno(), '?')}"
    return Finding(HOST, "close_range", State.MISSING, words, _NEWER)


def control_groups(*, allow_weaker: bool) -> Finding:
    """Where they are, and which; whether they hold, the rows of the boxes tell."""
    name, place, tree = "control groups", Place.here(), find_tree()
    without = State.WEAKER if allow_weaker else State.MISSING
    if tree is None:
        words = f"{place.words}; {place.user} (uid {place.uid}) can make none with limits"
        mend = mend_groups(place)
        return Finding(HOST, name, without, words, or_weaker(mend) if without is State.MISSING else mend)
    tops = braced(tree.by_controller.values())
    words = f"version {tree.version}; {', '.join(sorted(tree.by_controller))} can be limited, below {tops}"
    if weaker := weakness(tree):
        return Finding(HOST, name, without, f"{words}; {weaker}", MEND_CPU)
    return Finding(HOST, name, State.OK, words)
