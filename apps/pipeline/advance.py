"""Carry one run as far along the flow as it will go. Safe to repeat, and to miss.

Beat and nudges run the same pass. Every step is a transaction of its own; messages go out on commit. A step that breaks
is told of by an alert and does not keep the others from theirs.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from django.db import InterfaceError, OperationalError

from apps.admission.controls import decide, plan_controls
from apps.alerts.models import Alert
from apps.buffer.admit import admit_groups
from apps.checkpoints.adopt import adopt_checkpoints
from apps.checkpoints.publish import Published
from apps.evaluation.plan import plan_evaluations
from apps.pipeline.end import end_if_done, fail_if_hopeless, fail_if_refused, tear_down
from apps.pipeline.learn import feed_learner, settle_training
from apps.pipeline.look_after import expire, publish, retain, watch
from apps.pipeline.plan import plan_rollouts
from apps.pipeline.turn import take_long_turn, take_turn
from apps.rewards.score import score_new
from apps.rollouts.dispatch import dispatch_rollouts
from apps.runs import states
from apps.runs.models import Run
from apps.training.adopt import adopt_step
from apps.training.models import live_versions
from apps.trajectories.record import sweep_segments
from apps.trajectories.store import object_store
from wire.store import Store

log = logging.getLogger(__name__)

OF_ACTIVE_RUNS = (
    *("no-sandbox-worker", "no-learner", "many-learners", "learner-store", "all-flat"),
    *("policy-server", "publish", "pass"),
)
"""Alerts that say what a run waits for: an ended one waits no more."""

NOTHING = Published(frozenset())

Step = tuple[str, Callable[[], object]]


def advance(run: Run, *, now: datetime, sweep: bool = True) -> None:
    """One pass over one active run. Without the sweep, outcomes come by their messages alone."""
    store = object_store()
    broken: list[str] = []
    if run.state == states.CANCELLING:
        _take([("cancel", lambda: tear_down(run, store, now=now))], run, states.ACTIVE, broken)
    else:
        _take(_steps(run, store, now, sweep=sweep), run, states.CARRIED, broken)
        published = _publish(run, now, broken)
        last: list[Step] = [
            ("refused", lambda: fail_if_refused(run, published.refused, now=now)),
            ("dispatch", lambda: dispatch_rollouts(run, live_versions=set(published.versions), now=now)),
            ("watch", lambda: watch(run, now=now)),
            ("end", lambda: end_if_done(run, now=now)),
        ]
        _take(last, run, states.CARRIED, broken)
    Alert.settle(run, "pass", "; ".join(broken), now, severity="broken")
    if run.ended:
        Alert.close(run, OF_ACTIVE_RUNS, now)


def _steps(run: Run, store: Store, now: datetime, *, sweep: bool) -> list[Step]:
    config = run.config
    first: list[Step] = [
        ("begin", lambda: run.state == states.QUEUED and run.begin(now)),
        ("record", lambda: sweep and sweep_segments(run, store, cap=config.attempts, now=now)),
        ("expire", lambda: expire(run, store, cap=config.attempts, now=now)),
    ]
    if run.kind == "admission":
        return [*first, ("decide", lambda: decide(run, now=now)), ("plan", lambda: plan_controls(run))]
    return [
        *first,
        ("learn", lambda: adopt_step(run, store, now=now)),
        ("adopt", lambda: adopt_checkpoints(run)),
        ("score", lambda: score_new(run)),
        ("admit", lambda: admit_groups(run, live_versions=live_versions(run))),
        ("fail", lambda: fail_if_hopeless(run, config, now=now)),
        ("train", lambda: settle_training(run, config, now=now)),
        ("feed", lambda: feed_learner(run, config, store, now=now)),
        ("plan", lambda: plan_rollouts(run, config)),
        ("evaluate", lambda: plan_evaluations(run, config, now=now)),
        ("retain", lambda: retain(run, store)),
    ]


def _take(steps: list[Step], run: Run, within: frozenset[str], broken: list[str]) -> None:
    for name, step in steps:
        try:
            take_turn(run, name, step, within=within)
        except (OperationalError, InterfaceError):
            raise  # the database is away, and with it all that a pass stands on
        except Exception as error:
            log.exception("step %r of run %d broke; the next pass tries again", name, run.pk)
            broken.append(f"{name}: {type(error).__name__}: {error}")


def _publish(run: Run, now: datetime, broken: list[str]) -> Published:
    """What the endpoint serves; nothing if another pass is at it, which then dispatches."""
    if run.state not in states.CARRIED:
        return NOTHING
    try:
        return take_long_turn(run, "publish", lambda: publish(run, now=now)) or NOTHING
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        log.exception("publishing for run %d broke; the next pass tries again", run.pk)
        broken.append(f"publish: {type(error).__name__}: {error}")
        return NOTHING
