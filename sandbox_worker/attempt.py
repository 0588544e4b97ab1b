"""One attempt in this worker's hands: its request, whether it is still wanted, and what to kill if not."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox_worker.errors import BoundaryError, EarlyEndError
from sandbox_worker.messages import RolloutRequest
from sandbox_worker.sandbox.base import SandboxError

log = logging.getLogger(__name__)


class AttemptCancelledError(EarlyEndError):
    """The control plane (or the end of this worker) no longer wants this attempt: nothing of it is written."""


class Attempt:
    """Played by one thread; cancel() comes from another."""

    def __init__(self, request: RolloutRequest) -> None:
        self.request = request
        self.accepted_at = time.time()
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._kills: list[Callable[[], object]] = []

    @property
    def key(self) -> tuple[int, int]:
        return self.request.rollout_id, self.request.fence

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def seconds_left(self) -> float:
        return self.request.deadline - time.time()

    def check(self) -> None:
        """Raises AttemptCancelledError, or BoundaryError past the deadline."""
        if self.cancelled:
            raise AttemptCancelledError
        if self.seconds_left <= 0:
            raise BoundaryError("worker", "the deadline of the attempt passed")

    def pause(self, seconds: float) -> None:
        """Sleep, unless the attempt is cancelled meanwhile. Raises as check() does."""
        self._cancelled.wait(max(0.0, min(seconds, self.seconds_left)))
        self.check()

    def cancel(self) -> None:
        """Stop it now: everything that it holds is killed by the caller's thread.

        What is let go of meanwhile, or will not die, is the business of whoever stops it: the attempt is over."""
        with self._lock:
            self._cancelled.set()
            kills = list(self._kills)
        for kill in kills:
            try:
                kill()
            except (SandboxError, OSError):
                log.warning("a cancelled attempt's box was not killed at once", exc_info=True)

    @contextmanager
    def holding(self, kill: Callable[[], object]) -> Iterator[None]:
        """While the block runs, a cancel calls kill. Raises AttemptCancelledError if it was cancelled before."""
        with self._lock:
            if self.cancelled:
                kill()
                raise AttemptCancelledError
            self._kills.append(kill)
        try:
            yield
        finally:
            with self._lock:
                self._kills.remove(kill)
