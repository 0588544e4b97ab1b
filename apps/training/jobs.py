"""Where the learner's replies arrive: they only say that there is something to look at."""

from typing import Any

import msgspec
from celery import current_app, shared_task

from learner.messages import StepReady

NUDGE_JOB = "pipeline.nudge"


@shared_task(name="training.step_ready")
def step_ready(message: dict[str, Any]) -> None:
    ready = msgspec.convert(message, StepReady)
    current_app.send_task(NUDGE_JOB, args=[ready.run_id], queue="control")
