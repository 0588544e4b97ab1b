"""Control groups, version 1 and 2: one for each box, below one for each worker, below `assay`."""

import errno
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox_worker.sandbox.base import Limits, SandboxError, Usage
from sandbox_worker.sandbox.owner import Owner

TOP = "assay"
OVERHEAD_PIDS = 2
"""bubblewrap and the supervisor, which the command must not have to share its limit with."""
_PERIOD_US = 100_000
_KILL_SECONDS = 10.0


class CgroupError(SandboxError):
    """The kernel refused, or something in the group would not die."""


class Cgroup(ABC):
    """Of one box."""

    @property
    @abstractmethod
    def folders(self) -> tuple[Path, ...]:
        """The same group in each hierarchy."""

    @abstractmethod
    def limit(self, limits: Limits) -> None: ...

    @abstractmethod
    def oom_kills(self) -> int: ...

    @abstractmethod
    def pid_refusals(self) -> int:
        """How often the limit of processes stopped one from starting."""

    @abstractmethod
    def usage(self) -> Usage: ...

    @abstractmethod
    def forbid_forks(self) -> None: ...

    def join_files(self) -> list[str]:
        """A process that writes 0 to each is in the group."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def pids(self) -> set[int]:
        found: set[int] = set()
        for folder in self.folders:
            found |= pids_in(folder)
        return found

    def kill(self) -> None:
        """Kill everything in it and wait until it is empty. Raises CgroupError."""
        self.forbid_forks()
        deadline = time.monotonic() + _KILL_SECONDS
        while pids := self.pids():
            for pid in pids:
                self._kill_member(pid)
            if time.monotonic() > deadline:
                raise CgroupError(f"Processes {sorted(pids)} will not die.")
            time.sleep(0.001)

    def remove(self) -> None:
        """Raises CgroupError if something is still in it."""
        for folder in self.folders:
            remove_folder(folder)

    def _kill_member(self, pid: int) -> None:
        """By descriptor, and only while it is a member, for a pid may be another's by now."""
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            if pid in self.pids():
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            os.close(pidfd)


class CgroupV1(Cgroup):
    def __init__(self, by_controller: dict[str, Path]) -> None:
        self._by_controller = by_controller

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self._by_controller.values()))

    def limit(self, limits: Limits) -> None:
        memory, pids = self._by_controller["memory"], self._by_controller["pids"]
        write(memory / "memory.limit_in_bytes", limits.memory_bytes)
        if (memory / "memory.memsw.limit_in_bytes").exists():
            write(memory / "memory.memsw.limit_in_bytes", limits.memory_bytes)
        write(memory / "memory.swappiness", 0)
        write(pids / "pids.max", limits.pids + OVERHEAD_PIDS)
        if cpu := self._by_controller.get("cpu"):
            write(cpu / "cpu.cfs_period_us", _PERIOD_US)
            write(cpu / "cpu.cfs_quota_us", max(int(limits.cpus * _PERIOD_US), 1000))

    def oom_kills(self) -> int:
        return counters(self._by_controller["memory"] / "memory.oom_control")["oom_kill"]

    def pid_refusals(self) -> int:
        return counters(self._by_controller["pids"] / "pids.events").get("max", 0)

    def usage(self) -> Usage:
        cpu = self._by_controller.get("cpuacct")
        return Usage(
            cpu_seconds=first_number(cpu, "cpuacct.usage") / 1e9 if cpu else 0.0,
            memory_peak_bytes=first_number(self._by_controller["memory"], "memory.max_usage_in_bytes"),
            pids_peak=first_number(self._by_controller["pids"], "pids.peak", "pids.current"),
        )

    def forbid_forks(self) -> None:
        write_if_there(self._by_controller["pids"] / "pids.max", "0")


