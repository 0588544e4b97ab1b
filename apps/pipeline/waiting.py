"""Who waits on whom: read off the tables, never stored."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.alerts.models import Alert
from apps.buffer.cut import batch_open
from apps.checkpoints.models import Checkpoint
from apps.evaluation.models import Evaluation
from apps.fleet.models import Worker
from apps.pipeline.learn import all_flat, step_trouble, traces_ready, warm_evaluation_pending
from apps.rollouts.models import Rollout
from apps.runs import states
from apps.runs.models import Run
from apps.training.lease import learner_holder, wants_learner
from apps.training.models import live_steps

PUBLISHES_WITHIN = timedelta(seconds=60)


@dataclass(frozen=True)
class Waiting:
    """One sentence on what holds the run, and whether that is as it should be."""

    who: str
    on: str
    sentence: str
    healthy: bool


def waiting(run: Run, now: datetime) -> Waiting:
    """What the run is doing, or what it waits for."""
    if run.state == states.QUEUED:
        return Waiting("run", "pipeline", "Queued: it starts when the pipeline looks next.", healthy=True)
    if run.ended:
        return Waiting("", "", f"The run is {run.state}.", healthy=run.state == "finished")
    in_flight = Rollout.objects.of(run).in_flight().count()
    planned = Rollout.objects.of(run).filter(state="planned").count()
    if run.state == "paused":
        rest = f"{in_flight} attempts in flight finish first." if in_flight else "Nothing is in flight."
        return Waiting("run", "you", f"Paused. {rest}", healthy=True)
    if run.state == "cancelling":
        return Waiting("run", "workers", "Cancelling: the workers stop what they hold.", healthy=True)
    if (in_flight or planned) and (missing := no_sandbox_worker(now)):
        return Waiting("rollouts", "sandbox worker", missing, healthy=False)
    if planned and not in_flight and (unserved := _unserved(run, now)):
        return unserved
    if wants_learner(run) and (missing := no_learner(now)):
        return Waiting("run", "learner", missing, healthy=False)
    if trouble := step_trouble(run):
        return Waiting("learner", "object store", trouble, healthy=False)
    if flat := all_flat(run, run.config):
        return Waiting("learner", "tasks", flat, healthy=False)
    return _working(run, in_flight, planned)


def no_sandbox_worker(now: datetime) -> str:
    """Why no rollout is played; empty while a worker is ready."""
    workers = Worker.objects.of_kind("sandbox")
    if workers.ready(now).exists():
        return ""
    refusal = workers.refusing().order_by("-sent_at", "-id").first()
    if refusal is None:
        return "No sandbox worker has a fresh heartbeat: rollouts wait. Start one, or look at its log."
    why = f"{refusal.refused} Then start its worker again."
    return f"Rollouts wait for a sandbox worker, and {refusal.host} cannot run one. {why}"


def no_learner(now: datetime) -> str:
    """Why no step is made; empty while a learner is ready."""
    if Worker.objects.of_kind("learner").ready(now).exists():
        return ""
    return "No learner has a fresh heartbeat: no step is made. Start one, or look at its log."


def _unserved(run: Run, now: datetime) -> Waiting | None:
    """None if the policy server serves a version that planned rollouts need, or if a script plays some of them."""
    planned = Rollout.objects.of(run).filter(state="planned")
    wanted = set(planned.values_list("group__script", "group__pinned_version"))
    if run.endpoint is None or any(script for script, _ in wanted):
        return None
    if not run.endpoint.healthy:
        return Waiting("rollouts", "policy server", "Rollouts wait for the policy server.", healthy=False)
    versions = {run.policy_version if pinned is None else pinned for _, pinned in wanted}
    if not versions or any(run.served_name(version) in run.endpoint.served for version in versions):
        return None
    version = min(versions)
    refused = Alert.objects.open().filter(run=run, kind="publish").exists()
    made = Checkpoint.objects.of(run).filter(version=version, made_at__gt=now - PUBLISHES_WITHIN)
    sentence = f"Rollouts wait for the policy server to serve version {version}."
    return Waiting("rollouts", "policy server", sentence, healthy=made.exists() and not refused)


def _working(run: Run, in_flight: int, planned: int) -> Waiting:
    if run.kind == "admission":
        return Waiting("tasks", "controls", f"Controls run: {in_flight} in flight, {planned} planned.", healthy=True)
    stepping = batch_open(run)
    config = run.config
    holder = learner_holder()
    if holder is not None and holder.pk != run.pk and run.kind == "training" and not (run.training_ended or in_flight):
        return Waiting("learner", "another run", f"Run {holder.pk} has the learner; this one is next.", healthy=True)
    if live_steps(run, "sft") < config.sft_steps:
        if not traces_ready(run):
            return Waiting("learner", "traces", "The reference traces are being executed.", healthy=True)
        return Waiting("learner", "itself", "The warm start is running.", healthy=True)
    if Evaluation.objects.of(run).open().exists() and (run.training_ended or warm_evaluation_pending(run, config)):
        return Waiting(
            "run", "evaluation", f"An evaluation is running: {planned + in_flight} tries left.", healthy=True
        )
    if stepping and in_flight + planned:
        return Waiting("", "", "Sampling and learning overlap.", healthy=True)
    if stepping:
        return Waiting("sampler", "learner", "The sampler waits for new weights.", healthy=True)
    return Waiting("learner", "sampler", "The learner waits for graded groups.", healthy=True)
