"""Finds where this process may make control groups, by trying."""

import logging
import os
from pathlib import Path

from sandbox_worker.sandbox.cgroups import TOP, CgroupTree, delegate, pids_in, read, write

log = logging.getLogger(__name__)

CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
NEEDED = {"memory", "pids"}
"""Without them there are no groups for boxes; without cpu, they are weaker."""
WANTED = NEEDED | {"cpu"}
_WORKERS = "assay-worker"


def find_tree() -> CgroupTree | None:
    """None where no group with limits of memory and processes can be made."""
    own = own_groups()
    return find_v1(v1_mounts(), own) or find_v2(v2_mounts(), own)


def find_v1(mounts: dict[str, Path], own: dict[str, str]) -> CgroupTree | None:
    """At the top for root; for a user in the folder that was given to it, or in the group of this process."""
    by_controller = {}
    for controller, mount in mounts.items():
        if top := first_writable(*v1_places(mount, own.get(controller, ""))):
            by_controller[controller] = top
    return CgroupTree(1, by_controller) if NEEDED.issubset(by_controller) else None


def find_v2(mounts: list[Path], own: dict[str, str]) -> CgroupTree | None:
    for mount in mounts:
        for folder in v2_places(mount, own.get("", "")):
            if can_delegate(folder) and first_writable(folder):
                return CgroupTree(2, dict.fromkeys(WANTED & handed_down(folder), folder))
    return None


def present_trees() -> list[CgroupTree]:
    """Where workers have made groups; nothing is made or changed to find them."""
    own = own_groups()
    found = [present_v1(v1_mounts(), own)]
    found += [CgroupTree(2, dict.fromkeys(WANTED, place)) for place in present_v2(v2_mounts(), own)]
    return [tree for tree in found if tree]


def present_v1(mounts: dict[str, Path], own: dict[str, str]) -> CgroupTree | None:
    by_controller: dict[str, Path] = {}
    for controller, mount in mounts.items():
        for place in v1_places(mount, own.get(controller, "")):
            if (place / TOP).is_dir():
                by_controller.setdefault(controller, place)
    return CgroupTree(1, by_controller) if NEEDED.issubset(by_controller) else None


def present_v2(mounts: list[Path], own: dict[str, str]) -> list[Path]:
    return [place for mount in mounts for place in v2_places(mount, own.get("", "")) if (place / TOP).is_dir()]


def v1_places(mount: Path, own: str) -> tuple[Path, ...]:
    return (mount, user_folder(mount, os.geteuid()), mount / own.lstrip("/"))


def v2_places(mount: Path, own: str) -> list[Path]:
    return list(dict.fromkeys((mount, mount / own.lstrip("/"))))


def user_folder(mount: Path, uid: int) -> Path:
    """Where a user who is not root is given groups of its own."""
    return mount / f"{TOP}-user-{uid}"


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
        wanted = WANTED.intersection(read(folder / "cgroup.controllers").split())
        if NEEDED.issubset(wanted) and not wanted.issubset(handed_down(folder)):
            if (folder / "cgroup.type").exists() and pids_in(folder):
                make_room(folder)
            delegate(folder)
    except OSError:
        log.info("the controllers of %s cannot be handed down", folder, exc_info=True)
    return NEEDED.issubset(handed_down(folder))


def handed_down(folder: Path) -> set[str]:
    """The controllers that groups below a folder of version 2 have."""
    try:
        return set(read(folder / "cgroup.subtree_control").split())
    except OSError:
        return set()


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
