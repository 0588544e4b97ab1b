"""What an admission run is looked at for: how many tasks of its set came out how."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Count, Exists, OuterRef, Q
from django.urls import reverse

from apps.dashboard import words
from apps.dashboard.queries.tile import Tile
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.tasks import states
from apps.tasks.models import TaskVersion


@dataclass(frozen=True)
class Counts:
    """Of the tasks of the set, as they are now: a later run may have played them again."""

    tasks: int
    admitted: int
    rejected: int
    unjudged: int
    """Played by this run, which broke on us or ended before it could tell."""
    to_come: int

    @property
    def apart(self) -> int:
        """In other states: quarantined, retired, not linted yet."""
        return self.tasks - self.admitted - self.rejected - self.unjudged - self.to_come


def counts(run: Run) -> Counts:
    played = Exists(Group.objects.of(run).filter(task_version=OuterRef("pk")))
    rows = TaskVersion.objects.filter(entries__task_set=run.task_set).annotate(played=played)
    linted = Q(state=states.LINTED)
    found = rows.aggregate(
        tasks=Count("pk"),
        admitted=Count("pk", filter=Q(state__in=states.USABLE)),
        rejected=Count("pk", filter=Q(state=states.REJECTED)),
        unjudged=Count("pk", filter=linted & Q(played=True)),
        to_come=Count("pk", filter=Q(state=states.CONTROLS) | linted & Q(played=False)),
    )
    return Counts(**found)


def admission_tiles(run: Run) -> tuple[Tile, dict[str, Tile]]:
    """The head, and the rest by name."""
    found = counts(run)

    def tile(label: str, many: int, state: str, title: str, *notes: str) -> Tile:
        asked = urlencode({"set": run.task_set_id, "state": state})
        return Tile(
            label=label,
            value=words.count(many),
            unit=f" of {words.plural(found.tasks, 'task')}",
            notes=notes,
            title=title,
            link=f"{reverse('dashboard:tasks')}?{asked}",
        )

    apart = (f"{words.plural(found.apart, 'task')} in other states",) if found.apart else ()
    head = tile("Admitted", found.admitted, states.ADMITTED, "The solution passes and doing nothing fails", *apart)
    waiting = "Not played" if run.ended else "Still to come"
    return head, {
        "rejected": tile("Rejected", found.rejected, states.REJECTED, "The solution fails, or doing nothing passes"),
        "unjudged": tile("Without a verdict", found.unjudged, states.LINTED, "We broke, or the run ended before it"),
        "to_come": tile(waiting, found.to_come, states.CONTROLS, "Their controls have not ended"),
    }
