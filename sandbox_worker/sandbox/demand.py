"""How many boxes of one kind should wait: as many as were asked for within the time that it takes to replace them.

Grows at once, halves in a minute of silence, ends at none. Times are seconds of one clock, told by the caller.
"""

import math
from collections import deque
from typing import TypeVar

Kind = TypeVar("Kind")

HALF_LIFE_SECONDS = 60.0
_LEAST_SPAN, _MOST_SPAN = 0.25, 5.0
_WEIGHT = 0.2
"""Of the newest start, in the mean of all."""


class Demand:
    def __init__(self, now: float) -> None:
        self._asked: deque[float] = deque()
        self._peak = 0.0
        self._peak_at = now
        self._start_seconds = 0.0

    def ask(self, now: float) -> None:
        self._asked.append(now)
        while self._asked[0] < now - self._span:
            self._asked.popleft()
        self._peak = max(self._peak_now(now), float(len(self._asked)))
        self._peak_at = now

    def started(self, seconds: float) -> None:
        """One of them took so long to start."""
        self._start_seconds += _WEIGHT * (seconds - self._start_seconds)

    def wanted(self, now: float) -> int:
        return math.ceil(self._peak_now(now) - 0.5)

    @property
    def _span(self) -> float:
        """Twice, for what replaces a box that was given out may have to wait for its turn."""
        return min(max(2 * self._start_seconds, _LEAST_SPAN), _MOST_SPAN)

    def _peak_now(self, now: float) -> float:
        return float(self._peak * 0.5 ** ((now - self._peak_at) / HALF_LIFE_SECONDS))


def share_out(wanted: dict[Kind, int], most: int) -> dict[Kind, int]:
    """At most so many in all: each its part, and the largest remainders one more."""
    total = sum(wanted.values())
    if total <= most:
        return dict(wanted)
    exact = {kind: count * most / total for kind, count in wanted.items()}
    parts = {kind: int(part) for kind, part in exact.items()}
    by_remainder = sorted(exact, key=lambda kind: parts[kind] - exact[kind])
    for kind in by_remainder[: most - sum(parts.values())]:
        parts[kind] += 1
    return parts
