"""What the connections of one box did: a bounded list of decisions, counters without end, and the bytes left to it.

Written by the proxy's thread, read by any.
"""

import logging
import threading
from collections import Counter, deque
from dataclasses import dataclass
from datetime import datetime

from sandbox_worker.sandbox.network.verdict import NoPassageError, Verdict

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """One connection, as it ended."""

    at: datetime
    """When it came, in UTC."""
    method: str
    """CONNECT for a tunnel; empty where no request was understood, as the host, and the port is then 0."""
    host: str
    port: int
    verdict: Verdict
    words: str
    """Why it was not let through, or how it ended otherwise than by a side's closing; may be empty."""
    up_bytes: int
    """To the host, as is down_bytes from it: with the heads, without TCP's own."""
    down_bytes: int
    seconds: float

    @property
    def allowed(self) -> bool:
        return self.verdict is Verdict.ALLOWED


@dataclass(frozen=True)
class Counters:
    open: int
    """Connections that are served now; the rest is of all that ended, but for the bytes."""
    verdicts: tuple[tuple[Verdict, int], ...]
    up_bytes: int
    down_bytes: int

    def of(self, verdict: Verdict) -> int:
        return dict(self.verdicts).get(verdict, 0)


class Ledger:
    def __init__(self, label: str, *, records: int, up_bytes: int, down_bytes: int) -> None:
        self._label = label
        self._most_up, self._most_down = up_bytes, down_bytes
        self._lock = threading.Lock()
        self._first: list[Decision] = []
        self._last: deque[Decision] = deque(maxlen=records - records // 2)
        self._most_first = records // 2
        self._verdicts: Counter[Verdict] = Counter()
        self._open = self._up = self._down = 0

    def came(self) -> None:
        with self._lock:
            self._open += 1

    def ended(self, decision: Decision) -> None:
        """Keeps the first half and the last half of what there is room for; the worker's own log gets the first."""
        with self._lock:
            self._open -= 1
            self._verdicts[decision.verdict] += 1
            known = self._verdicts.total()
            (self._first if len(self._first) < self._most_first else self._last).append(decision)
        if known <= self._most_first:
            self._tell(decision)
        elif known == self._most_first + 1:
            log.warning("box %s: its further connections are only counted here", self._label)

    def add(self, *, up: int = 0, down: int = 0) -> None:
        """Raises NoPassageError where the box has no such bytes left; they are not to be passed on then."""
        with self._lock:
            if self._up + up > self._most_up or self._down + down > self._most_down:
                raise spent(self._most_up, self._most_down)
            self._up += up
            self._down += down

    def log(self) -> tuple[Decision, ...]:
        with self._lock:
            return (*self._first, *self._last)

    def counters(self) -> Counters:
        with self._lock:
            return Counters(self._open, tuple(sorted(self._verdicts.items())), self._up, self._down)

    def _tell(self, decision: Decision) -> None:
        level = logging.INFO if decision.verdict in (Verdict.ALLOWED, Verdict.HUNG_UP) else logging.WARNING
        log.log(
            level,
            "box %s: %s %s:%d %s, %d bytes up, %d down%s",
            self._label,
            decision.method or "?",
            decision.host or "?",
            decision.port,
            decision.verdict,
            decision.up_bytes,
            decision.down_bytes,
            f": {decision.words}" if decision.words else "",
        )


def spent(most_up: int, most_down: int) -> NoPassageError:
    words = f"this box has used up its traffic of {most_up} bytes to hosts and {most_down} bytes from them"
    return NoPassageError(Verdict.BYTES_SPENT, words)
