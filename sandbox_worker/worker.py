"""One sandbox worker process: its back end, its engine, its heartbeat, and an end that leaves nothing behind."""

import logging
import os
import threading
import time
from collections.abc import Callable

from sandbox_worker.boxes import Boxes
from sandbox_worker.engine import Engine
from sandbox_worker.examination import Examination
from sandbox_worker.messages import RolloutBatch
from sandbox_worker.outcomes import OutcomeWriter, SendMessage
from sandbox_worker.policy_client import PolicyClient
from sandbox_worker.rollout import Means, Rollout
from sandbox_worker.sandbox.base import Backend
from sandbox_worker.sandbox.choose import open_proved
from sandbox_worker.sandbox.examine import host_findings
from sandbox_worker.sandbox.findings import Finding
from sandbox_worker.sandbox.images.choose import builder_of
from sandbox_worker.sandbox.images.store import ImageStore
from sandbox_worker.sandbox.meeting import RECORDS, STARTS, make_meeting_folder
from sandbox_worker.sandbox.pool import WarmPool
from sandbox_worker.sandbox.preflight import tried
from sandbox_worker.sandbox.register import Register
from sandbox_worker.sandbox.starts import StartLimiter
from sandbox_worker.settings import Settings
from sandbox_worker.task_content import Tasks
from sandbox_worker.tokenization import Tokenizers
from wire.incarnation import Incarnation, Orders
from wire.store import open_store

log = logging.getLogger(__name__)

REAP_SECONDS = 15.0
CLOSE_SECONDS = 5.0


class Worker:
    """Opened before the first batch, started when batches may come, closed once."""

    def __init__(
        self,
        settings: Settings,
        send: SendMessage,
        send_heartbeat: Callable[[dict[str, object]], None],
        on_drain: Callable[[bool], None],
    ) -> None:
        """Raises HostCannotIsolateError."""
        self._settings = settings
        self._on_drain = on_drain
        store = open_store(settings.store_url)
        images = ImageStore(settings.images, store)
        proved = open_proved(settings.boxes, images.lease)
        self._backend, self._about = proved.backend, proved.about
        self._examination = Examination((*self._look_at_host(), *proved.findings), self._examine)
        self._pool = open_pool(self._backend, settings)
        self._boxes = Boxes(self._pool)
        self._boxes.reap()
        self._incarnation = Incarnation("sandbox", store, send_heartbeat, self._status, self._obey)
        self._policy_client = PolicyClient(connections=settings.slots)
        self._writer = OutcomeWriter(store, self._incarnation.id, send)
        means = Means(
            boxes=self._boxes,
            images=builder_of(proved, images),
            tasks=Tasks(store),
            tokenizers=Tokenizers(store),
            policy_client=self._policy_client,
            incarnation=self._incarnation.id,
        )
        self.engine = Engine(settings.slots, lambda attempt: Rollout(attempt, means).play(), self._writer.put)
        self.draining = False
        """No new rollouts are wanted; those accepted are finished."""
        self._closed = threading.Event()
        self._reaper = threading.Thread(target=self._reap, name="reaper", daemon=True)

    def accept(self, batch: RolloutBatch) -> None:
        """Raises EngineClosedError."""
        self.engine.accept(batch)
        self._incarnation.beat_soon()

    def start(self) -> None:
        self._reaper.start()
        self._incarnation.start()

    def close(self) -> None:
        """Kill what runs, write what is finished, say goodbye: within CLOSE_SECONDS."""
        if self._closed.is_set():
            return
        self._closed.set()
        until = time.monotonic() + CLOSE_SECONDS
        if not self.engine.close(timeout=CLOSE_SECONDS / 2):
            log.error("%d rollouts did not stop; their boxes die with this process", self.engine.busy)
        if not self._writer.close(timeout=max(0.1, until - time.monotonic())):
            log.error("not every outcome could be written: %s", self._writer.counters())
        self._incarnation.stop()
        self._policy_client.close()
        self._pool.close()  # last: what of it breaks, or takes its time, the next worker's reaper finds

    def _reap(self) -> None:
        while not self._closed.wait(REAP_SECONDS):
            self._boxes.reap()
            self._examination.repeat_if_due(time.monotonic())

    def _examine(self) -> tuple[Finding, ...]:
        return (*self._look_at_host(), *tried(self._backend, self._about))

    def _look_at_host(self) -> tuple[Finding, ...]:
        return host_findings(self._settings.data, self._settings.boxes, self._about)

    def _status(self) -> dict[str, object]:
        boxes = self._boxes.report()
        return {
            "capacity": self.engine.slots,
            "busy": self.engine.busy,
            # The engine is asked first: what it hands to the writer in between is told of twice, never missed.
            "holding": list(dict.fromkeys([*self.engine.holding(), *self._writer.holding()])),
            "isolation": self._backend.isolation,
            "weaker": self._backend.weaker,
            "counters": boxes.counters | self.engine.counters() | self._writer.counters(),
            "warm": boxes.warm,
            "trouble": boxes.trouble,
            **self._examination.to_tell(time.monotonic()),
        }

    def _obey(self, orders: Orders) -> None:
        if orders.drain != self.draining:
            self.draining = orders.drain
            log.info("draining: no new rollouts" if orders.drain else "no longer draining")
            self._on_drain(orders.drain)
        if cancelled := self.engine.cancel(orders.cancelled):
            log.info("cancelled %d rollouts", cancelled)
            self._incarnation.beat_soon()


def open_pool(backend: Backend, settings: Settings) -> WarmPool:
    meeting = make_meeting_folder(settings.meeting)
    limiter = StartLimiter(max(4, 2 * (os.cpu_count() or 1)), meeting and meeting / STARTS)
    return WarmPool(backend, limiter, most=settings.warm_boxes, register=Register(meeting and meeting / RECORDS))
