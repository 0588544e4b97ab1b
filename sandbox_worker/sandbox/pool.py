"""Boxes started ahead of the demand for them. Only clean ones: what was given out once never comes back.

A box whose folder was restored from a snapshot could be shown to hold the same files, but not that nothing else of it
had changed; a new one costs less than the proof. Whoever waits for a start goes before any box that would only wait.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sandbox_worker.sandbox.base import Backend, Box, BoxSpec, NoRoomError, SandboxError
from sandbox_worker.sandbox.register import Register, words
from sandbox_worker.sandbox.room import spare_memory
from sandbox_worker.sandbox.shelf import Shelf, Warm
from sandbox_worker.sandbox.starts import StartLimiter, Ticket
from sandbox_worker.sandbox.timings import Timings

log = logging.getLogger(__name__)

BOX_BYTES = 8 * 2**20
"""That a waiting box may take of the host's memory."""
_REFILLERS = 2
_TICK_SECONDS = 0.5
_NO_TURN_SECONDS = 0.05
_CLOSE_SECONDS = 2.0


@dataclass(frozen=True)
class PoolReport:
    """What a pool tells of itself."""

    counters: dict[str, float] = field(default_factory=dict)
    warm: dict[str, int] = field(default_factory=dict)
    """Waiting boxes by kind, in words."""
    trouble: str = ""
    """Why the last box that should have waited did not start; empty since one did."""


