"""The beat and the nudges: each only says 'look again'."""

import logging
import time

from celery import shared_task
from django.utils import timezone

from apps.pipeline import end
from apps.pipeline.advance import advance
from apps.pipeline.look_after import check_ledger
from apps.rollouts.cancel import order_stops
from apps.runs.models import Run
from apps.training import hand_over as training
from apps.trajectories.store import object_store

log = logging.getLogger(__name__)

PASS_SECONDS = 1.0
SWEEP_SECONDS = 5.0
"""Between listings of all that workers have stored of a run: finds what no message told of."""


# When this process passed over each run. Another one, which does not know, only passes once more.
_passed: dict[int, float] = {}
_swept: dict[int, float] = {}


@shared_task(name="pipeline.tick")
def tick() -> None:
    """A pass over every active run that no nudge carries on; one that breaks does not keep the others from theirs."""
    for run in Run.objects.active().order_by("id"):
        try:
            sweep = _older(_swept, run, SWEEP_SECONDS)
            if sweep or _older(_passed, run, PASS_SECONDS):
                _pass(run, sweep=sweep)
        except Exception:
            log.exception("the pass over run %d broke; the next one tries again", run.pk)
    order_stops(object_store())
    training.order_stops(object_store())


@shared_task(name="pipeline.nudge")
def nudge(run_id: int) -> None:
    run = Run.objects.active().filter(pk=run_id).first()
    if run is not None:
        _pass(run, sweep=False)  # who nudges has just recorded what it tells of


def _pass(run: Run, *, sweep: bool) -> None:
    advance(run, now=timezone.now(), sweep=sweep)
    _passed[run.pk] = time.monotonic()
    if sweep:
        _swept[run.pk] = time.monotonic()


def _older(last: dict[int, float], run: Run, seconds: float) -> bool:
    return time.monotonic() - last.get(run.pk, -seconds) >= seconds


@shared_task(name="pipeline.sweep_ended")
def sweep_ended() -> None:
    end.sweep_ended(object_store(), now=timezone.now())


@shared_task(name="pipeline.check_ledgers")
def check_ledgers() -> None:
    for run in Run.objects.active().order_by("id"):
        check_ledger(run, now=timezone.now())
