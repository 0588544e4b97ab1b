"""Proves, by probes and not by version numbers, that this host can isolate; each miss says how to mend it."""

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import (
    Backend,
    BoxDeadError,
    BoxSpec,
    BoxStartError,
    Completed,
    End,
    HostCannotIsolateError,
    Limits,
)
from sandbox_worker.sandbox.binary import find_bubblewrap
from sandbox_worker.sandbox.bubblewrap import Host
from sandbox_worker.sandbox.cgroups import CgroupTree
from sandbox_worker.sandbox.hierarchies import find_tree
from sandbox_worker.sandbox.seccomp import MACHINES

PROBE_LIMITS = Limits(cpus=1.0, memory_bytes=48 * 2**20, pids=8, disk_bytes=2**20, output_bytes=4096)
_PROBE_SECONDS = 20.0
_TAKE_MEMORY = "x = bytearray(2**27)\nx[::4096] = bytes(len(x[::4096]))"
_TAKE_PROCESSES = """
import os, time
made = 0
try:
    while made < 40:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except OSError:
    pass
print(made)
"""
NO_CGROUP = "no control group can be made, so nothing bounds the memory and the processes of a box from outside"
_MEND_CGROUP = (
    "Run the worker as root, or delegate a group to its user: `systemd-run --user --scope -p Delegate=yes` with cgroup"
    " version 2, or a folder of each of memory, pids, cpu and cpuacct that belongs to the user with version 1."
    " To go on with weaker boxes, allow them explicitly (ASSAY_ALLOW_WEAKER_BOXES)."
)
_USER_NAMESPACES = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile with userns",
    ),
}
_MEND_CONTAINER = "In a container, run the worker privileged, or with user namespaces, proc and cgroups unmasked."


def find_host(
    *,
    allow_weaker: bool,
    search_path: str | None = None,
    find_cgroups: Callable[[], CgroupTree | None] = find_tree,
) -> Host:
    """What this host offers, not yet proved. Raises HostCannotIsolateError."""
    require_machine(sys.platform, platform.machine())
    is_root = os.geteuid() == 0
    require_program(layout.PYTHON, "Install the system's Python 3 (Debian: apt install python3-minimal).")
    tree = find_cgroups()
    if tree is None and not allow_weaker:
        raise HostCannotIsolateError(NO_CGROUP, _MEND_CGROUP)
    return Host(find_bubblewrap(search_path), tree, own_uids=is_root, weaker="" if tree else NO_CGROUP)


def require_machine(system: str, machine: str) -> None:
    if system != "linux" or machine not in MACHINES:
        raise HostCannotIsolateError(
            f"boxes need Linux on {' or '.join(MACHINES)}, and this is {system} on {machine}", "Use another host."
        )


def require_program(path: str, mend: str) -> None:
    if not os.access(path, os.X_OK):
        raise HostCannotIsolateError(f"there is no {path}", mend)


def prove(backend: Backend) -> None:
    """Start a small box and try to break its limits. Raises HostCannotIsolateError."""
    try:
        require_echo(try_out(backend, ["/bin/sh", "-c", "echo isolated"]))
    except BoxStartError as error:
        raise HostCannotIsolateError(f"a box does not start ({error})", mend_namespaces()) from error
    if not backend.weaker:
        require_memory_limit(lambda: try_out(backend, [layout.PYTHON, "-c", _TAKE_MEMORY]))
        require_process_limit(try_out(backend, [layout.PYTHON, "-c", _TAKE_PROCESSES]))


def try_out(backend: Backend, command: list[str]) -> Completed:
    box = backend.start(BoxSpec(limits=PROBE_LIMITS, label="preflight"))
    try:
        return box.run(command, timeout=_PROBE_SECONDS)
    finally:
        box.stop()


def require_echo(done: Completed) -> None:
    if done.output != b"isolated\n":
        raise HostCannotIsolateError(
            f"a box runs no commands ({done.output.decode('utf-8', 'replace')})", mend_namespaces()
        )


def require_memory_limit(take: Callable[[], Completed]) -> None:
    try:
        end = take().end
    except BoxDeadError:
        end = End.OUT_OF_MEMORY  # a kernel without the counter, but with the limit
    if end is not End.OUT_OF_MEMORY:
        raise HostCannotIsolateError("the memory limit of a control group does not take effect", _MEND_CGROUP)


def require_process_limit(done: Completed) -> None:
    if not done.output.strip().isdigit() or int(done.output) > PROBE_LIMITS.pids:
        raise HostCannotIsolateError("the process limit of a control group does not take effect", _MEND_CGROUP)


def mend_namespaces(settings: dict[str, tuple[str, str]] = _USER_NAMESPACES) -> str:
    """What to set so that user namespaces work, as far as the kernel's settings tell."""
    advice = [
        mend for path, (bad, mend) in settings.items() if Path(path).exists() and Path(path).read_text().strip() == bad
    ]
    return f"Allow user namespaces: {'; '.join(advice)}." if advice else _MEND_CONTAINER
