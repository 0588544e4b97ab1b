"""Ask for a pass over a run soon. Losing a nudge costs a second at most: the beat looks anyway."""

import logging
import time

from celery import current_app
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)

NUDGE_JOB = "pipeline.nudge"
SECONDS = 1.0
_last: dict[int, float] = {}


def nudge(run_id: int, *, urgent: bool = False) -> None:
    """At most once in so many seconds a process, for a pass looks at everything and costs as much each time.

    Urgent is what somebody waits for idly.
    """
    now = time.monotonic()
    if not urgent and now - _last.get(run_id, 0.0) < SECONDS:
        return
    _last[run_id] = now
    try:
        current_app.send_task(NUDGE_JOB, args=[run_id], queue="control", expires=2)
    except OperationalError:
        log.warning("nudge of run %d not sent", run_id, exc_info=True)
