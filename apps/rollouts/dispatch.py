"""Claim, commit, send: rollouts go out only as fast as the workers take them."""

from datetime import datetime, timedelta

import msgspec
from celery import current_app
from django.db import transaction

from apps.fleet.models import Worker
from apps.rollouts.claim import claim_rollouts
from apps.rollouts.models import Rollout
from apps.rollouts.request import build_requests
from apps.runs.models import Run
from sandbox_worker.messages import ACCEPT_BATCH_JOB, BATCH_SIZE, ROLLOUTS_QUEUE, RolloutBatch, RolloutRequest

RECORD_JOB = "trajectories.record_segment"
CONTROL_QUEUE = "control"
ATTEMPT_SECONDS = 600.0
"""On top of the task's own limits: waiting in a worker, restarts of the policy server."""
SURPLUS = 2
"""In flight at most this many times the slots of the workers, so that no worker waits for the next pass."""


def outcome_prefix(run: Run) -> str:
    return f"outcomes/{run.pk}"


def dispatch_rollouts(run: Run, *, live_versions: set[int], now: datetime) -> int:
    """Send what the workers have room for; the number sent."""
    if not run.dispatching:
        return 0
    revision = run.revision
    config = revision.parsed()
    in_flight = Rollout.objects.of(run).in_flight().count()
    room = min(config.concurrency, SURPLUS * _slots(now)) - in_flight
    deadline = now + timedelta(seconds=ATTEMPT_SECONDS)
    with transaction.atomic():
        claims = claim_rollouts(
            run, limit=room, live_versions=live_versions, now=now, deadline=deadline, revision=revision.number
        )
        requests = build_requests(run, config, claims, deadline)
    for start in range(0, len(requests), BATCH_SIZE):
        _send(run, requests[start : start + BATCH_SIZE])
    return len(requests)


def _slots(now: datetime) -> int:
    rows = Worker.objects.of_kind("sandbox").ready(now).values_list("capacity", flat=True)
    return sum(rows)


def _send(run: Run, requests: list[RolloutRequest]) -> None:
    batch = RolloutBatch(
        run_id=run.pk,
        requests=tuple(requests),
        write_prefix=outcome_prefix(run),
        reply_job=RECORD_JOB,
        reply_queue=CONTROL_QUEUE,
    )
    current_app.send_task(ACCEPT_BATCH_JOB, args=[msgspec.to_builtins(batch)], queue=ROLLOUTS_QUEUE)
