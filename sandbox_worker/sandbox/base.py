"""The contract of a box: few methods, typed endings, one conformance suite for every back end.

A box is leased to one attempt, never shared, and never used again once dirty.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class SandboxError(Exception):
    """The box broke, not the agent's command."""


class HostCannotIsolateError(SandboxError):
    """The host lacks what a safe box needs; says what is missing and how to mend it."""

    def __init__(self, missing: str, mend: str) -> None:
        super().__init__(f"This host cannot isolate: {missing}. {mend}")
        self.missing = missing
        self.mend = mend


class BoxStartError(SandboxError):
    """The box did not start."""


class BoxDeadError(SandboxError):
    """The box is gone: its supervisor does not answer."""


class BoxSpentError(BoxDeadError):
    """The box is gone, and what its commands or its files took did it: no time or no memory was left to serve it."""


class BoxFileError(SandboxError):
    """A file of the box cannot be read or written as asked: absent, no regular file, too large, no space."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class MissingFileError(BoxFileError):
    """There is no file of this name."""


class End(StrEnum):
    """How a command ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"


@dataclass(frozen=True)
class Limits:
    """Quotas of one box, all enforced from outside it."""

    cpus: float = 1.0
    memory_bytes: int = 256 * 2**20
    pids: int = 64
    disk_bytes: int = 32 * 2**20
    """Of the working folder; /tmp and /logs have as much each, all charged to the memory too."""
    output_bytes: int = 64 * 2**10
    """Kept of one command's output: head and tail."""


@dataclass(frozen=True)
class BoxSpec:
    """What to start."""

    limits: Limits = field(default_factory=Limits)
    workdir: str = "/app"
    env: tuple[tuple[str, str], ...] = ()
    label: str = ""
    """'<run>.<rollout>.<attempt>': found again by the reaper."""


@dataclass(frozen=True)
class Completed:
    """What a command did."""

    end: End
    exit_code: int
    """128 + signal where a signal ended it; 124 on a time-out; 137 out of memory."""
    output: bytes
    """stdout and stderr as they came, at most the cap: its head and its tail."""
    output_bytes: int
    """True count, also of what was not kept."""
    seconds: float

    @property
    def truncated(self) -> bool:
        return self.output_bytes > len(self.output)


@dataclass(frozen=True)
class Usage:
    """What a box has used, read from outside."""

    cpu_seconds: float
    memory_peak_bytes: int
    pids_peak: int


class Box(ABC):
    """One running box. Thread-safe for one caller at a time, but kill() and stop() may come from another thread."""

    spent: Literal["", "time", "memory"] = ""
    """What its commands took so much of that the box died of it: whatever is asked of it now raises BoxSpentError."""

    @abstractmethod
    def run(
        self, command: list[str], *, timeout: float, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> Completed:
        """Run a command in the working folder and leave nothing of it behind: when it ends, its whole tree is dead.

        Raises BoxDeadError."""

    @abstractmethod
    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a regular file, making its folders. Raises BoxFileError, BoxDeadError."""

    @abstractmethod
    def read(self, path: str, *, limit: int) -> bytes:
        """Read a regular file of at most limit bytes; links and special files are refused.

        Raises MissingFileError, BoxFileError, BoxDeadError."""

    @abstractmethod
    def snapshot(self, *, limit: int) -> bytes:
        """The working folder as a tar of folders, regular files and their modes, nothing else: at most limit bytes.

        Files count by whole pages and at their full length, so that what is taken up fits into a box of that quota.
        Raises BoxFileError, BoxDeadError."""

    @abstractmethod
    def restore(self, archive: bytes) -> None:
        """Unpack such a tar into the working folder."""

    @abstractmethod
    def usage(self) -> Usage:
        """Peaks since the start."""

    @abstractmethod
    def kill(self) -> None:
        """Kill every process of the box now; run() in another thread raises BoxDeadError."""

    @abstractmethod
    def stop(self) -> None:
        """Kill, verify that nothing is left, clean up. Idempotent."""


class Backend(ABC):
    """A way to make boxes on this host."""

    isolation: str
    """In words, for the fleet page."""
    weaker: str
    """Why this is weaker than the default; empty if it is not."""

    @abstractmethod
    def start(self, spec: BoxSpec) -> Box:
        """Raises BoxStartError."""

    @abstractmethod
    def reap(self) -> int:
        """Remove what dead workers left on this host (processes, cgroups, folders); the number of boxes removed."""

    @abstractmethod
    def close(self) -> None:
        """Stop every box that this back end started."""
