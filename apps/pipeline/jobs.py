"""The beat and the nudges: each only says 'look again'."""

import logging

from celery import shared_task
from django.utils import timezone

from apps.pipeline.advance import advance
from apps.pipeline.look_after import check_ledger
from apps.rollouts.cancel import order_stops
from apps.runs.models import Run
from apps.training import hand_over as training
from apps.trajectories.store import object_store

log = logging.getLogger(__name__)


@shared_task(name="pipeline.tick")
def tick() -> None:
    """Every active run gets a pass; one that breaks does not keep the others from theirs."""
    for run in Run.objects.active().order_by("id"):
        try:
            advance(run, now=timezone.now())
        except Exception:
            log.exception("the pass over run %d broke; the next one tries again", run.pk)
    order_stops(object_store())
    training.order_stops(object_store())


@shared_task(name="pipeline.nudge")
def nudge(run_id: int) -> None:
    run = Run.objects.active().filter(pk=run_id).first()
    if run is not None:
        # Listing all segments of a long run is for the tick: who nudges has just recorded what it tells of.
        advance(run, now=timezone.now(), sweep=False)


@shared_task(name="pipeline.check_ledgers")
def check_ledgers() -> None:
    for run in Run.objects.active().order_by("id"):
        check_ledger(run, now=timezone.now())
