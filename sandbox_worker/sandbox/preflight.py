"""Proves, by probes and not by version numbers, that this host can isolate; each miss says how to mend it."""

import os
import platform
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import Backend, BoxStartError, HostCannotIsolateError
from sandbox_worker.sandbox.binary import find_bubblewrap
from sandbox_worker.sandbox.bubblewrap import Host
from sandbox_worker.sandbox.cgroups import CgroupTree
from sandbox_worker.sandbox.delegation import Place, mend_groups, or_weaker
from sandbox_worker.sandbox.findings import DOCKER, Finding, State, UnprovedError, worst
from sandbox_worker.sandbox.hierarchies import find_tree
from sandbox_worker.sandbox.probes import LIMITED, STARTS, Probe, Seen
from sandbox_worker.sandbox.seccomp import MACHINES

AT_ONCE = 4
"""Probes; most of their time is waiting."""
NO_CGROUP = "no control group can be made, so nothing bounds the memory and the processes of a box from outside"
NO_CPU = "the control groups have no cpu controller, so nothing bounds how much of the processors a box takes"
MEND_CPU = "Hand the cpu controller down to the groups of the worker, or mount it where there is none."
_USER_NAMESPACES = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile with userns",
    ),
}
_MEND_CONTAINER = "In a container, run the worker privileged, or with user namespaces, proc and cgroups unmasked."
_MEND_IMAGE = "Name an image of this host that has Python 3 (ASSAY_DOCKER_IMAGE), or look into the Engine's log."
_MEND_ENGINE = "Let the Engine limit its containers: `docker info` warns of what its control groups lack."
_MEND_BOX = "Do not run boxes here; tell the authors of Assay what this row says."


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
    weaker = weakness(tree)
    if weaker and not allow_weaker:
        raise HostCannotIsolateError(weaker, or_weaker(mend_groups(Place.here()) if tree is None else MEND_CPU))
    return Host(find_bubblewrap(search_path), tree, own_uids=is_root, weaker=weaker)


def weakness(tree: CgroupTree | None) -> str:
    """Why boxes with these control groups are weaker; empty if they are not."""
    if tree is None:
        return NO_CGROUP
    return "" if "cpu" in tree.by_controller else NO_CPU


def require_machine(system: str, machine: str) -> None:
    if system != "linux" or machine not in MACHINES:
        raise HostCannotIsolateError(
            f"boxes need Linux on {' or '.join(MACHINES)}, and this is {system} on {machine}", "Use another host."
        )


def require_program(path: str, mend: str) -> None:
    if not os.access(path, os.X_OK):
        raise HostCannotIsolateError(f"there is no {path}", mend)


def prove(backend: Backend, about: str) -> tuple[Finding, ...]:
    """Try to break the limits of small boxes: a row for each. Raises UnprovedError where one does not hold.

    about: the back end's name."""
    findings = tried(backend, about)
    if worst(findings) is State.MISSING:
        raise UnprovedError(findings)
    return findings


def tried(backend: Backend, about: str, probes: tuple[Probe, ...] = LIMITED) -> tuple[Finding, ...]:
    """Raises nothing: that a probe broke is found of it, too. Where no box starts, nothing else is tried."""
    start = confirmed(backend, about, STARTS, probed(backend, about, STARTS))
    if start.state is State.MISSING:
        return (start,)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="probe") as pool:
        rows = tuple(pool.map(lambda probe: probed(backend, about, probe), probes))
    return (start, *(confirmed(backend, about, *pair) for pair in zip(probes, rows, strict=True)))


def confirmed(backend: Backend, about: str, probe: Probe, row: Finding) -> Finding:
    """A busy host may starve a probe, and who is refused is not started again: a miss is tried once more, alone."""
    return probed(backend, about, probe) if row.state is State.MISSING else row


def probed(backend: Backend, about: str, probe: Probe) -> Finding:
    seen = look(backend, probe)
    if seen.holds:
        return Finding(about, probe.name, State.OK, seen.found)
    if probe.by_group and backend.weaker:
        return Finding(about, probe.name, State.WEAKER, seen.found, mend_groups(Place.here()))
    return Finding(about, probe.name, State.MISSING, seen.found, mend_of(about, probe))


def look(backend: Backend, probe: Probe) -> Seen:
    try:
        box = backend.start(probe.spec)
        try:
            return probe.look(box)
        finally:
            box.stop()
    except BoxStartError as error:
        return Seen(False, f"a box does not start ({error})")
    except Exception as error:  # noqa: BLE001 (whatever it is, the row tells of it, and the others are tried)
        return Seen(False, f"{probe.name} could not be tried ({type(error).__name__}: {error})")


def mend_of(about: str, probe: Probe) -> str:
    """Docker's daemon makes namespaces and groups by itself, and as root."""
    if probe is STARTS:
        return _MEND_IMAGE if about == DOCKER else mend_namespaces()
    if probe.by_group:
        return _MEND_ENGINE if about == DOCKER else mend_groups(Place.here())
    return _MEND_BOX


def mend_namespaces(settings: dict[str, tuple[str, str]] = _USER_NAMESPACES) -> str:
    """What to set so that user namespaces work, as far as the kernel's settings tell."""
    advice = switches_off(settings)
    return f"Allow user namespaces: {'; '.join(advice)}." if advice else _MEND_CONTAINER


def switches_off(settings: dict[str, tuple[str, str]] = _USER_NAMESPACES) -> list[str]:
    """How to turn on again what the kernel's settings have turned off."""
    return [
        mend for path, (bad, mend) in settings.items() if Path(path).exists() and Path(path).read_text().strip() == bad
    ]
