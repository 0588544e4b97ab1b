"""What the fleet hears from its workers."""

from typing import Any

import msgspec
from celery import shared_task
from django.utils import timezone

from apps.fleet.models import Worker
from wire.incarnation import Heartbeat


@shared_task(name="fleet.heartbeat")
def heartbeat(beat: dict[str, Any]) -> None:
    Worker.beat(msgspec.convert(beat, Heartbeat), timezone.now())
