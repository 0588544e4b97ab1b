"""What the learner made becomes the newest version, or the reason why it could not."""

import logging
from datetime import UTC, datetime

import msgspec
from django.db import transaction

from apps.buffer import states as buffer_states
from apps.buffer.models import Sample
from apps.lifecycle.announce import announce
from apps.runs.models import Run
from apps.training import states
from apps.training.models import LearnerStep
from apps.training.rewind import rewind
from learner.messages import StepOutcome
from wire.store import MissingObjectError, Store

log = logging.getLogger(__name__)

MOST_FAILURES = 3


class WrongOutcomeError(Exception):
    """What lies where a step's outcome belongs is another's."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is not the outcome of its step")
        self.key = key


def adopt_step(run: Run, store: Store, *, now: datetime) -> bool:
    """Look for the outcome of the handed step; True if there was one."""
    step = LearnerStep.objects.of(run).filter(state=states.HANDED).select_related("batch").first()
    if step is None:
        return False
    try:
        outcome = msgspec.json.decode(store.get(step.outcome_key()), type=StepOutcome)
    except MissingObjectError:
        return False
    if (outcome.run_id, outcome.step_id, outcome.fence) != (run.pk, step.pk, step.fence):
        raise WrongOutcomeError(step.outcome_key())
    if outcome.state == "made":
        _apply(run, step, outcome)
    else:
        _give_back(run, step, outcome, now)
    return True


def _apply(run: Run, step: LearnerStep, outcome: StepOutcome) -> None:
    with transaction.atomic():
        if not step.move(states.APPLIED):
            return
        step.keep_result(
            prefix=outcome.prefix,
            digest=outcome.digest,
            size_bytes=outcome.size_bytes,
            resumable=outcome.resumable,
            metrics=msgspec.to_builtins(outcome.metrics),
            finished_at=datetime.fromtimestamp(outcome.finished_at, UTC),
        )
        step.batch.move(buffer_states.APPLIED)
        Sample.objects.filter(batch=step.batch).update(state=buffer_states.TRAINED)
        run.take_version(step.version)
        announce(
            run.stream(),
            "policy.made",
            f"{step.kind.upper()} step {step.number} made version {step.version}",
            {"version": step.version, "kind": step.kind},
        )


def _give_back(run: Run, step: LearnerStep, outcome: StepOutcome, now: datetime) -> None:
    reason = outcome.error or outcome.state
    with transaction.atomic():
        if not step.move(states.FAILED, reason=reason):
            return
        step.keep_error(reason, now)
        step.batch.move(buffer_states.RETURNED, reason=reason)
        announce(run.stream(), "step.failed", reason, {"version": step.version})
        # The learner that had the parent's optimiser state is gone: go back to where it was written down.
        rewind(run, discard_batch=step.batch, reason=reason, to_resumable=outcome.state == "not_resident")


def give_up_step(run: Run, *, reason: str, now: datetime) -> None:
    """The run is being torn down: the handed step, if any, will not be looked at."""
    step = LearnerStep.objects.of(run).filter(state=states.HANDED).select_related("batch").first()
    if step is None:
        return
    with transaction.atomic():
        if step.move(states.FAILED, reason=reason):
            step.keep_error(reason, now)
            step.batch.move(buffer_states.RETURNED, reason=reason)
            Sample.objects.filter(batch=step.batch).discard(buffer_states.CUT_SHORT)


def keeps_failing(run: Run) -> str:
    """Why no further step is worth a try; empty while one is. A lost optimiser state fails a step too, but once."""
    newest = list(LearnerStep.objects.of(run).order_by("-id")[:MOST_FAILURES])
    if len(newest) < MOST_FAILURES or any(step.state != states.FAILED for step in newest):
        return ""
    return f"{MOST_FAILURES} learner steps in a row failed; the last one: {newest[0].error}"
