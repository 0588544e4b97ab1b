"""The learner worker: celery -A learner.jobs worker -P threads -c 1 -Q learner

Threads, so that heartbeats go on during a step; one, so that there is one step at a time.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import torch
from celery import Celery
from celery.signals import worker_ready, worker_shutdown
from kombu.exceptions import OperationalError

from learner.messages import LEARNER_QUEUE, TAKE_STEP_JOB, StepReady, StepRequest
from learner.taking import Folders, StepTaker
from wire.incarnation import Incarnation, Orders
from wire.store import FolderStore, open_store

log = logging.getLogger(__name__)

_HEARTBEAT_JOB = "fleet.heartbeat"
_CONTROL_QUEUE = "control"

app = Celery("learner", broker=os.environ.get("ASSAY_BROKER_URL"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": 3600,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    task_default_queue=LEARNER_QUEUE,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=1,
)


class Worker:
    """One life of this process: its step taker, its heartbeat, its orders."""

    def __init__(self, store_url: str, data: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        store = open_store(store_url)
        cache = data / "cache" / "learner"
        beside = store.root / ".unfinished" if isinstance(store, FolderStore) else cache / "unfinished"
        self._consumer: Any = None
        self._incarnation = Incarnation("learner", store, _beat, self._status, self._obey)
        self._taker = StepTaker(self._incarnation.id, store, Folders(cache, beside), _reply)

    def start(self, consumer: Any) -> None:
        self._consumer = consumer
        self._incarnation.start()
        sys.stderr.write(f"learner {self._incarnation.id} ready, {torch.get_num_threads()} threads\n")

    def stop(self) -> None:
        self._incarnation.stop()

    def take(self, request: StepRequest) -> None:
        self._taker.take(request)

    def _status(self) -> dict[str, object]:
        counters = {"steps_taken": float(self._taker.taken), "steps_failed": float(self._taker.failed)}
        holding = list(self._taker.holding)
        return {"capacity": 1, "busy": len(holding), "holding": holding, "counters": counters}

    def _obey(self, orders: Orders) -> None:
        self._taker.obey(orders)
        if orders.drain:
            self._consumer.call_soon(self._consumer.cancel_task_queue, LEARNER_QUEUE)


def _beat(beat: dict[str, object]) -> None:
    app.send_task(_HEARTBEAT_JOB, args=[beat], queue=_CONTROL_QUEUE)


def _reply(request: StepRequest, ready: StepReady) -> None:
    try:
        app.send_task(request.reply_job, args=[msgspec.to_builtins(ready)], queue=request.reply_queue)
    except OperationalError:  # the outcome is in the store, where the control plane looks anyway
        log.warning("reply of step %s not sent", request.step_id, exc_info=True)


_workers: list[Worker] = []


@worker_ready.connect
def _start(sender: Any, **_: object) -> None:
    data = Path(os.environ.get("ASSAY_DATA", "var"))
    worker = Worker(os.environ["ASSAY_STORE_URL"], data, int(os.environ.get("ASSAY_TORCH_THREADS", "2")))
    _workers.append(worker)
    worker.start(sender)


@worker_shutdown.connect
def _stop(**_: object) -> None:
    for worker in _workers:
        worker.stop()


@app.task(name=TAKE_STEP_JOB)
def take_step(request: dict[str, object]) -> None:
    _workers[-1].take(msgspec.convert(request, StepRequest))
