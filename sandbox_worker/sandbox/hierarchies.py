"""Finds where this process may make control groups, by trying."""

import os
from pathlib import Path

from sandbox_worker.sandbox.cgroups import TOP, CgroupTree, delegate, pids_in, read, write

CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
NEEDED = {"memory", "pids"}
_WORKERS = "assay-worker"


def find_tree() -> CgroupTree | None:
    """None where no group with limits of memory and processes can be made."""
    return find_v1() or find_v2()


def find_v1() -> CgroupTree | None:
    own = own_groups()
    by_controller = {}
    for controller, mount in v1_mounts().items():
        if top := first_writable(mount, mount / own.get(controller, "").lstrip("/")):
            by_controller[controller] = top
    return CgroupTree(1, by_controller) if NEEDED.issubset(by_controller) else None


def find_v2() -> CgroupTree | None:
    for mount in v2_mounts():
        for folder in dict.fromkeys((mount, mount / own_groups().get("", "").lstrip("/"))):
            if can_delegate(folder) and first_writable(folder):
                return CgroupTree(2, dict.fromkeys(("memory", "pids", "cpu"), folder))
    return None


def first_writable(*folders: Path) -> Path | None:
    for folder in folders:
        try:
            (folder / TOP).mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(folder / TOP, os.W_OK):
            return folder
    return None


def can_delegate(folder: Path) -> bool:
    """Hand the controllers down, first moving the processes of this group into one beside the boxes.

    Version 2 gives no limits below a group that holds processes itself.
    """
    try:
        if not NEEDED.issubset(read(folder / "cgroup.controllers").split()):
            return False
        if NEEDED.issubset(read(folder / "cgroup.subtree_control").split()):
            return True
        if (folder / "cgroup.type").exists() and pids_in(folder):
            make_room(folder)
        delegate(folder)
    except OSError:
        return False
    return True


def make_room(folder: Path) -> None:
    """Only ever in a group that this process is in: its scope, its service or its container."""
    if os.getpid() not in pids_in(folder):
        return
    (folder / _WORKERS).mkdir(exist_ok=True)
    for pid in pids_in(folder):
        write(folder / _WORKERS / "cgroup.procs", pid)


def v1_mounts() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for kind, mount, options in cgroup_mounts():
        if kind == "cgroup":
            found |= {name: mount for name in CONTROLLERS if name in options}
    return found


def v2_mounts() -> list[Path]:
    return [mount for kind, mount, _ in cgroup_mounts() if kind == "cgroup2"]


def cgroup_mounts() -> list[tuple[str, Path, list[str]]]:
    """Type, place and options of the file system."""
    found = []
    for line in read(Path("/proc/self/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            found.append((kind, Path(before.split()[4]), options.split(",")))
    return found


def own_groups() -> dict[str, str]:
    return groups_of(os.getpid())


def groups_of(pid: int) -> dict[str, str]:
    """A process's group by controller; version 2 under the empty name."""
    found: dict[str, str] = {}
    for line in read(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, names, group = line.split(":", 2)
        found |= dict.fromkeys(names.split(","), group)
    return found