class WarmPool(Backend):
    """Safe for many threads. Closes the back end that it was given."""

    def __init__(
        self,
        backend: Backend,
        limiter: StartLimiter,
        *,
        most: int,
        register: Register | None = None,
        spare: Callable[[], int] = spare_memory,
    ) -> None:
        """most: boxes that wait at once; 0: none, every box is started when it is asked for.

        spare: bytes of memory that the host can do without, below zero where it lacks some."""
        self.isolation, self.weaker = backend.isolation, backend.weaker
        self._backend = backend
        self._limiter = limiter
        self._register = register or Register(None)
        self._spare = spare
        self._shelf = Shelf(most)
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._closed = False
        self._counts: Counter[str] = Counter()
        self._trouble = ""
        self._to_bury: list[Box] = []
        self._unstopped: list[Box] = []
        self._acquired, self._refilled = Timings(time.monotonic()), Timings(time.monotonic())
        refillers = _REFILLERS if most else 0
        self._threads = [threading.Thread(target=self._live, name="box-pool", daemon=True) for _ in range(refillers)]
        for thread in self._threads:
            thread.start()

    def start(self, spec: BoxSpec, ticket: Ticket | None = None) -> Box:
        """One that waited, or a new one. Raises BoxStartError, StartGivenUpError."""
        began = time.monotonic()
        box = self._waiting(spec.kind, began)
        if box is None:
            box = self._start_cold(spec, ticket or Ticket())
        else:
            box.give(env=spec.env, label=spec.label)
        self._register.give(box, spec.label)
        self._acquired.add(time.monotonic(), time.monotonic() - began)
        return box

    def stop(self, box: Box) -> None:
        """What start() gave. Raises as Box.stop() does; reap() tries again then."""
        try:
            box.stop()
        except BaseException:
            with self._lock:
                self._unstopped.append(box)
            raise
        self._register.strike(box)

    def reap(self) -> int:
        with self._lock:
            unstopped, self._unstopped = self._unstopped, []
        self._bury(unstopped)
        removed = self._backend.reap()
        self._register.clear()  # last: whose the boxes were stands there
        return removed

    def close(self) -> None:
        with self._work:
            self._closed = True
            self._to_bury += [warm.box for warm in self._shelf.clear()]
            waiting, self._to_bury = self._to_bury, []
            self._work.notify_all()
        until = time.monotonic() + _CLOSE_SECONDS
        try:
            self._bury(waiting)
            for thread in self._threads:
                thread.join(max(0.0, until - time.monotonic()))
        finally:
            try:
                self._backend.close()  # whatever is left of them, too
            finally:
                self._register.close()

    def report(self) -> PoolReport:
        now = time.monotonic()
        with self._lock:
            counts, trouble, unstopped = dict(self._counts), self._trouble, len(self._unstopped)
            warm = {words(kind): count for kind, count in self._shelf.counts().items()}
        named = {
            f"pool_{name}": float(counts.get(name, 0)) for name in ("hits", "misses", "died", "evicted", "refills")
        }
        named |= {"pool_most": self._shelf.most, "boxes_unstopped": unstopped}
        named["refills_per_second"] = self._refilled.per_second(now)
        counters = named | self._acquired.milliseconds("acquire") | self._limiter.counters()
        return PoolReport(counters, warm, trouble)

    def _waiting(self, kind: BoxSpec, now: float) -> Box | None:
        with self._work:
            self._shelf.ask(kind, now)
            while warm := self._shelf.take(kind, now):
                if not warm.box.is_dead():
                    break
                self._counts["died"] += 1
                self._to_bury.append(warm.box)
            if self._shelf.most:
                self._counts["hits" if warm else "misses"] += 1
            self._work.notify()
        return warm.box if warm else None

    def _start_cold(self, spec: BoxSpec, ticket: Ticket) -> Box:
        try:
            return self._start(spec, ticket)
        except NoRoomError:
            if not self._make_room():
                raise
        return self._start(spec, ticket)

    def _start(self, spec: BoxSpec, ticket: Ticket) -> Box:
        with self._limiter.turn(ticket):
            return self._start_now(spec)

    def _start_now(self, spec: BoxSpec) -> Box:
        began = time.monotonic()
        box = self._backend.start(spec)
        self._register.enter(box, spec.kind)
        with self._lock:
            self._shelf.started(spec.kind, time.monotonic() - began)
        return box

    def _make_room(self) -> bool:
        """Boxes in use go before those that wait. Whether any did."""
        with self._lock:
            waiting = self._shelf.clear()
            self._counts["evicted"] += len(waiting)
        self._bury([warm.box for warm in waiting])
        return bool(waiting)

    def _live(self) -> None:
        while not self._closed:
            try:
                out, kind = self._decide(self._spare())
                self._bury(out)
                if kind is not None:
                    idle = 0.0 if self._refill(kind) else _NO_TURN_SECONDS
                else:
                    idle = 0.0 if out else _TICK_SECONDS
            except Exception:  # this thread must live on; what it did not do is done at its next look
                log.exception("the boxes that wait were not looked after")
                idle = _TICK_SECONDS
            self._rest(idle)

    def _decide(self, spare: int) -> tuple[list[Box], BoxSpec | None]:
        """Boxes to stop, and of what kind to start one."""
        now = time.monotonic()
        with self._lock:
            room = self._shelf.total + spare // BOX_BYTES
            evicted = [warm.box for warm in self._shelf.too_many(now, room)]
            self._counts["evicted"] += len(evicted)
            out, self._to_bury = [*evicted, *self._to_bury], []
            kind = None if self._closed else self._shelf.next_kind(now, room)
            if kind is not None:
                self._shelf.under_way[kind] += 1
        return out, kind

    def _refill(self, kind: BoxSpec) -> bool:
        """False where no start was to be had, or it failed."""
        warm = None
        began = time.monotonic()
        try:
            with self._limiter.spare_turn() as is_free:
                if is_free:
                    warm = Warm(self._start_now(kind), kind, began)
        except Exception as error:  # noqa: BLE001 (this thread must live on, whatever a back end raises)
            self._note_trouble(kind, error)
        with self._work:
            self._shelf.under_way[kind] -= 1
            if warm is None:
                return False
            if not self._closed:
                self._shelf.put(warm)
                self._counts["refills"] += 1
                self._trouble = ""
                self._refilled.add(time.monotonic())
                return True
        self._bury([warm.box])
        return False

    def _note_trouble(self, kind: BoxSpec, error: Exception) -> None:
        log.warning("a box of %s that should have waited did not start: %s", words(kind), error)
        with self._lock:
            self._shelf.failed(kind, time.monotonic())
            self._trouble = f"{words(kind)}: {error}"

    def _rest(self, seconds: float) -> None:
        """Or until a box is asked for."""
        with self._work:
            if seconds and not self._closed:
                self._work.wait(seconds)

    def _bury(self, boxes: Iterable[Box]) -> None:
        for box in boxes:
            try:
                self.stop(box)
            except (SandboxError, OSError):
                log.warning("a box did not stop; the next pass of the reaper tries again", exc_info=True)
