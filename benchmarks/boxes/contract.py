"""What an arm of the benchmark of boxes can do. Standard library only: peers run it under interpreters of their own."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

CPUS = 1.0
MEMORY_BYTES = 256 * 2**20
PIDS = 64
DISK_BYTES = 32 * 2**20
"""The same for every arm that can take them; none has a network but the one that its own server needs."""


@dataclass(frozen=True)
class Done:
    """A command that ended by itself, or that the arm ended."""

    exit_code: int
    output_bytes: int
    """As the arm tells its caller: the true count, or the length of what it gave back."""
    timed_out: bool = False


class Box(ABC):
    """One running box, for one caller at a time."""

    @abstractmethod
    def run(self, script: str, *, seconds: float) -> Done:
        """A bash script in a process of its own. Raises what the arm raises."""

    def run_true(self) -> Done:
        """The smallest command, without a shell where the arm can."""
        return self.run("true", seconds=30)

    def prepare_limit(self) -> None:
        """What run_limited() needs once a box."""
        return

    def run_limited(self, script: str, *, seconds: float) -> Done:
        """With the time limit that the arm advises: the same as run() where that has one."""
        return self.run(script, seconds=seconds)

    def open_session(self) -> None:
        """Raises NotImplementedError where the arm has no shell sessions."""
        raise NotImplementedError

    def run_true_in_session(self) -> Done:
        raise NotImplementedError

    @abstractmethod
    def stop(self) -> None: ...


class Arm(ABC):
    @abstractmethod
    def start(self) -> Box:
        """Return when the box takes commands. Called from many threads."""

    def settle(self, at_once: int) -> None:
        """Wait until so many starts would find what a rested arm has ready for them, such as boxes that wait."""
        return

    def reap(self) -> None:
        """One cycle of whatever removes what a killed process left."""
        return

    @abstractmethod
    def close(self) -> None: ...
