"""The verbs of a run: each asks for a state; the pipeline carries it out. Asking twice changes nothing."""

from apps.runs import states
from apps.runs.models import Run


class ControlError(Exception):
    """A verb that this run cannot obey any more."""

    def __init__(self, verb: str, run: Run, way_out: str) -> None:
        super().__init__(f"Cannot {verb} a run that is {run.state}. {way_out}")
        self.verb = verb
        self.way_out = way_out


def pause(run: Run, actor: str, reason: str = "") -> bool:
    """Stop dispatch; what is in flight finishes. False if it was paused already."""
    if run.state == states.PAUSED:
        return False
    if run.state not in (states.QUEUED, states.RUNNING, states.DRAINING):
        raise ControlError("pause", run, "Only a queued or running run can be paused.")
    return run.move(states.PAUSED, actor=actor, reason=reason)


def resume(run: Run, actor: str, reason: str = "") -> bool:
    """Dispatch again. False if it was running already."""
    if run.state in (states.RUNNING, states.QUEUED):
        return False
    if run.state != states.PAUSED:
        raise ControlError("resume", run, "Only a paused run can be resumed; clone an ended one.")
    return run.move(states.RUNNING if run.started_at else states.QUEUED, actor=actor, reason=reason)


def cancel(run: Run, actor: str, reason: str = "") -> bool:
    """Tear down what is in flight; finished rollouts and checkpoints stay. False if it was being cancelled already."""
    if run.state in (states.CANCELLING, states.CANCELLED):
        return False
    if run.state == states.DRAFT:
        return run.move(states.CANCELLED, actor=actor, reason=reason)
    if run.state in states.ENDED:
        raise ControlError("cancel", run, "It has ended; there is nothing in flight.")
    return run.move(states.CANCELLING, actor=actor, reason=reason)
