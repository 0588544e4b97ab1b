"""The verbs of a run: each asks for a state; the pipeline carries it out. Asking twice changes nothing.

A pass may move the run between the look and the move: then the verb looks again, and never says that it did nothing.
"""

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
    while run.state != states.PAUSED:
        if run.state not in (states.QUEUED, states.RUNNING, states.DRAINING):
            raise ControlError("pause", run, "Only a queued or running run can be paused.")
        if run.move(states.PAUSED, actor=actor, reason=reason):
            return True
    return False


def resume(run: Run, actor: str, reason: str = "") -> bool:
    """Dispatch again. False if it was running already."""
    while run.state not in (states.RUNNING, states.QUEUED):
        if run.state != states.PAUSED:
            raise ControlError("resume", run, "Only a paused run can be resumed; where one has ended, start a new run.")
        if run.move(states.RUNNING if run.started_at else states.QUEUED, actor=actor, reason=reason):
            return True
    return False


def cancel(run: Run, actor: str, reason: str = "") -> bool:
    """Tear down what is in flight; finished rollouts and checkpoints stay. False if it was being cancelled already."""
    while run.state not in (states.CANCELLING, states.CANCELLED):
        if run.state in states.ENDED:
            raise ControlError("cancel", run, "It has ended; there is nothing in flight.")
        after = states.CANCELLED if run.state == states.DRAFT else states.CANCELLING
        if run.move(after, actor=actor, reason=reason):
            return True
    return False
