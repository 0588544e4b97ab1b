"""Working folders on their way from the agent's box to the fresh one: in memory, so only so many bytes at once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox_worker.attempt import Attempt

MOST_BYTES = 64 * 2**20
"""Of one folder, whatever a task's disk may hold."""
TOTAL_BYTES = 256 * 2**20
_LOOK_SECONDS = 1.0


class Load:
    """Room for one folder, and the folder once it is there."""

    def __init__(self, limit: int, give_back: Callable[[int], None]) -> None:
        self.limit = limit
        self.archive = b""
        self._give_back = give_back

    def put_down(self) -> None:
        """The folder is where it belongs, or nobody wants it: its room is free. Safe to call twice."""
        self._give_back(self.limit)
        self.limit, self.archive = 0, b""


class Carrying:
    """Shared by all attempts of a process."""

    def __init__(self, total: int = TOTAL_BYTES) -> None:
        self._left = total
        self._changed = threading.Condition()

    @contextmanager
    def load(self, disk_bytes: int, attempt: Attempt) -> Iterator[Load]:
        """Waits until there is room. Raises AttemptCancelledError, and BoundaryError past the attempt's deadline."""
        wanted = min(disk_bytes, MOST_BYTES)
        with self._changed:
            while self._left < wanted:
                self._changed.wait(_LOOK_SECONDS)
                attempt.check()
            self._left -= wanted
        load = Load(wanted, self._give_back)
        try:
            yield load
        finally:
            load.put_down()

    def _give_back(self, freed: int) -> None:
        with self._changed:
            self._left += freed
            self._changed.notify_all()
