"""At most so many boxes of a host start at once; the others queue, first come, first served.

The places are locked files, for all worker processes of the host: what dies lets go of its place.
"""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox_worker.sandbox.base import SandboxError
from sandbox_worker.sandbox.images import locks
from sandbox_worker.sandbox.timings import Timings

LOOK_AGAIN_SECONDS = 0.005
"""How often the first of a worker's queue looks whether another worker has let go of a place."""


class StartGivenUpError(SandboxError):
    """Nobody waits for this start any more, or its time to wait was up: nothing was started."""


class Ticket:
    """One start, from before it queues. Another thread may give it up."""

    def __init__(self, seconds: float = math.inf) -> None:
        """seconds: most that it may wait."""
        self._until = time.monotonic() + seconds
        self._given_up = False
        self._look = threading.Event()

    def give_up(self) -> None:
        """It leaves the queue at once. A start that has begun is finished all the same."""
        self._given_up = True
        self._look.set()

    def look(self) -> None:
        self._look.set()

    def wait(self, seconds: float) -> None:
        self._look.wait(max(0.0, min(seconds, self._until - time.monotonic(), threading.TIMEOUT_MAX)))
        self._look.clear()

    def check(self) -> None:
        """Raises StartGivenUpError."""
        if self._given_up:
            raise StartGivenUpError("The start was given up while it waited for its turn.")
        if time.monotonic() >= self._until:
            raise StartGivenUpError("The start waited for its turn until its time was up.")


class StartLimiter:
    """Of one process; together with those of the other processes that use the same folder."""

    def __init__(self, at_once: int, folder: Path | None = None) -> None:
        """folder: of the locks; None: the limit is this process's own."""
        self.at_once = at_once
        self._folder = folder
        self._lock = threading.Lock()
        self._queue: deque[Ticket] = deque()
        self._held = 0
        self._waits = Timings(time.monotonic())

    @contextmanager
    def turn(self, ticket: Ticket) -> Iterator[None]:
        """Wait for it. Raises StartGivenUpError."""
        began = time.monotonic()
        place = self._wait(ticket)
        self._waits.add(time.monotonic(), time.monotonic() - began)
        try:
            yield
        finally:
            self._let_go(place)

    @contextmanager
    def spare_turn(self) -> Iterator[bool]:
        """Without waiting, and only where nobody of this process waits: False where there is none."""
        with self._lock:
            place = None if self._queue else self._take()
        try:
            yield place is not None
        finally:
            if place is not None:
                self._let_go(place)

    def counters(self) -> dict[str, float]:
        with self._lock:
            queue, held = len(self._queue), self._held
        return {"starts_waiting": queue, "starts_now": held, **self._waits.milliseconds("start_wait")}

    def _wait(self, ticket: Ticket) -> int:
        with self._lock:
            self._queue.append(ticket)
        try:
            while True:
                ticket.check()
                with self._lock:
                    is_first = self._queue[0] is ticket
                    place = self._take() if is_first else None
                    here_all_taken = self._held >= self.at_once
                if place is not None:
                    return place
                ticket.wait(LOOK_AGAIN_SECONDS if is_first and not here_all_taken else math.inf)
        finally:
            with self._lock:
                self._queue.remove(ticket)
            self._call_first()

    def _take(self) -> int | None:
        """A descriptor that holds a place, or -1 for one that no other process sees; None where all are taken."""
        if self._held >= self.at_once:
            return None
        place = self._lock_one(self._folder) if self._folder else -1
        if place is not None:
            self._held += 1
        return place

    def _lock_one(self, folder: Path) -> int | None:
        try:
            for number in range(self.at_once):
                if (fd := locks.try_hold(folder / str(number))) is not None:
                    return fd
        except OSError:
            return -1  # a full disk, or a folder that is gone, stops no box
        return None

    def _let_go(self, place: int) -> None:
        if place >= 0:
            os.close(place)
        with self._lock:
            self._held -= 1
        self._call_first()

    def _call_first(self) -> None:
        with self._lock:
            if self._queue:
                self._queue[0].look()
