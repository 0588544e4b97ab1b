"""What happened in a run, newest first, with the look that each kind of event has."""

from dataclasses import dataclass
from datetime import datetime

from apps.dashboard import words
from apps.dashboard.badges import alert_words
from apps.lifecycle.models import Event
from apps.runs.models import Run

NEWEST = 12
PAGE = 100

_LOOKS = {
    "run.paused": ("Paused", "warn", "pause"),
    "run.running": ("Running", "live", "play"),
    "run.queued": ("Queued", "idle", "clock"),
    "run.draining": ("Draining", "live", "clock"),
    "run.finished": ("Finished", "ok", "check-circle"),
    "run.failed": ("Broken", "broken", "broken"),
    "run.cancelling": ("Cancelling", "idle", "stop"),
    "run.cancelled": ("Cancelled", "idle", "stop"),
    "run.revised": ("Config changed", "idle", "gear"),
    "run.training_ended": ("Training ended", "live", "check"),
    "evaluation.running": ("Evaluation began", "live", "scale"),
    "evaluation.finished": ("Evaluation finished", "ok", "scale"),
    "evaluation.cancelled": ("Evaluation cancelled", "idle", "scale"),
    "evaluation.superseded": ("Evaluation superseded", "idle", "scale"),
    "step.failed": ("Step failed", "broken", "broken"),
    "step.waits": ("Step waits for the store", "warn", "alert"),
    "segment.damaged": ("Segment damaged", "warn", "alert"),
    "run.rewound": ("Rewound", "warn", "alert"),
    "alert.raised": ("Alert", "warn", "alert"),
    "alert.cleared": ("Alert cleared", "ok", "check"),
}
_GROUPS = {
    "step": ("live", "check"),
    "learner": ("live", "check"),
    "checkpoint": ("ok", "layers"),
    "version": ("ok", "layers"),
    "rollout": ("broken", "broken"),
    "group": ("idle", "box"),
}


@dataclass(frozen=True)
class EventView:
    seq: int
    title: str
    tone: str
    icon: str
    text: str
    by: str
    at: datetime

    @property
    def clock(self) -> str:
        return words.clock(self.at)


def newest_seq(run: Run) -> int:
    return Event.objects.filter(stream=run.stream()).order_by("-seq").values_list("seq", flat=True).first() or 0


def newest(run: Run, count: int = NEWEST) -> list[EventView]:
    return [view(one) for one in Event.objects.filter(stream=run.stream()).order_by("-seq")[:count]]


def events_page(run: Run, before: int | None) -> tuple[list[EventView], int | None]:
    """One page and the key of the next."""
    rows = Event.objects.filter(stream=run.stream()).order_by("-seq")
    if before is not None:
        rows = rows.filter(seq__lt=before)
    page = list(rows[: PAGE + 1])
    shown = page[:PAGE]
    return [view(one) for one in shown], (shown[-1].seq if len(page) > PAGE else None)


def view(event: Event) -> EventView:
    title, tone, icon = _look(event.kind)
    if event.kind.startswith("alert."):
        title = f"{title}: {alert_words(event.payload['kind'])}"
    by = str(event.payload.get("actor") or event.payload.get("by") or "")
    return EventView(event.seq, title, tone, icon, event.text, "" if by == "assay" else by, event.at)


def _look(kind: str) -> tuple[str, str, str]:
    if kind in _LOOKS:
        return _LOOKS[kind]
    subject, _, verb = kind.partition(".")
    tone, icon = _GROUPS.get(subject, ("idle", "info"))
    return f"{subject} {verb}".replace("_", " ").strip().capitalize(), tone, icon
