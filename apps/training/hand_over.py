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
from learner.messages import LEARNER_QUEUE, TAKE_STEP_JOB, StepRequest, StepSettings

REPLY_JOB = "training.step_ready"
CONTROL_QUEUE = "control"
STEP_SECONDS = 1800.0
UNHELD_AFTER = timedelta(seconds=25)


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


def resend_unheld(run: Run, config: RunConfig, *, now: datetime) -> bool:
    """Send the handed step again if no learner holds it and none has answered; True if it was sent."""
    step = LearnerStep.objects.of(run).filter(state=states.HANDED).first()
    if step is None or step.sent_at > now - UNHELD_AFTER:
        return False
    learners = list(Worker.objects.of_kind("learner").ready(now))
    held = {entry for worker in learners for entry in worker.holding}
    spoken = any(worker.heartbeat_at > step.sent_at + UNHELD_AFTER for worker in learners)
    if f"{step.pk}:{step.fence}" in held or not spoken:
        return False
    send(step, config, now=now)
    return True


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