class CgroupV2(Cgroup):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self._folder,)

    def limit(self, limits: Limits) -> None:
        write(self._folder / "memory.max", limits.memory_bytes)
        if (self._folder / "memory.swap.max").exists():
            write(self._folder / "memory.swap.max", 0)
        write(self._folder / "pids.max", limits.pids + OVERHEAD_PIDS)
        if (self._folder / "cpu.max").exists():
            write(self._folder / "cpu.max", f"{max(int(limits.cpus * _PERIOD_US), 1000)} {_PERIOD_US}")

    def oom_kills(self) -> int:
        return counters(self._folder / "memory.events")["oom_kill"]

    def pid_refusals(self) -> int:
        return counters(self._folder / "pids.events").get("max", 0)

    def usage(self) -> Usage:
        return Usage(
            cpu_seconds=counters(self._folder / "cpu.stat").get("usage_usec", 0) / 1e6,
            memory_peak_bytes=first_number(self._folder, "memory.peak", "memory.current"),
            pids_peak=first_number(self._folder, "pids.peak", "pids.current"),
        )

    def forbid_forks(self) -> None:
        write_if_there(self._folder / "pids.max", "0")
        write_if_there(self._folder / "cgroup.kill", "1")


@dataclass(frozen=True)
class CgroupTree:
    """Where on this host the groups of boxes can be made."""

    version: int
    by_controller: dict[str, Path]
    """The folder above `assay` for each controller; version 2 has all in one."""

    def create(self, owner: Owner, name: str, limits: Limits) -> Cgroup:
        """A new group with its limits set. Raises CgroupError."""
        group = self._group({key: top / owner.name / name for key, top in self._tops().items()})
        try:
            for folder in group.folders:
                self._make_folder(folder)
            group.limit(limits)
        except OSError as error:
            for folder in group.folders:
                remove_folder(folder)
            raise CgroupError(f"The control group of a box cannot be made: {error}.") from error
        return group

    def owners(self) -> set[Owner]:
        found = (Owner.parse(name) for top in self._tops().values() for name in folders_in(top))
        return {owner for owner in found if owner}

    def groups_of(self, owner: Owner) -> Iterator[Cgroup]:
        names = {name for top in self._tops().values() for name in folders_in(top / owner.name)}
        for name in sorted(names):
            yield self._group({key: top / owner.name / name for key, top in self._tops().items()})

    def remove_owner(self, owner: Owner) -> None:
        """Once all its groups are removed. Raises CgroupError."""
        for top in self._tops().values():
            remove_folder(top / owner.name)

    def _tops(self) -> dict[str, Path]:
        return {key: folder / TOP for key, folder in self.by_controller.items()}

    def _group(self, folders: dict[str, Path]) -> Cgroup:
        return CgroupV2(folders["memory"]) if self.version == 2 else CgroupV1(folders)

    def _make_folder(self, folder: Path) -> None:
        """Two workers may make the upper folders at once, and a third may remove its own."""
        if self.version == 2:
            for above in (folder.parents[1], folder.parents[0]):
                above.mkdir(exist_ok=True)
                delegate(above)
        folder.mkdir(parents=True)


def delegate(folder: Path) -> None:
    """Let the groups below a folder of version 2 have limits."""
    wanted = [name for name in ("memory", "pids", "cpu") if name in read(folder / "cgroup.controllers").split()]
    write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in wanted))


def pids_in(folder: Path) -> set[int]:
    try:
        return {int(pid) for pid in read(folder / "cgroup.procs").split()}
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):  # removed before the opening, or after it
            return set()
        raise


def folders_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def remove_folder(folder: Path) -> None:
    """The kernel may call a group busy for a moment after its last process. Raises CgroupError."""
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise CgroupError(f"The control group {folder.name} cannot be removed: {error}.") from error
            time.sleep(0.002)


def read(path: Path) -> str:
    return path.read_text()


def write(path: Path, value: int | str) -> None:
    path.write_text(str(value))


def write_if_there(path: Path, value: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def first_number(folder: Path, *names: str) -> int:
    """Of the first file that this kernel has."""
    return next((int(read(folder / name)) for name in names if (folder / name).exists()), 0)


def counters(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in read(path).splitlines())}
