"""The contract of a box: few methods, typed endings, one conformance suite for every back end.

A box is leased to one attempt, never shared, and never used again once dirty.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal


class End(StrEnum):
    """How a command ended, or why there is no telling."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    PID_LIMIT = "pid_limit"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    SANDBOX_DEAD = "sandbox_dead"
    INFRA = "infra"


class SandboxError(Exception):
    """The box broke, not the agent's command."""

    end = End.INFRA
    """How a command ended whose run() raised this."""


class HostCannotIsolateError(SandboxError):
    """The host lacks what a safe box needs; says what is missing and how to mend it."""

    def __init__(self, missing: str, mend: str) -> None:
        super().__init__(f"This host cannot isolate: {missing}. {mend}")
        self.missing = missing
        self.mend = mend


class BoxStartError(SandboxError):
    """The box did not start."""


class NoRoomError(BoxStartError):
    """There is no room for one box more: of its worker, or of its host. Where another stops, there is."""


class BoxDeadError(SandboxError):
    """The box is gone: its supervisor does not answer."""

    end = End.SANDBOX_DEAD


class BoxKilledError(BoxDeadError):
    """The box is gone, for kill() or stop() was called."""

    end = End.CANCELLED


class BoxSpentError(BoxDeadError):
    """The box is gone, and what its commands or its files took did it: no time or no memory was left to serve it."""

    def __init__(self, why: str, end: End = End.TIMED_OUT) -> None:
        super().__init__(why)
        self.end = end


class CommandRefusedError(SandboxError):
    """A command that cannot be started as asked, though the box is well: an unknown user, a folder that is not there.

    Its words begin with what is wrong: timeout, user, folder, shell, session."""


class SessionClosedError(SandboxError):
    """The session has ended; another can be opened."""


class BoxFileError(SandboxError):
    """A file of the box cannot be read or written as asked: absent, no regular file, too large, no space."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class MissingFileError(BoxFileError):
    """There is no file of this name."""


class LimitError(ValueError):
    """A quota that no box can have; names it."""


_LEAST = {"cpus": 0.01, "memory_bytes": 2**24, "pids": 1, "disk_bytes": 2**16, "output_bytes": 2, "wall_seconds": 1.0}


@dataclass(frozen=True)
class Limits:
    """Quotas of one box, all enforced from outside its commands. Raises LimitError."""

    cpus: float = 1.0
    memory_bytes: int = 256 * 2**20
    pids: int = 64
    disk_bytes: int = 32 * 2**20
    """Of the working folder; /tmp and /logs have as much each, all charged to the memory too."""
    output_bytes: int = 64 * 2**10
    """Kept of one command's output: head and tail."""
    printed_bytes: int = 4 * 2**30
    """Most that one command may print: what prints more is ended."""
    wall_seconds: float = 6 * 3600.0
    """From its start the box lives no longer, whatever its worker does."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not least <= value < float("inf"):
                raise LimitError(f"{name} of a box must be at least {least:g}, not {value!r}.")
        if not self.output_bytes <= self.printed_bytes < float("inf"):
            raise LimitError(f"printed_bytes of a box must be at least its output_bytes, not {self.printed_bytes!r}.")


@dataclass(frozen=True)
class BoxSpec:
    """What to start."""

    limits: Limits = field(default_factory=Limits)
    workdir: str = "/app"
    env: tuple[tuple[str, str], ...] = ()
    label: str = ""
    """'<run>.<rollout>.<attempt>': found again by the reaper."""
    allowed_hosts: tuple[str, ...] = ()
    """Patterns of hosts that its commands reach through a filtering proxy; none: no network at all."""
    image: str = ""
    """'sha256:…' of an image whose files are its root; empty: the host's programs. The working folder begins empty."""

    @property
    def kind(self) -> "BoxSpec":
        """Boxes of one kind are the same until they are given out."""
        return replace(self, env=(), label="")


@dataclass(frozen=True)
class Completed:
    """What a command did."""

    end: End
    exit_code: int
    """Its own, or 128 + the signal that ended it; 124 where its time was up or it was cancelled; 137 out of memory."""
    output: bytes
    """stdout and stderr as they came, at most the cap: its head and its tail."""
    output_bytes: int
    """True count, also of what was not kept."""
    seconds: float
    finished: bool = True
    """It ended by itself, with an exit code of its own: also one that had hit a limit on the way."""
    full: str = ""
    """The folder in which nothing more could be written."""

    @property
    def truncated(self) -> bool:
        return self.output_bytes > len(self.output)


