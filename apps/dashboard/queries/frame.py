"""What stands around every page: counts in the navigation, weaker isolation, the command palette."""

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser
from django.db.models import Q
from django.urls import reverse

from apps.accounts.models import User
from apps.fleet.models import Worker
from apps.runs.models import Run
from apps.tasks.models import Task

MOST_FOUND = 6


def weaker_isolation() -> list[str]:
    """Reasons of sandbox workers that are not known dead, each once: one that is late still holds its boxes."""
    present = Worker.objects.present().of_kind("sandbox").exclude(weaker="")
    return sorted(set(present.values_list("weaker", flat=True)))


@dataclass(frozen=True)
class Found:
    """One line of the command palette."""

    icon: str
    words: str
    note: str
    address: str


def search(user: User | AnonymousUser, text: str) -> list[tuple[str, list[Found]]]:
    """Runs and tasks that the user may see, by part of a name or by number; then places to go."""
    wanted = text.strip()
    by_name = Q(name__icontains=wanted)
    numbered = Q(pk=int(wanted)) if wanted.isdecimal() and len(wanted) < 18 else Q(pk__in=[])
    runs = Run.objects.visible_to(user).filter(by_name | numbered).order_by("-created_at", "-id")[:MOST_FOUND]
    tasks = Task.objects.visible_to(user).filter(by_name).order_by("name")[:MOST_FOUND] if wanted else []
    places = [place for place in _places() if wanted.lower() in place.words.lower()]
    groups = [
        ("Runs", [Found("runs", run.name, run.state, reverse("dashboard:run", args=[run.pk])) for run in runs]),
        (
            "Tasks",
            [Found("tasks", task.name, task.family, reverse("dashboard:task", args=[task.pk])) for task in tasks],
        ),
        ("Go to", places),
    ]
    return [(title, found) for title, found in groups if found]


def _places() -> list[Found]:
    names = (("runs", "Runs"), ("run_new", "New run"), ("tasks", "Tasks"), ("policies", "Policies"), ("fleet", "Fleet"))
    icons = {"runs": "runs", "run_new": "plus", "tasks": "tasks", "policies": "layers", "fleet": "server"}
    return [Found(icons[name], words, "", reverse(f"dashboard:{name}")) for name, words in names]
