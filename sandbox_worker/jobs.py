"""The Celery app of the sandbox workers: one job that takes a batch, and the life of the process around it.

Run as: celery -A sandbox_worker.jobs:app worker -P threads -c 2 -Q rollouts --without-gossip --without-mingle
--without-heartbeat
"""

import logging
import sys
import threading
from typing import Any

from celery import Celery, signals

from sandbox_worker.batch import BadBatchError, decode_batch
from sandbox_worker.engine import EngineClosedError
from sandbox_worker.examination import messages_of
from sandbox_worker.messages import ACCEPT_BATCH_JOB, ROLLOUTS_QUEUE
from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.examine import host_findings
from sandbox_worker.sandbox.findings import BUBBLEWRAP, refused
from sandbox_worker.settings import read_settings
from sandbox_worker.worker import Worker
from wire.incarnation import refusal

log = logging.getLogger(__name__)

HEARTBEAT_JOB = "fleet.heartbeat"
CONTROL_QUEUE = "control"
CANNOT_ISOLATE_EXIT = 78
REFUSAL_SECONDS = 3.0
"""What a broker that is away may hold up the end of a worker that cannot work here."""
_HOUR = 3600
_ONE_TRY_MORE = {"max_retries": 1, "interval_start": 0.0, "interval_step": 0.2, "interval_max": 0.2}

settings = read_settings()
app = Celery("sandbox_worker", broker=settings.broker_url, fixups=[])  # else it loads Django where it is configured
app.conf.update(
    task_ignore_result=True,
    task_default_queue=ROLLOUTS_QUEUE,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": _HOUR,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
)


class Process:
    """What this process holds from worker_init to worker_shutdown."""

    worker: Worker | None = None
    consumer: Any = None
    """Celery's, from worker_ready on."""


@app.task(name=ACCEPT_BATCH_JOB)
def accept_batch(payload: dict[str, Any]) -> None:
    """Acknowledged before it runs: what dies with this process is found by its missing heartbeat."""
    worker = Process.worker
    try:
        batch = decode_batch(payload)
        if worker is None or worker.draining:
            raise EngineClosedError("this worker takes no more rollouts")
        worker.accept(batch)
    except BadBatchError as error:
        log.warning("%s", error)
    except EngineClosedError:  # prefetched before this worker stopped consuming: for another one
        send(ACCEPT_BATCH_JOB, ROLLOUTS_QUEUE, payload)


def consume(draining: bool) -> None:
    """Stop taking batches while draining, and begin again after it."""
    if Process.consumer is not None:
        change = Process.consumer.cancel_task_queue if draining else Process.consumer.add_task_queue
        Process.consumer.call_soon(change, ROLLOUTS_QUEUE)


def send(job: str, queue: str, argument: dict[str, Any]) -> None:
    app.send_task(job, args=[argument], queue=queue, ignore_result=True, retry=True, retry_policy=_ONE_TRY_MORE)


def send_heartbeat(beat: dict[str, object]) -> None:
    send(HEARTBEAT_JOB, CONTROL_QUEUE, beat)


def tell_refusal(error: HostCannotIsolateError) -> None:
    """For the pages. This process ends soon after it, whether or not the broker took it."""
    found = (*host_findings(settings.data, settings.boxes), *refused(BUBBLEWRAP, error))
    beat = refusal("sandbox", str(error), messages_of(found))
    telling = threading.Thread(target=_send_refusal, args=(beat,), name="refusal", daemon=True)
    telling.start()
    telling.join(REFUSAL_SECONDS)


def _send_refusal(beat: dict[str, object]) -> None:
    try:
        send_heartbeat(beat)
    except Exception as error:  # noqa: BLE001 (whatever kept it, the worker's own words stand in its log)
        log.warning("the control plane could not be told: %s", error)


@signals.worker_init.connect
def open_worker(**_: object) -> None:
    try:
        Process.worker = Worker(settings, send, send_heartbeat, consume)
    except HostCannotIsolateError as error:
        sys.stderr.write(f"{error}\n")
        tell_refusal(error)
        raise SystemExit(CANNOT_ISOLATE_EXIT) from error


@signals.worker_ready.connect
def start_worker(sender: object, **_: object) -> None:
    Process.consumer = sender
    if Process.worker is not None:
        Process.worker.start()


@signals.worker_shutdown.connect
def close_worker(**_: object) -> None:
    if Process.worker is not None:
        Process.worker.close()
