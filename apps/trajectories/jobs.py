"""Where the sandbox workers' replies arrive."""

from typing import Any

import msgspec
from celery import shared_task
from django.utils import timezone

from apps.runs.models import Run
from apps.runs.nudge import nudge
from apps.trajectories.record import record_segment as record
from apps.trajectories.store import object_store
from sandbox_worker.messages import SegmentReady


@shared_task(name="trajectories.record_segment")
def record_segment(message: dict[str, Any]) -> None:
    ready = msgspec.convert(message, SegmentReady)
    run = Run.objects.get(pk=ready.run_id)
    data = object_store().get(ready.key)
    record(run, ready.key, data, sha256=ready.sha256, cap=run.config.attempts, now=timezone.now())
    nudge(run.pk)
