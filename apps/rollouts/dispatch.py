"""Claim, commit, send: rollouts go out only as fast as the workers take them."""

from datetime import datetime
from functools import partial
from math import ceil

import msgspec
from celery import current_app
from django.db import transaction
from django.db.models import Exists, OuterRef

from apps.fleet.models import Worker
from apps.rollouts.claim import claim_rollouts
from apps.rollouts.models import Rollout
from apps.rollouts.request import build_requests
from apps.runs.models import Run
from sandbox_worker.messages import ACCEPT_BATCH_JOB, BATCH_SIZE, ROLLOUTS_QUEUE, RolloutBatch, RolloutRequest

RECORD_JOB = "trajectories.record_segment"
CONTROL_QUEUE = "control"
SURPLUS = 2
"""In flight at most this many times the slots of the workers, so that no worker waits for the next pass."""


def outcome_prefix(run: Run) -> str:
    return f"outcomes/{run.pk}"


def dispatch_rollouts(run: Run, *, live_versions: set[int], now: datetime) -> int:
    """Claim what the workers have room for and send it once that is committed; the number claimed."""
    if not run.dispatching:
        return 0
    revision = run.revision
    config = revision.parsed()
    in_flight = Rollout.objects.of(run).in_flight().count()
    room = min(config.concurrency, _share(now)) - in_flight
    with transaction.atomic():
        claims = claim_rollouts(run, limit=room, live_versions=live_versions, now=now, revision=revision.number)
        requests = build_requests(run, config, claims)
        for start in range(0, len(requests), BATCH_SIZE):
            transaction.on_commit(partial(_send, run, requests[start : start + BATCH_SIZE]))
    return len(requests)


def _share(now: datetime) -> int:
    """Of the workers' slots, for one of the runs that have tries to play: no run takes all, none starves."""
    slots = sum(Worker.objects.of_kind("sandbox").ready(now).values_list("capacity", flat=True))
    runs = Run.objects.dispatching().filter(Exists(Rollout.objects.undone().filter(run=OuterRef("pk")))).count()
    return ceil(SURPLUS * slots / max(1, runs))


def _send(run: Run, requests: list[RolloutRequest]) -> None:
    batch = RolloutBatch(
        run_id=run.pk,
        requests=tuple(requests),
        write_prefix=outcome_prefix(run),
        reply_job=RECORD_JOB,
        reply_queue=CONTROL_QUEUE,
    )
    current_app.send_task(ACCEPT_BATCH_JOB, args=[msgspec.to_builtins(batch)], queue=ROLLOUTS_QUEUE)
