"""What the learner made becomes the newest version, or the reason why it could not."""

import logging
from datetime import UTC, datetime, timedelta

import msgspec
from django.db import transaction

from apps.buffer import states as buffer_states
from apps.buffer.models import Sample
from apps.lifecycle.announce import announce
from apps.runs.models import Run
from apps.training import states
from apps.training.hand_over import send_again
from apps.training.models import LearnerStep
from apps.training.rewind import give_back
from learner.messages import StepOutcome
from wire.store import MissingObjectError, Store

log = logging.getLogger(__name__)

MOST_FAILURES = 3
STORE_TROUBLE = {
    "not_read": "The learner cannot read what checkpoint {version} is made of",
    "not_written": "The learner cannot write checkpoint {version}",
}
"""Outcomes that may be another the next time, in words: the disk is full, or the bucket does not answer."""
AGAIN_AFTER = timedelta(seconds=30)


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
    elif outcome.state in STORE_TROUBLE:
        _try_again(run, step, outcome, now)
    else:
        reason = outcome.error or outcome.state
        # The learner that had the parent's optimiser state is gone: go back to where it was written down.
        give_back(run, step, reason=reason, now=now, to_resumable=outcome.state == "not_resident")
    return True


def _try_again(run: Run, step: LearnerStep, outcome: StepOutcome, now: datetime) -> None:
    """The store would not give or take; the learner still has what it made. Each wait is longer than the last."""
    trouble = f"{STORE_TROUBLE[outcome.state].format(version=step.version)}: {outcome.error}"
    if step.note_trouble(trouble):
        announce(run.stream(), "step.waits", trouble, {"version": step.version})
    if now >= step.sent_at + step.fence * AGAIN_AFTER:
        send_again(run, step, run.config, trouble=trouble, now=now)


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
