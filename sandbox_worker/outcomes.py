"""Finished outcomes become segments of the object store, then messages that say where to look, in this order.

A message may be lost: the control plane sweeps the store. A segment may not: a store that fails is tried again, and
the outcomes stay in memory until it takes them.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from sandbox_worker.errors import describe
from sandbox_worker.messages import Ending, GradeReport, Outcome, RolloutBatch, SegmentReady
from sandbox_worker.observation import recordable
from wire.store import Store

log = logging.getLogger(__name__)

PERIOD_SECONDS = 0.1
MOST_IN_SEGMENT = 256
_EVIDENCE = 2000
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


@dataclass(frozen=True)
class Address:
    """Where the outcomes of a batch go: one segment holds one address only."""

    run_id: int
    write_prefix: str
    reply_job: str
    reply_queue: str

    @classmethod
    def of(cls, batch: RolloutBatch) -> "Address":
        return cls(batch.run_id, batch.write_prefix, batch.reply_job, batch.reply_queue)


@dataclass(frozen=True)
class Line:
    """One outcome, as a segment holds it."""

    attempt: str
    """'<rollout id>:<fence>'."""
    data: bytes

    @classmethod
    def of(cls, outcome: Outcome) -> "Line":
        """An outcome that JSON cannot hold is ours to answer for: it becomes infra(worker), and its siblings stay."""
        try:
            data = msgspec.json.encode(outcome)
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            log.exception("the outcome of rollout %d cannot be written", outcome.rollout_id)
            data = msgspec.json.encode(_broken(outcome, f"the outcome cannot be written: {describe(error)}"))
        return cls(f"{outcome.rollout_id}:{outcome.fence}", data + b"\n")


def _broken(outcome: Outcome, why: str) -> Outcome:
    why = recordable(why)[:_EVIDENCE]
    return msgspec.structs.replace(
        outcome,
        ending=Ending(kind="infra", detail="worker", evidence=why),
        grade=GradeReport(verdict="none", score=None, error=why),
        rounds=(),
    )


@dataclass(frozen=True)
class Segment:
    """Written until the store has it, always under the same key with the same bytes."""

    address: Address
    key: str
    data: bytes
    attempts: tuple[str, ...]
    """'<rollout id>:<fence>' of its outcomes."""


SendMessage = Callable[[str, str, dict[str, object]], None]
"""Job, queue, argument."""


class OutcomeWriter:
    """One thread. put() may be called from any other."""

    def __init__(self, store: Store, incarnation: str, send: SendMessage) -> None:
        self._store = store
        self._incarnation = incarnation
        self._send = send
        self._changed = threading.Condition()
        self._waiting: dict[Address, list[Line]] = {}
        self._segments: list[Segment] = []
        self._number = 0
        self._closing = False
        self.written = 0
        self.store_failures = 0
        self.messages_lost = 0
        self._thread = threading.Thread(target=self._live, name="outcomes", daemon=True)
        self._thread.start()

    def put(self, address: Address, outcome: Outcome) -> None:
        line = Line.of(outcome)
        with self._changed:
            self._waiting.setdefault(address, []).append(line)
            self._changed.notify()

    def close(self, *, timeout: float) -> bool:
        """Write what is left; False if the store did not take it all in time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)
        return not self.holding()

    def holding(self) -> list[str]:
        """Attempts whose outcome the store does not have yet."""
        with self._changed:
            waiting = [line.attempt for lines in self._waiting.values() for line in lines]
            return waiting + [name for segment in self._segments for name in segment.attempts]

    def counters(self) -> dict[str, float]:
        with self._changed:
            unwritten = sum(map(len, self._waiting.values())) + sum(len(segment.attempts) for segment in self._segments)
        return {
            "outcomes_written": self.written,
            "outcomes_unwritten": unwritten,
            "store_failures": self.store_failures,
            "messages_lost": self.messages_lost,
        }

    def _live(self) -> None:
        pause = _FIRST_PAUSE
        while self._collect():
            began = time.monotonic()
            if self._write_all():
                pause = _FIRST_PAUSE
                self._rest(PERIOD_SECONDS - (time.monotonic() - began))
            else:
                self._rest(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _collect(self) -> bool:
        """Wait for outcomes and cut them into segments; False when closing and nothing is left."""
        with self._changed:
            while not self._waiting and not self._segments and not self._closing:
                self._changed.wait()
            for address, lines in self._waiting.items():
                for start in range(0, len(lines), MOST_IN_SEGMENT):
                    self._segments.append(self._cut(address, lines[start : start + MOST_IN_SEGMENT]))
            self._waiting.clear()
            return bool(self._segments) or not self._closing

    def _cut(self, address: Address, lines: list[Line]) -> Segment:
        self._number += 1
        key = f"{address.write_prefix.rstrip('/')}/{self._incarnation}/{self._number:08d}.jsonl"
        return Segment(address, key, b"".join(line.data for line in lines), tuple(line.attempt for line in lines))

    def _write_all(self) -> bool:
        """False where the store refused a segment; what it took is gone from the list."""
        while self._segments:
            segment = self._segments[0]
            try:
                self._store.put_if_absent(segment.key, segment.data)
            except Exception:  # whatever a bucket's client raises: the outcomes must not be lost with this thread
                self.store_failures += 1
                log.exception("segment %s not written; kept in memory and tried again", segment.key)
                return False
            with self._changed:
                self._segments.pop(0)
            self.written += len(segment.attempts)
            self._tell(segment)
        return True

    def _tell(self, segment: Segment) -> None:
        ready = SegmentReady(
            run_id=segment.address.run_id,
            key=segment.key,
            sha256=hashlib.sha256(segment.data).hexdigest(),
            incarnation=self._incarnation,
            outcomes=len(segment.attempts),
        )
        try:
            self._send(segment.address.reply_job, segment.address.reply_queue, msgspec.to_builtins(ready))
        except Exception:  # any broker, any error: the sweep of the store finds the segment
            self.messages_lost += 1
            log.warning("message of segment %s not sent; the sweep will find it", segment.key, exc_info=True)

    def _rest(self, seconds: float) -> None:
        time.sleep(max(0.0, min(seconds, PERIOD_SECONDS) if self._closing else seconds))
