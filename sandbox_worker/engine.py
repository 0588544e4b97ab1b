"""Many rollouts at once in a bounded number of threads; knows what is active by (rollout id, fence)."""

import logging
import queue
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from sandbox_worker.attempt import Attempt
from sandbox_worker.errors import SandboxWorkerError
from sandbox_worker.messages import Outcome, RolloutBatch
from sandbox_worker.outcomes import Address

log = logging.getLogger(__name__)

_REMEMBERED = 20_000
"""Finished attempts whose doubled messages are still recognised."""

Play = Callable[[Attempt], Outcome | None]
Deliver = Callable[[Address, Outcome], None]


class EngineClosedError(SandboxWorkerError):
    """This engine takes no more work."""


class Engine:
    """Accepts batches, plays them, delivers outcomes. Its threads die with the process."""

    def __init__(self, slots: int, play: Play, deliver: Deliver) -> None:
        self.slots = slots
        self._play = play
        self._deliver = deliver
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._active: dict[tuple[int, int], Attempt] = {}
        self._finished: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._counts: Counter[str] = Counter()
        self._open = True
        self._queue: queue.SimpleQueue[tuple[Attempt, Address] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"rollout-{number}", daemon=True) for number in range(slots)
        ]
        for thread in self._threads:
            thread.start()

    def accept(self, batch: RolloutBatch) -> int:
        """How many of them are new; what is active or was finished here is ignored. Raises EngineClosedError."""
        address = Address.of(batch)
        attempts = [Attempt(request) for request in batch.requests]
        with self._lock:
            if not self._open:
                raise EngineClosedError("this worker takes no more rollouts")
            new = [attempt for attempt in attempts if self._enter(attempt)]
            self._counts["duplicates"] += len(attempts) - len(new)
        for attempt in new:
            self._queue.put((attempt, address))
        return len(new)

    def _enter(self, attempt: Attempt) -> bool:
        if attempt.key in self._active or attempt.key in self._finished:
            return False
        self._active[attempt.key] = attempt
        return True

    def cancel(self, keys: Iterable[str]) -> int:
        """Stop attempts named '<rollout id>:<fence>'; how many were active."""
        wanted = set(keys)
        with self._lock:
            found = [attempt for (rollout, fence), attempt in self._active.items() if f"{rollout}:{fence}" in wanted]
        for attempt in found:
            attempt.cancel()
        return len(found)

    def close(self, *, timeout: float) -> bool:
        """Take nothing more, stop everything; False if something is still running after the time."""
        with self._lock:
            self._open = False
            found = list(self._active.values())
        for attempt in found:
            attempt.cancel()
        with self._idle:
            emptied = self._idle.wait_for(lambda: not self._active, timeout)
        for _ in self._threads:
            self._queue.put(None)
        return emptied

    @property
    def busy(self) -> int:
        with self._lock:
            return len(self._active)

    def holding(self) -> list[str]:
        """'<rollout id>:<fence>' of what was accepted and not finished."""
        with self._lock:
            return [f"{rollout}:{fence}" for rollout, fence in self._active]

    def counters(self) -> dict[str, float]:
        with self._lock:
            return {f"rollouts_{name}": float(count) for name, count in self._counts.items()}

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            attempt, address = item
            try:
                self._play_one(attempt, address)
            except Exception:  # the last line of defence: this thread serves other rollouts too
                log.exception("rollout %d (fence %d) left no outcome", *attempt.key)
                self._leave(attempt, "lost")

    def _play_one(self, attempt: Attempt, address: Address) -> None:
        outcome = None if attempt.cancelled else self._play(attempt)
        if outcome is None or attempt.cancelled:
            self._leave(attempt, "cancelled")
            return
        self._deliver(address, outcome)
        if outcome.ending.kind != "infra":
            self._leave(attempt, "finished")
            return
        log.warning("rollout %d broke at %s: %s", outcome.rollout_id, outcome.ending.detail, outcome.ending.evidence)
        self._leave(attempt, "finished", f"infra_{outcome.ending.detail}")

    def _leave(self, attempt: Attempt, *counts: str) -> None:
        with self._idle:
            self._active.pop(attempt.key, None)
            self._finished[attempt.key] = None
            while len(self._finished) > _REMEMBERED:
                self._finished.popitem(last=False)
            self._counts.update(counts)
            self._idle.notify_all()
