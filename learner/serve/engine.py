"""One thread that samples for everyone: every cohort with work gets one step in turn, so no version starves another."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass

from learner.errors import LearnerError
from learner.serve.cohort import Cohort, Policy, Room, Row, Shared
from learner.serve.prefixes import PrefixCache

log = logging.getLogger(__name__)

_SHORTEST = 384
_ROOM_BYTES = 384 << 20
_PREFIX_BYTES = 96 << 20
_STOP_SECONDS = 1.0


class EngineError(LearnerError):
    """Sampling broke; the request was not answered."""


@dataclass(frozen=True)
class Sampled:
    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: str


@dataclass(frozen=True)
class Ask:
    """One request: each prompt sampled n times."""

    prompts: tuple[tuple[int, ...], ...]
    n: int
    max_tokens: int
    temperature: float
    seed: str
    stop: frozenset[int]


class Ticket:
    """An ask in the engine. Its answer has one Sampled a row, prompts first."""

    def __init__(self, policy: Policy, ask: Ask) -> None:
        self.policy = policy
        self.answer: Future[list[Sampled]] = Future()
        self.rows = [
            Row(
                prompt=prompt,
                max_tokens=ask.max_tokens,
                temperature=ask.temperature,
                stop=ask.stop,
                seed=f"{ask.seed}:{place}:{try_}",
                done=self._row_done,
                fail=self._row_broke,
            )
            for place, prompt in enumerate(ask.prompts)
            for try_ in range(ask.n)
        ]
        self._left = len(self.rows)

    def cancel(self) -> None:
        for row in self.rows:
            row.cancelled = True

    def _row_broke(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(EngineError(f"sampling broke: {type(error).__name__}: {error}"))
        self.cancel()  # its other rows are for nobody
        self.rows = []

    def _row_done(self) -> None:
        self._left -= 1
        if self._left == 0 and not self.answer.done():
            self.answer.set_result(
                [Sampled(row.prompt, tuple(row.ids), tuple(row.logprobs), row.finish) for row in self.rows]
            )
            self.rows = []  # they know this ticket, and the circle would keep the policy's weights in memory


class Engine:
    def __init__(self) -> None:
        self._shared = Shared(Room(_ROOM_BYTES), PrefixCache(_PREFIX_BYTES))
        self.counters = self._shared.counters
        self._inbox: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._cohorts: dict[tuple[Policy, int], Cohort] = {}
        self._busy: dict[Policy, int] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._inbox.put(None)
        self._thread.join(_STOP_SECONDS)

    def submit(self, policy: Policy, ask: Ask) -> Ticket:
        ticket = Ticket(policy, ask)
        self._count(policy, 1)
        ticket.answer.add_done_callback(lambda _: self._count(policy, -1))
        self.counters.requests += 1
        self._inbox.put(ticket)
        return ticket

    def report(self) -> dict[str, object]:
        """Running totals since the start."""
        counters = self.counters
        decoded = counters.sampled_tokens - counters.prompts
        return asdict(counters) | {"batch_size_mean": decoded / counters.steps if counters.steps else None}

    def busy(self, policy: Policy) -> int:
        """Requests of this policy that are not answered yet."""
        with self._lock:
            return self._busy.get(policy, 0)

    def _count(self, policy: Policy, change: int) -> None:
        with self._lock:
            self._busy[policy] = self._busy.get(policy, 0) + change
            if not self._busy[policy]:
                del self._busy[policy]

    def _work(self) -> None:
        while self._take_in(wait=not self._cohorts):
            self._take_turns()

    def _take_turns(self) -> None:
        began = time.monotonic()
        for key, cohort in list(self._cohorts.items()):
            self._guarded(cohort.turn, cohort)
            if cohort.idle:
                self._cohorts.pop(key).close()
        self.counters.busy_seconds += time.monotonic() - began

    def _take_in(self, *, wait: bool) -> bool:
        """Sort what has arrived into cohorts. False when the engine is to stop."""
        try:
            while True:
                ticket = self._inbox.get(block=wait)
                if ticket is None:
                    return False
                self._sort(ticket)
                del ticket  # else its policy stays in memory until the next one comes
                wait = False
        except queue.Empty:
            return True

    def _sort(self, ticket: Ticket) -> None:
        weights = ticket.policy.weights
        for row in ticket.rows:
            positions = length_class(len(row.prompt) + row.max_tokens, weights.shape.context)
            key = ticket.policy, positions
            if key not in self._cohorts:
                self._cohorts[key] = Cohort(ticket.policy, positions, self._shared)
            self._cohorts[key].waiting.append(row)

    def _guarded(self, turn: Callable[[], None], cohort: Cohort) -> None:
        """A cohort that breaks fails its own requests only."""
        try:
            turn()
        except Exception as error:
            log.exception("sampling of %s broke", cohort.policy.name)
            broken = [*cohort.rows, *cohort.waiting]
            cohort.rows.clear()
            cohort.waiting.clear()
            for row in broken:
                row.fail(error)


def length_class(length: int, context: int) -> int:
    """Positions to reserve for a row: rows of one class share memory without much padding."""
    positions = _SHORTEST
    while positions < length:
        positions *= 2
    return min(positions, context)
