"""Carry one run as far along the flow as it will go. Safe to repeat, and to miss.

Beat and nudges run the same pass. Every step is a transaction of its own; messages go out on commit.
"""

from collections.abc import Callable
from datetime import datetime

from apps.admission.controls import decide, plan_controls, undecided
from apps.buffer.admit import admit_groups
from apps.checkpoints.adopt import adopt_checkpoints
from apps.checkpoints.publish import publish_versions
from apps.evaluation.models import Evaluation
from apps.evaluation.plan import cancel_evaluations, pinned_versions, plan_evaluations
from apps.pipeline.learn import feed_learner, settle_training
from apps.pipeline.look_after import retain, watch
from apps.pipeline.plan import plan_rollouts
from apps.pipeline.turn import take_turn
from apps.rewards.score import score_new
from apps.rollouts.cancel import cancel_rollouts, held_anywhere
from apps.rollouts.dispatch import dispatch_rollouts
from apps.rollouts.expire import expire_attempts
from apps.rollouts.models import Rollout
from apps.runs import states
from apps.runs.models import Run
from apps.training.adopt import adopt_step
from apps.training.models import LearnerStep, live_versions
from apps.trajectories.record import sweep_segments
from apps.trajectories.store import object_store


def advance(run: Run, *, now: datetime) -> None:
    """One pass over one active run."""
    if run.state == states.QUEUED:
        run.begin(now)
    for name, step in _steps(run, now):
        run.refresh_from_db()
        if run.state not in states.ACTIVE:
            return
        take_turn(run, name, step)


def _steps(run: Run, now: datetime) -> list[tuple[str, Callable[[], object]]]:
    store = object_store()
    config = run.config
    cap = config.attempts
    if run.state == states.CANCELLING:
        return [("cancel", lambda: _cancel(run, now))]
    steps: list[tuple[str, Callable[[], object]]] = [
        ("record", lambda: sweep_segments(run, store, cap=cap, now=now)),
        ("expire", lambda: expire_attempts(run, cap=cap, now=now)),
    ]
    if run.kind == "admission":
        steps += [("decide", lambda: decide(run, now=now)), ("plan", lambda: plan_controls(run))]
    else:
        steps += [
            ("learn", lambda: adopt_step(run, store, now=now)),
            ("adopt", lambda: adopt_checkpoints(run)),
            ("score", lambda: score_new(run)),
            ("admit", lambda: admit_groups(run, live_versions=live_versions(run), now=now)),
            ("train", lambda: settle_training(run, config, now=now)),
            ("feed", lambda: feed_learner(run, config, store, now=now)),
            ("plan", lambda: plan_rollouts(run, config)),
            ("evaluate", lambda: plan_evaluations(run, config, now=now)),
            ("retain", lambda: retain(run, store)),
        ]
    steps += [
        ("dispatch", lambda: _dispatch(run, now)),
        ("watch", lambda: watch(run, now=now)),
        ("end", lambda: _end(run, now)),
    ]
    return steps


def _dispatch(run: Run, now: datetime) -> int:
    live = publish_versions(run, {run.policy_version} | pinned_versions(run), now=now)
    return dispatch_rollouts(run, live_versions=live, now=now)


def _cancel(run: Run, now: datetime) -> None:
    cancel_rollouts(run, reason="the run was cancelled", now=now)
    cancel_evaluations(run)
    if held_anywhere(run) == 0 and not LearnerStep.objects.of(run).filter(state="handed").exists():
        run.end(states.CANCELLED, now)
    else:
        adopt_step(run, object_store(), now=now)


def quiesced(run: Run) -> bool:
    """Nothing is in flight: safe to stop everything."""
    handed = LearnerStep.objects.of(run).filter(state="handed").exists()
    return not handed and not Rollout.objects.of(run).in_flight().exists()


def _end(run: Run, now: datetime) -> None:
    if run.state not in states.DISPATCHING or Rollout.objects.of(run).undone().exists() or not quiesced(run):
        return
    if run.kind == "admission":
        if undecided(run) == 0:
            run.end(states.FINISHED, now)
        return
    if Evaluation.objects.of(run).open().exists():
        return
    if not run.training_ended:
        return
    if Evaluation.objects.of(run).filter(version=run.policy_version).finished().exists():
        run.end(states.FINISHED, now)
