"""Who owns a cgroup: a worker process, named so that another process can tell whether it still lives."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """A process by pid, the clock ticks at which it started, and the pid namespace in which both are true."""

    pid: int
    ticks: int
    namespace: int

    @classmethod
    def this_process(cls) -> "Owner":
        ticks = started_at(os.getpid())
        if ticks is None:
            raise OSError("/proc is not that of this process.")
        return cls(os.getpid(), ticks, own_namespace())

    @classmethod
    def parse(cls, name: str) -> "Owner | None":
        parts = name.split("-")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            return None
        return cls(*(int(part) for part in parts))

    @property
    def name(self) -> str:
        return f"{self.pid}-{self.ticks}-{self.namespace}"

    def is_dead(self) -> bool:
        """Certainly dead; false where another pid namespace hides it."""
        return not self.is_hidden() and started_at(self.pid) != self.ticks

    def is_hidden(self) -> bool:
        """Whether it lives cannot be told from this pid namespace."""
        return self.namespace != own_namespace()


def own_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def started_at(pid: int) -> int | None:
    """Ticks since boot at which a process started; None if there is none."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = line.rpartition(")")[2].split()
    return None if state in "ZX" else int(rest[18])
