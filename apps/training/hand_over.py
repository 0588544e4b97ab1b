"""A cut batch goes to the learner's queue under a fence; what the learner never got is sent again."""

from datetime import datetime, timedelta

import msgspec
from celery import current_app
from django.db import transaction

from apps.buffer import states as buffer_states
from apps.buffer.models import Batch
from apps.fleet.models import Worker
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.training import states
from apps.training.models import LearnerStep, live_steps
from apps.training.rewind import give_back
from learner.messages import LEARNER_QUEUE, TAKE_STEP_JOB, StepRequest, StepSettings
from wire.incarnation import Orders, orders_key
from wire.store import Store

REPLY_JOB = "training.step_ready"
CONTROL_QUEUE = "control"
STEP_SECONDS = 1800.0
UNHELD_AFTER = timedelta(seconds=25)
MOST_SENDINGS = 5


def hand_over(run: Run, batch: Batch, *, now: datetime) -> LearnerStep:
    """Make a step of a batch and send it once this commits."""
    revision = run.revision
    config = revision.parsed()
    done = live_steps(run, batch.kind)
    with transaction.atomic():
        step = LearnerStep.objects.create(
            run=run,
            batch=batch,
            kind=batch.kind,
            number=live_steps(run, "sft") + live_steps(run, "grpo") + 1,
            parent_version=run.policy_version,
            version=run.next_version(),
            config_revision=revision.number,
            resumable=batch.kind == "grpo" and (done + 1) % config.resumable_every == 0,
            handed_at=now,
            sent_at=now,
            waited_seconds=_idle_seconds(run, now),
        )
        batch.move(buffer_states.BATCH_HANDED)
        send(step, config, now=now)
    return step


def resend_unheld(run: Run, config: RunConfig, store: Store, *, now: datetime) -> bool:
    """Send the handed step again if no learner holds it and none has answered; True if it was sent."""
    step = LearnerStep.objects.of(run).filter(state=states.HANDED).select_related("batch").first()
    # A learner writes the outcome, then says that it holds the step no more: look for it after having heard that.
    if step is None or not _lost(step, now) or any(store.list(step.outcome_key())):
        return False
    trouble = "no learner answered: it dies of this step, or is killed; look at its log"
    return send_again(run, step, config, trouble=trouble, now=now)


def send_again(run: Run, step: LearnerStep, config: RunConfig, *, trouble: str, now: datetime) -> bool:
    """Under a new fence; a step that was sent too often fails of its trouble. True if it was sent."""
    if step.fence >= MOST_SENDINGS:
        give_back(run, step, reason=f"{MOST_SENDINGS} times: {trouble}", now=now)
        return False
    send(step, config, now=now)
    return True


def _lost(step: LearnerStep, now: datetime) -> bool:
    """A learner with nothing to do would have taken it; while all are busy with other runs it waits in the queue."""
    learners = list(Worker.objects.of_kind("learner").ready(now))
    if any(f"{step.pk}:{step.fence}" in worker.holding for worker in learners):
        return False
    if step.sent_at < now - timedelta(seconds=STEP_SECONDS):
        return True
    return any(not worker.holding and worker.spoke_at > step.sent_at + UNHELD_AFTER for worker in learners)


def order_stops(store: Store) -> int:
    """Order each learner to stop the steps whose outcome will not be looked at; the number ordered."""
    ordered = 0
    handed = {f"{pk}:{fence}" for pk, fence in LearnerStep.objects.handed().values_list("pk", "fence")}
    for worker in Worker.objects.of_kind("learner").present():
        useless = frozenset(worker.holding) - handed
        if useless:
            store.put(orders_key(worker.incarnation), msgspec.json.encode(Orders(cancelled=useless)))
            ordered += len(useless)
    return ordered


def held_by_learner(run: Run) -> bool:
    """True while a present learner holds a step of this run."""
    return LearnerStep.objects.of(run).filter(pk__in=held_steps()).exists()


def held_steps() -> set[int]:
    """What present learners hold, of any run."""
    holding = [entry for worker in Worker.objects.of_kind("learner").present() for entry in worker.holding]
    return {int(entry.split(":")[0]) for entry in holding}


def send(step: LearnerStep, config: RunConfig, *, now: datetime) -> None:
    """Publish the request under a new fence, on commit."""
    with transaction.atomic():
        step.send_again(now)
        request = _request(step, config, now)
        transaction.on_commit(
            lambda: current_app.send_task(TAKE_STEP_JOB, args=[msgspec.to_builtins(request)], queue=LEARNER_QUEUE)
        )


def _idle_seconds(run: Run, now: datetime) -> float:
    last = LearnerStep.objects.of(run).exclude(finished_at=None).order_by("-finished_at").first()
    if last is None or last.finished_at is None:
        return 0.0
    return max(0.0, (now - last.finished_at).total_seconds())


def _request(step: LearnerStep, config: RunConfig, now: datetime) -> StepRequest:
    done = live_steps(step.run, step.kind)
    return StepRequest(
        run_id=step.run_id,
        step_id=step.pk,
        number=step.number,
        kind="sft" if step.kind == "sft" else "grpo",
        fence=step.fence,
        deadline=now.timestamp() + STEP_SECONDS,
        batch_key=step.batch.key,
        parent_version=step.parent_version,
        version=step.version,
        parent_prefix=weights_prefix(step.run, step.parent_version),
        fresh_optimizer=done == 0,
        write_prefix=step.write_prefix(),
        resumable=step.resumable,
        settings=_settings(step.kind, config, done),
        outcome_key=step.outcome_key(),
        reply_job=REPLY_JOB,
        reply_queue=CONTROL_QUEUE,
    )


def _settings(kind: str, config: RunConfig, done: int) -> StepSettings:
    rate = config.learning_rate
    if kind == "sft":
        rate = config.sft_learning_rate * min(1.0, (done + 1) / max(1, config.sft_warmup_steps))
    return StepSettings(
        learning_rate=rate,
        temperature=config.temperature if kind == "grpo" else 1.0,
        betas=(config.beta_1, config.beta_2),
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        importance_cap=config.importance_cap,
    )


def weights_prefix(run: Run, version: int) -> str:
    """Where the weights of a version lie; version 0 is the policy itself."""
    if version == 0:
        if run.policy is None:
            raise ValueError(f"run {run.pk} has no policy to train")
        return run.policy.prefix
    return LearnerStep.objects.of(run).get(version=version).prefix
