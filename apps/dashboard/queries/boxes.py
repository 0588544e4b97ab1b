"""How boxes come about on each worker, as the fleet page shows it: warm or started, how fast, and what queues."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.fleet.models import Worker


@dataclass(frozen=True)
class BoxesRow:
    """One sandbox worker, by what it told last. None where a number is not defined, or was not told."""

    worker: Worker
    most: int | None
    """Boxes that may wait; 0: none are wanted."""
    hits: int
    asked: int
    acquire: tuple[float, float] | None
    """Seconds from asking for a box to having it: median and 95th percentile."""
    refills_per_second: float | None
    starting: int | None
    queued: int | None
    wait: tuple[float, float] | None
    """Seconds in the queue of starts."""
    started: int | None
    failed: int | None
    reaped: int | None
    """Of dead workers on its host."""
    unstopped: int | None
    """That did not stop, and are tried again."""

    @property
    def kinds(self) -> list[tuple[str, int]]:
        """The most numerous first."""
        return sorted(self.worker.warm.items(), key=lambda one: (-one[1], one[0]))

    @property
    def warm(self) -> int:
        return sum(self.worker.warm.values())

    @property
    def hit_share(self) -> float | None:
        return self.hits / self.asked if self.asked else None


def boxes(workers: Iterable[Worker]) -> list[BoxesRow]:
    return [_row(worker) for worker in workers]


def _row(worker: Worker) -> BoxesRow:
    told = worker.counters
    return BoxesRow(
        worker=worker,
        most=_whole(told, "pool_most"),
        hits=_whole(told, "pool_hits") or 0,
        asked=(_whole(told, "pool_hits") or 0) + (_whole(told, "pool_misses") or 0),
        acquire=_quantiles(told, "acquire"),
        refills_per_second=told.get("refills_per_second"),
        starting=_whole(told, "starts_now"),
        queued=_whole(told, "starts_waiting"),
        wait=_quantiles(told, "start_wait"),
        started=_whole(told, "boxes_started"),
        failed=_whole(told, "boxes_failed"),
        reaped=_whole(told, "boxes_reaped"),
        unstopped=_whole(told, "boxes_unstopped"),
    )


def _whole(told: dict[str, float], name: str) -> int | None:
    return int(told[name]) if name in told else None


def _quantiles(told: dict[str, float], name: str) -> tuple[float, float] | None:
    median, late = told.get(f"{name}_p50_ms"), told.get(f"{name}_p95_ms")
    return None if median is None or late is None else (median / 1000, late / 1000)
