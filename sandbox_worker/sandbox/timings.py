"""How long the last ones took, and how many there were lately."""

import threading
from collections import deque

_KEPT = 2000
RATE_SECONDS = 30.0


class Timings:
    """Safe for many threads."""

    def __init__(self, opened: float) -> None:
        """opened: when counting began, on the clock whose times are told here."""
        self._opened = opened
        self._kept: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def add(self, now: float, seconds: float = 0.0) -> None:
        with self._lock:
            self._kept.append((now, seconds))

    def quantile(self, share: float) -> float | None:
        """Seconds, of the last two thousand; None before the first."""
        with self._lock:
            ordered = sorted(seconds for _, seconds in self._kept)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None

    def per_second(self, now: float) -> float:
        """Of the last half minute, or of the time since counting began."""
        seconds = min(RATE_SECONDS, max(1.0, now - self._opened))
        with self._lock:
            return sum(1 for at, _ in self._kept if at > now - seconds) / seconds

    def milliseconds(self, name: str) -> dict[str, float]:
        """Two counters, none before the first."""
        median, late = self.quantile(0.5), self.quantile(0.95)
        if median is None or late is None:
            return {}
        return {f"{name}_p50_ms": round(1000 * median, 3), f"{name}_p95_ms": round(1000 * late, 3)}
