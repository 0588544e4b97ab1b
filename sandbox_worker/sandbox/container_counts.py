"""What the kernel counts for a container, read from the control groups that the Docker Engine made for it."""

from pathlib import Path

from sandbox_worker.sandbox.cgroups import Cgroup, CgroupV1, CgroupV2
from sandbox_worker.sandbox.hierarchies import groups_of, v1_mounts, v2_mounts


def cgroup_of(pid: int) -> Cgroup | None:
    """Of the container whose first process that is; None where the host does not show it."""
    own = groups_of(pid)
    by_controller = {name: mount / own.get(name, "").lstrip("/") for name, mount in v1_mounts().items()}
    if all(is_there(by_controller.get(name), "cgroup.procs") for name in ("memory", "pids")):
        return CgroupV1(by_controller)
    for mount in v2_mounts():
        if is_there(folder := mount / own.get("", "").lstrip("/"), "memory.events"):
            return CgroupV2(folder)
    return None


def is_there(folder: Path | None, name: str) -> bool:
    return folder is not None and (folder / name).exists()
