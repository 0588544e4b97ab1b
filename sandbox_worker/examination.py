"""What a worker found of its host: at its start, then once a day, and told in few of its heartbeats."""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from sandbox_worker.sandbox import findings
from wire.finding import Finding

log = logging.getLogger(__name__)

REPEAT_SECONDS = 24 * 3600.0
AT_FIRST = 3
"""Heartbeats that tell it, one after the other: some of them may be lost on the way."""
AGAIN_SECONDS = 300.0
"""After that it is told this often, for the same reason."""


class Examination:
    """Asked by the thread of the heartbeats, repeated by another."""

    def __init__(
        self, first: tuple[findings.Finding, ...], examine: Callable[[], tuple[findings.Finding, ...]]
    ) -> None:
        self._examine = examine
        self._lock = threading.Lock()
        self._told, self._tell_at = 0, 0.0
        self._keep(first, time.monotonic())

    def repeat_if_due(self, now: float) -> None:
        """now: of the monotonic clock, as everywhere here."""
        if now - self._kept_at >= REPEAT_SECONDS:
            self._keep(self._examine(), now)

    def to_tell(self, now: float) -> dict[str, object]:
        """Fields of the next heartbeat; none where it has been told lately."""
        with self._lock:
            if self._told >= AT_FIRST and now < self._tell_at:
                return {}
            self._told += 1
            self._tell_at = now + AGAIN_SECONDS
            return {"findings": messages_of(self._found), "examined_at": self._examined_at}

    def _keep(self, found: tuple[findings.Finding, ...], now: float) -> None:
        for finding in found:
            if finding.state is findings.State.MISSING:
                log.error("%s of %s: %s. %s", finding.name, finding.about, finding.found, finding.mend)
        with self._lock:
            self._found, self._examined_at, self._kept_at = found, time.time(), now
            self._told, self._tell_at = 0, now


def messages_of(found: Iterable[findings.Finding]) -> tuple[Finding, ...]:
    return tuple(
        Finding(about=row.about, name=row.name, state=row.state.value, found=row.found, mend=row.mend) for row in found
    )