@dataclass(frozen=True)
class Usage:
    """What a box has used, read from outside."""

    cpu_seconds: float
    memory_peak_bytes: int
    pids_peak: int
    disk_bytes: int = 0
    """In the folders with a quota, the most that was seen after a command."""


@dataclass(frozen=True)
class Said:
    """What one command in a session did."""

    completed: Completed
    closed: bool
    """Its shell has ended, with this exit code."""
    waiting: bool
    """Its time was up while it waited for input."""


class Session(ABC):
    """A shell that keeps its folder, variables, functions and jobs from one command to the next.

    Its commands have a terminal for their input and a pipe for their output, which comes as it was written."""

    @abstractmethod
    def run(self, text: str, *, timeout: float, stdin: bytes = b"") -> Said:
        """What is over time is interrupted; if that does not end it, its jobs are killed; in the end, its shell.

        Raises SessionClosedError, BoxDeadError."""

    @abstractmethod
    def close(self) -> None:
        """Kill it and all its jobs. Idempotent."""


class Box(ABC):
    """One running box. Thread-safe for one caller at a time, but kill() and stop() may come from another thread."""

    name: str = ""
    """What its host calls it: its control group, or its container."""
    spent: Literal["", "time", "memory"] = ""
    """What its commands took so much of that the box died of it: whatever is asked of it now raises BoxSpentError."""

    @abstractmethod
    def run(
        self,
        command: list[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
        cwd: str = "",
        user: str = "",
    ) -> Completed:
        """Run a command and leave nothing of it behind: when it ends, its whole tree is dead.

        cwd: absolute, or below the working folder. user: one of the box; empty for its own.
        Raises CommandRefusedError, BoxDeadError."""

    @abstractmethod
    def cancel(self) -> None:
        """From another thread: the command that runs now ends as cancelled, its whole tree dead; the box lives on."""

    @abstractmethod
    def open_session(self) -> Session:
        """At most one at a time, and no run() beside it. Raises CommandRefusedError, BoxDeadError."""

    @abstractmethod
    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a regular file, making its folders. Raises BoxFileError, BoxDeadError."""

    @abstractmethod
    def read(self, path: str, *, limit: int) -> bytes:
        """Read a regular file of at most limit bytes; links and special files are refused.

        Raises MissingFileError, BoxFileError, BoxDeadError."""

    @abstractmethod
    def snapshot(self, *, limit: int, folder: str = "") -> bytes:
        """A folder (the working folder) as a tar of folders, regular files and their modes, nothing else.

        Links are left out, also those that an image's folder began with: only the box itself has ever seen them. Files
        count by whole pages and at their full length, so that what is taken up fits into a box of that quota.
        Raises BoxFileError where they are more than limit bytes, BoxDeadError."""

    @abstractmethod
    def restore(self, content: bytes, *, folder: str = "", links: bool = False) -> None:
        """Make a folder (the working folder) hold such a tar and nothing else.

        links: of an image's own folder, whose symbolic links are kept; elsewhere links are refused.
        Raises BoxFileError, BoxDeadError."""

    @abstractmethod
    def usage(self) -> Usage:
        """Peaks since the start."""

    @abstractmethod
    def give(self, *, env: tuple[tuple[str, str], ...], label: str) -> None:
        """Of a box that has done nothing yet: whose it is from now on, and its commands' environment."""

    def is_dead(self) -> bool:
        """Certainly dead, as far as a look tells: nothing is asked of it, so that it takes far less than 1 ms."""
        return bool(self.spent)

    @abstractmethod
    def kill(self) -> None:
        """Kill every process of the box now; run() in another thread raises BoxKilledError."""

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
        """Raises BoxStartError; NoRoomError where fewer boxes would let it start."""

    @abstractmethod
    def reap(self) -> int:
        """Remove what dead workers left on this host (processes, cgroups, folders); the number of boxes removed."""

    @abstractmethod
    def close(self) -> None:
        """Stop every box that this back end started."""
