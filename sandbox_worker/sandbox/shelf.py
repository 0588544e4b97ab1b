"""Which boxes wait, which are wanted, and which have waited too long: decisions alone, without threads or clocks."""

from collections import defaultdict
from dataclasses import dataclass

from sandbox_worker.sandbox.base import Box, BoxSpec
from sandbox_worker.sandbox.demand import Demand, share_out

LIFE_SHARE = 0.05
"""Of its time a box may have used up when it is given out."""
LEAST_SHELF_SECONDS = 5.0
"""A kind whose boxes could wait no longer than this is always started when it is asked for."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


@dataclass(frozen=True)
class Warm:
    """A box that nobody has used."""

    box: Box
    kind: BoxSpec
    started: float
    """Before it was: its own time runs from then."""


@dataclass
class _Trouble:
    """Of a kind whose boxes do not start."""

    pause: float
    until: float


class Shelf:
    """Not safe for threads: the pool locks it. now: seconds of one clock."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.under_way: dict[BoxSpec, int] = defaultdict(int)
        self._boxes: dict[BoxSpec, list[Warm]] = defaultdict(list)
        self._demands: dict[BoxSpec, Demand] = {}
        self._troubles: dict[BoxSpec, _Trouble] = {}

    def ask(self, kind: BoxSpec, now: float) -> None:
        """Somebody wants one."""
        if self.most and is_kept(kind):
            self._demands.setdefault(kind, Demand(now)).ask(now)

    def take(self, kind: BoxSpec, now: float) -> Warm | None:
        """The youngest, if it is young enough."""
        boxes = self._boxes.get(kind)
        if boxes and not is_old(boxes[-1], now):
            return boxes.pop()
        return None

    def started(self, kind: BoxSpec, seconds: float) -> None:
        if kind in self._demands:
            self._demands[kind].started(seconds)

    def put(self, warm: Warm) -> None:
        self._troubles.pop(warm.kind, None)
        self._boxes[warm.kind].append(warm)
        self._boxes[warm.kind].sort(key=lambda one: one.started)

    def failed(self, kind: BoxSpec, now: float) -> None:
        """Its next try waits twice as long as the last."""
        before = self._troubles.get(kind)
        pause = min(2 * before.pause, _LONGEST_PAUSE) if before else _FIRST_PAUSE
        self._troubles[kind] = _Trouble(pause, now + pause)

    def next_kind(self, now: float, room: int) -> BoxSpec | None:
        """Of which one more should be started; the one that lacks the most. room: what the host's memory takes."""
        wanted = self._wanted(now, room)
        lacking = {
            kind: count - self._count(kind)
            for kind, count in wanted.items()
            if count > self._count(kind) and not self._pauses(kind, now)
        }
        if not lacking or self.total + sum(self.under_way.values()) >= min(self.most, room):
            return None
        return max(lacking, key=lambda kind: lacking[kind])

    def too_many(self, now: float, room: int) -> list[Warm]:
        """To be stopped: old, wanted no more, or in the place of others that are wanted more."""
        wanted = self._wanted(now, room)
        out = []
        for kind, boxes in self._boxes.items():
            out += [warm for warm in boxes if is_old(warm, now)]
            young = [warm for warm in boxes if not is_old(warm, now)]
            surplus = len(young) - wanted.get(kind, 0)
            if surplus > 0 and (self._is_short(wanted, room) or surplus > wanted.get(kind, 0) // 4):
                out += young[:surplus]
        self._forget(out, now)
        return out

    def clear(self) -> list[Warm]:
        out = [warm for boxes in self._boxes.values() for warm in boxes]
        self._boxes.clear()
        return out

    @property
    def total(self) -> int:
        return sum(map(len, self._boxes.values()))

    def counts(self) -> dict[BoxSpec, int]:
        return {kind: len(boxes) for kind, boxes in self._boxes.items() if boxes}

    def _count(self, kind: BoxSpec) -> int:
        return len(self._boxes.get(kind, ())) + self.under_way.get(kind, 0)

    def _pauses(self, kind: BoxSpec, now: float) -> bool:
        return kind in self._troubles and now < self._troubles[kind].until

    def _wanted(self, now: float, room: int) -> dict[BoxSpec, int]:
        every = {kind: demand.wanted(now) for kind, demand in self._demands.items()}
        return share_out({kind: count for kind, count in every.items() if count}, max(0, min(self.most, room)))

    def _is_short(self, wanted: dict[BoxSpec, int], room: int) -> bool:
        """There is no place for a box that another kind lacks, or for those that are there."""
        lacks = any(count > self._count(kind) for kind, count in wanted.items())
        return self.total > room or (lacks and self.total >= min(self.most, room))

    def _forget(self, out: list[Warm], now: float) -> None:
        gone = {id(warm) for warm in out}
        left = {kind: [warm for warm in boxes if id(warm) not in gone] for kind, boxes in self._boxes.items()}
        self._boxes = defaultdict(list, {kind: boxes for kind, boxes in left.items() if boxes})
        self._demands = {
            kind: demand for kind, demand in self._demands.items() if demand.wanted(now) or self._count(kind)
        }
        self._troubles = {kind: trouble for kind, trouble in self._troubles.items() if kind in self._demands}


def is_kept(kind: BoxSpec) -> bool:
    """A box with a way out of its network is made for one attempt: what it asks for is logged under its label."""
    return not kind.allowed_hosts and shelf_seconds(kind) >= LEAST_SHELF_SECONDS


def is_old(warm: Warm, now: float) -> bool:
    return now - warm.started > shelf_seconds(warm.kind)


def shelf_seconds(kind: BoxSpec) -> float:
    return kind.limits.wall_seconds * LIFE_SHARE
