"""One training at a time has the learner: its optimiser state is in memory there, and two would evict each other.

The run that made the newest step keeps it until its training has ended or it is paused; the others wait their turn.
"""

from django.db.models import F, Max

from apps.runs import states
from apps.runs.models import Run


def wants_learner(run: Run) -> bool:
    """It has steps to make yet, and may make them."""
    return run.kind == "training" and run.dispatching and not run.training_ended


def learner_holder() -> Run | None:
    """The run whose turn it is; None while no training wants steps."""
    wanting = Run.objects.of_kind("training").filter(state__in=states.DISPATCHING, training_ended="")
    newest = wanting.annotate(newest_step=Max("steps__id"))
    return newest.order_by(F("newest_step").desc(nulls_last=True), "started_at", "id").first()


def has_learner(run: Run) -> bool:
    holder = learner_holder()
    return holder is not None and holder.pk == run.pk
