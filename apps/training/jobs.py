"""Where the learner's replies arrive: they only say that there is something to look at."""

from typing import Any

import msgspec
from celery import shared_task

from apps.runs.nudge import nudge
from learner.messages import StepReady


@shared_task(name="training.step_ready")
def step_ready(message: dict[str, Any]) -> None:
    nudge(msgspec.convert(message, StepReady).run_id, urgent=True)
