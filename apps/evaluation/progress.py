"""What happened in a run since an event: the events themselves, and the steps and evaluations that they speak of.

Everything follows from the numbered events, so a reader that asks again from the last number misses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.evaluation.models import Evaluation
from apps.lifecycle.models import Event, Stream
from apps.runs.models import Run
from apps.training import states
from apps.training.models import LearnerStep

MOST_EVENTS = 500
"""In one answer."""


@dataclass(frozen=True)
class Progress:
    """One page of what happened."""

    state: str
    policy_version: int
    seq: int
    """Of the last event told; ask from here."""
    newest_seq: int
    events: Sequence[Event]
    steps: Sequence[LearnerStep]
    evaluations: Sequence[Evaluation]

    @property
    def more(self) -> bool:
        return self.seq < self.newest_seq


def progress(run: Run, later: QuerySet[Event], since: int) -> Progress:
    """later: the events of the run after number `since`."""
    newest = Stream.objects.filter(name=run.stream()).values_list("seq", flat=True).first() or 0
    events = list(later.order_by("seq")[:MOST_EVENTS])
    seq = events[-1].seq if events else since
    return Progress(
        state=run.state,
        policy_version=run.policy_version,
        seq=seq,
        newest_seq=max(newest, seq),
        events=events,
        steps=_steps(run, events),
        evaluations=_evaluations(run, events),
    )


def _steps(run: Run, events: Sequence[Event]) -> Sequence[LearnerStep]:
    """Ended ones that the events name; after a rewind, all that it took off the branch."""
    named = [event.payload.get("version") for event in events if event.kind in ("policy.made", "step.failed")]
    ended = LearnerStep.objects.of(run).exclude(state=states.HANDED)
    found = ended.filter(version__in=named)
    if any(event.kind == "run.rewound" for event in events):
        found = found | ended.filter(state=states.REWOUND)
    return list(found.order_by("version")) if events else []


def _evaluations(run: Run, events: Sequence[Event]) -> Sequence[Evaluation]:
    """All of the run, if any of them moved: they are few."""
    if not any(event.kind.startswith(f"{Evaluation.SUBJECT}.") for event in events):
        return []
    return list(Evaluation.objects.of(run).order_by("version", "suite"))
