"""The learner worker. Threads, so that heartbeats go on during a step; one, so that there is one step at a time.

Run as: celery -A learner.jobs:app worker -P threads -c 1 -Q learner --without-gossip --without-mingle
--without-heartbeat
"""

import logging
import sys
from typing import Any

import msgspec
import torch
from celery import Celery, signals
from kombu.exceptions import OperationalError

from learner.messages import LEARNER_QUEUE, TAKE_STEP_JOB, StepReady, StepRequest
from learner.settings import Settings, read_settings
from learner.taking import Folders, StepTaker
from wire.incarnation import Incarnation, Orders
from wire.store import FolderStore, open_store

log = logging.getLogger(__name__)

HEARTBEAT_JOB = "fleet.heartbeat"
CONTROL_QUEUE = "control"
_HOUR = 3600
_ONE_TRY_MORE = {"max_retries": 1, "interval_start": 0.0, "interval_step": 0.2, "interval_max": 0.2}

settings = read_settings()
app = Celery("learner", broker=settings.broker_url, fixups=[])  # else it loads Django where it is configured
app.conf.update(
    broker_connection_max_retries=None,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": _HOUR,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    task_default_queue=LEARNER_QUEUE,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
)


class Worker:
    """One life of this process: its step taker, its heartbeat, its orders."""

    def __init__(self, settings: Settings, consumer: Any) -> None:
        store = open_store(settings.store_url)
        cache = settings.data / "cache" / "learner"
        beside = store.root if isinstance(store, FolderStore) else settings.data / "cache"
        self.incarnation = Incarnation("learner", store, beat, self._status, self._obey)
        self.taker = StepTaker(self.incarnation.id, store, Folders(cache, beside / ".unfinished"), reply)
        self.draining = False
        self._consumer = consumer

    def _status(self) -> dict[str, object]:
        counters = {"steps_taken": float(self.taker.taken), "steps_failed": float(self.taker.failed)}
        holding = list(self.taker.holding)
        return {"capacity": 1, "busy": len(holding), "holding": holding, "counters": counters}

    def _obey(self, orders: Orders) -> None:
        self.taker.obey(orders)
        if orders.drain != self.draining:
            self.draining = orders.drain
            change = self._consumer.cancel_task_queue if orders.drain else self._consumer.add_task_queue
            self._consumer.call_soon(change, LEARNER_QUEUE)


class Process:
    """What this process holds from worker_ready to worker_shutdown."""

    worker: Worker | None = None


def send(job: str, queue: str, argument: object) -> None:
    app.send_task(job, args=[argument], queue=queue, ignore_result=True, retry=True, retry_policy=_ONE_TRY_MORE)


def beat(heartbeat: dict[str, object]) -> None:
    send(HEARTBEAT_JOB, CONTROL_QUEUE, heartbeat)


def reply(request: StepRequest, ready: StepReady) -> None:
    try:
        send(request.reply_job, request.reply_queue, msgspec.to_builtins(ready))
    except OperationalError:  # the outcome is in the store, where the control plane looks anyway
        log.warning("reply of step %s not sent", request.step_id, exc_info=True)


@signals.worker_ready.connect
def start(sender: Any, **_: object) -> None:
    torch.set_num_threads(settings.threads)
    worker = Process.worker = Worker(settings, sender)
    worker.incarnation.start()
    sys.stderr.write(f"learner {worker.incarnation.id} ready: {settings.threads} threads, {settings.store_url}\n")


@signals.worker_shutdown.connect
def stop(**_: object) -> None:
    if Process.worker is not None:
        Process.worker.incarnation.stop()


@app.task(name=TAKE_STEP_JOB)
def take_step(payload: dict[str, object]) -> None:
    """Acknowledged before it runs: a step that dies with this process is found by its missing heartbeat."""
    request = msgspec.convert(payload, StepRequest)
    worker = Process.worker
    if worker is None or worker.draining:  # prefetched before this worker stopped consuming: for another one
        send(TAKE_STEP_JOB, LEARNER_QUEUE, payload)
    else:
        worker.taker.take(request)
