"""How a run ends: finished with all it was asked for, failed for a reason, or cancelled once nobody holds anything."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from apps.admission.controls import release, undecided
from apps.buffer.admit import enter_samples, still_to_enter
from apps.checkpoints import states as checkpoint_states
from apps.checkpoints.models import Checkpoint
from apps.checkpoints.retain import sweep_leftovers
from apps.evaluation.models import Evaluation
from apps.evaluation.plan import cancel_evaluations, pinned_versions, short_evaluations
from apps.fleet.models import Worker
from apps.pipeline.learn import no_warm_start
from apps.rollouts.cancel import cancel_rollouts, held_anywhere
from apps.rollouts.models import Rollout
from apps.runs import states
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.training.adopt import give_up_step, keeps_failing
from apps.training.hand_over import held_by_learner
from apps.training.models import LearnerStep
from apps.trajectories.record import sweep_segments
from wire.store import Store

MENDED_BY_IMPORT = (
    "If files of it are damaged or missing in the store, import the same files again: that puts them back. "
    "Then start a new run."
)
SWEPT_AFTER = timedelta(minutes=2)
"""A learner that took the last step has said so by then, and was told to stop it."""


def tear_down(run: Run, store: Store, *, now: datetime) -> None:
    """Carry a cancel out: what is finished stays, and the run ends when nobody holds any of the rest."""
    Worker.objects.declare_gone(now)
    sweep_segments(run, store, cap=run.config.attempts, now=now)
    _put_down(run, reason="the run was cancelled", now=now)
    if held_anywhere(run) == 0 and not held_by_learner(run):
        run.end(states.CANCELLED, now)


def fail_if_hopeless(run: Run, config: RunConfig, *, now: datetime) -> None:
    """A run that cannot go on says why, and stops what it has in flight."""
    if run.kind != "training":
        return
    if reason := keeps_failing(run) or no_warm_start(run, config):
        _fail(run, reason, now)


def fail_if_refused(run: Run, refused: Mapping[int, str], *, now: datetime) -> None:
    """What the server will not have for good, nobody can mend in the run: it would wait for it for ever."""
    if not refused or run.policy is None:
        return
    needed = {run.policy_version} | pinned_versions(run)  # as of now: a rewind may have come in between
    broken = Checkpoint.objects.of(run).stored().filter(version__in=needed & refused.keys()).order_by("version").first()
    if broken is None:
        return
    why = refused[broken.version].rstrip(".")
    if broken.version == 0:
        text = f"The policy server refuses policy {run.policy.name}: {why}. {MENDED_BY_IMPORT}"
        _fail(run, text, now)
    elif broken.move(checkpoint_states.BROKEN, reason=why):
        text = f"The policy server refuses version {broken.version} of {broken.prefix}: {why}. Start a new run."
        _fail(run, text, now)


def sweep_ended(store: Store, *, now: datetime) -> int:
    """Delete what the last steps of ended runs have left: no pass over them comes any more. The number swept."""
    left = Run.objects.filter(finished_at__lt=now - SWEPT_AFTER, steps__swept=False).distinct().order_by("id")
    return sum(sweep_leftovers(run, store) for run in left)


def end_if_done(run: Run, *, now: datetime) -> None:
    if run.state not in states.DISPATCHING or Rollout.objects.of(run).undone().exists() or not quiesced(run):
        return
    if _complete(run) and not still_to_enter(run):
        run.end(states.FINISHED, now)


def quiesced(run: Run) -> bool:
    """Nothing is in flight: safe to stop everything."""
    handed = LearnerStep.objects.of(run).handed().exists()
    return not handed and not Rollout.objects.of(run).in_flight().exists()


def _complete(run: Run) -> bool:
    if run.kind == "admission":
        return undecided(run) == 0
    evaluations = Evaluation.objects.of(run)
    measured = evaluations.filter(version=run.policy_version).finished().exists()
    settled = measured and not evaluations.open().exists() and not short_evaluations(run, run.config).exists()
    return bool(run.training_ended) and settled


def _fail(run: Run, reason: str, now: datetime) -> None:
    if run.end(states.FAILED, now, reason=reason):
        _put_down(run, reason="the run failed", now=now)


def _put_down(run: Run, *, reason: str, now: datetime) -> None:
    cancel_rollouts(run, reason=reason, now=now)
    enter_samples(run)  # what was recorded since the last look: no later one comes
    cancel_evaluations(run)
    give_up_step(run, reason=reason, now=now)
    release(run)
