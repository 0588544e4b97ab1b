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


def adopt_step(run: Run, store: Store, *, now: datetime) -> bool:
    """Look for the outcome of the handed step; True if there was one."""
    step = LearnerStep.objects.of(run).filter(state=states.HANDED).select_related("batch").first()
    if step is None:
        return False
    try:
        outcome = msgspec.json.decode(store.get(step.outcome_key()), type=StepOutcome)
    except MissingObjectError:
        return False
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
        step.keep_error(reason)
        step.batch.move(buffer_states.RETURNED, reason=reason)
        announce(run.stream(), "step.failed", reason, {"version": step.version})
        # The learner that had the parent's optimiser state is gone: go back to where it was written down.
        rewind(run, discard_batch=step.batch, reason=reason, to_resumable=outcome.state == "not_resident")
    if outcome.state == "failed" and _failures_in_a_row(run) >= MOST_FAILURES:
        run.end("failed", now, reason=f"{MOST_FAILURES} learner steps in a row failed; the last one: {reason}")


def _failures_in_a_row(run: Run) -> int:
    count = 0
    for state in LearnerStep.objects.of(run).order_by("-id").values_list("state", flat=True)[:MOST_FAILURES]:
        if state != states.FAILED:
            break
        count += 1
    return count
