"""What is left of an arm whose process was killed at work, after one cycle of its reaper."""

import os
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import NotFound

from benchmarks.boxes import host
from benchmarks.boxes.child import ArmFailedError, Child
from benchmarks.boxes.scenarios import Batch

SECONDS = 180.0
GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class EngineSide:
    """Where the containers are."""

    client: docker.DockerClient
    url: str
    folder: str
    """Every process of it has this in its command line."""


def after_a_kill(child: Child, engine: EngineSide | None, count: int) -> Batch:
    """The child is started anew, so that all it has is its own. Raises ArmFailedError."""
    child.close()
    before = things(child, engine, marker := f"assay-benchmark-{uuid.uuid4().hex}")
    batch = child.ask("hold", count=count, marker=marker, seconds=SECONDS)
    held = things(child, engine, marker)
    if not held["processes"] - before["processes"]:
        raise ArmFailedError("it held no box that could be left")
    child.kill()
    child.ask("reap", seconds=SECONDS)
    time.sleep(GRACE_SECONDS)
    for kind, still_there in CHECKS.items():
        left = [thing for thing in held[kind] - before[kind] if still_there(thing)]
        batch.samples[f"left of a killed process: {kind}"] = [float(len(left))]
    left_containers = (held["containers"] - before["containers"]) & containers(engine)
    batch.samples["left of a killed process: containers"] = [float(len(left_containers))]
    child.close()
    host.kill_all_with(marker)
    clean(child, engine)
    return batch


def things(child: Child, engine: EngineSide | None, marker: str) -> dict[str, set[str]]:
    """By kind, what is this arm's now; of the Engine what is any arm's."""
    found = containers(engine)
    processes = {*host.descendants(child.pid), *host.processes_with(marker)} if child.pid else set()
    if engine:
        processes.update(host.processes_with(engine.folder))
    folders = (f"{child.temporary}/", *([f"{engine.folder}/"] if engine else []))
    return {
        "processes": {str(pid) for pid in processes},
        "control groups": {group for group in groups() if group_is_of(group, child.pid, found)},
        "mounts": {mount for mount in mounts() if mount.startswith(folders)},
        "containers": found,
        "folders": {str(path) for path in child.temporary.glob("*")},
    }


def group_is_of(group: str, pid: int, ids: set[str]) -> bool:
    """A worker's groups are named after its process, a container's after its id."""
    return (pid > 0 and f"/assay/{pid}-" in group) or group.rpartition("/")[2] in ids


def groups() -> list[str]:
    """Without those that end meanwhile: others on this host have boxes, too."""
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup")]


def mounts() -> set[str]:
    return {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}


def containers(engine: EngineSide | None) -> set[str]:
    return {str(container["Id"]) for container in engine.client.api.containers(all=True)} if engine else set()


CHECKS: dict[str, Callable[[str], bool]] = {
    "processes": lambda pid: host.is_alive(int(pid)),
    "control groups": lambda group: Path(group).exists(),
    "mounts": lambda mount: mount in mounts(),
    "folders": lambda folder: Path(folder).exists(),
}


def clean(child: Child, engine: EngineSide | None) -> None:
    """Whatever this arm left behind."""
    if engine:
        label = f"assay-benchmark={child.spec.slug}"
        for container in engine.client.containers.list(all=True, filters={"label": label}):
            try:
                container.remove(force=True, v=True)
            except NotFound:
                continue  # the arm was still at it
    shutil.rmtree(child.temporary, ignore_errors=True)
