"""Tasks, their versions bound to a content digest, and immutable task sets."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

from django.contrib.auth.models import AnonymousUser
from django.db import models, transaction
from django.db.models import Count, OuterRef, Q, Subquery
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.lifecycle.machine import Stateful, states_constraint
from apps.tasks import states

SPLITS = ("train", "held-out", "unseen")
AGENT_SECONDS, VERIFIER_SECONDS = 120.0, 60.0
"""Of a task that does not say."""


class TaskQuerySet(models.QuerySet["Task"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(project__in=Project.objects.visible_to(user))

    def with_newest(self, *names: str) -> Self:
        """These fields of the newest version, as newest_<name>."""
        newest = TaskVersion.objects.filter(task=OuterRef("pk")).order_by("-number")
        return self.annotate(**{f"newest_{name}": Subquery(newest.values(name)[:1]) for name in names})


class Task(models.Model):
    """What the agent solves, by name; its content is in its versions."""

    project = models.ForeignKey(Project, models.PROTECT, related_name="tasks")
    name = models.CharField(max_length=160)
    family = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=timezone.now)

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="task_name")]

    def __str__(self) -> str:
        return self.name


class TaskVersionQuerySet(models.QuerySet["TaskVersion"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(task__project__in=Project.objects.visible_to(user))

    def in_state(self, *wanted: str) -> Self:
        return self.filter(state__in=wanted)

    def provable(self) -> Self:
        """Not in use, but controls may change that: what lint refused, or a curator retired, stays out."""
        sound = ~Q(findings__contains=[{"level": "error"}])
        return self.filter(Q(state__in=[states.LINTED, states.QUARANTINED]) | Q(state=states.REJECTED) & sound)


class TaskVersion(Stateful):
    """One content of a task, named by its digest; trust is bound to the digest."""

    EDGES = states.EDGES
    SUBJECT = "task"

    task = models.ForeignKey(Task, models.CASCADE, related_name="versions")
    number = models.IntegerField()
    digest = models.CharField(max_length=64)
    key = models.CharField(max_length=200)
    """Of the packed folder in the object store."""
    instruction = models.TextField()
    round_limit = models.IntegerField()
    settings = models.JSONField(default=dict)
    """Seconds and quotas: agent_seconds, verifier_seconds, build_seconds, cpus, memory_bytes, disk_bytes."""
    state = models.CharField(max_length=20, default=states.IMPORTED)
    findings = models.JSONField(default=list)
    """What lint found."""
    evidence = models.JSONField(default=dict)
    """What the controls showed."""
    created_at = models.DateTimeField(default=timezone.now)

    objects = TaskVersionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task", "number"], name="task_version_number"),
            models.UniqueConstraint(fields=["task", "digest"], name="task_version_digest"),
            states_constraint("task_version_state", states.STATES),
        ]

    def __str__(self) -> str:
        return f"{self.task.name} v{self.number}"

    @property
    def usable(self) -> bool:
        return self.state in states.USABLE

    def note_evidence(self, **found: Any) -> None:
        """Add to what the controls showed."""
        self.evidence = {**self.evidence, **found}
        self.save(update_fields=["evidence"])


class TaskSetError(Exception):
    """A list of tasks that is no task set."""


class TaskSetQuerySet(models.QuerySet["TaskSet"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(project__in=Project.objects.visible_to(user))

    def counted(self) -> Self:
        """With its entries counted: tasks, usable, and in_<split> for each split."""
        of_split = {
            f"in_{split.replace('-', '_')}": Count("entries", filter=Q(entries__split=split)) for split in SPLITS
        }
        usable = Count("entries", filter=Q(entries__task_version__state__in=states.USABLE))
        return self.annotate(tasks=Count("entries"), usable=usable, **of_split)


class TaskSet(models.Model):
    """A named, immutable version of a list of tasks, with families and splits."""

    project = models.ForeignKey(Project, models.PROTECT, related_name="task_sets")
    name = models.CharField(max_length=120)
    number = models.IntegerField(default=1)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = TaskSetQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name", "number"], name="task_set_number")]

    def __str__(self) -> str:
        return f"{self.name} v{self.number}"

    @classmethod
    def freeze(
        cls, project: Project, name: str, entries: Iterable[tuple[TaskVersion, str]], description: str = ""
    ) -> "TaskSet":
        """A new version of the named set from (task version, split) pairs. Raises TaskSetError."""
        rows = list(entries)
        if twice := [task for task, n in Counter(version.task for version, _ in rows).items() if n > 1]:
            raise TaskSetError(f"{name}: the task {twice[0]} is in it twice. Name each task once.")
        with transaction.atomic():
            latest = cls.objects.filter(project=project, name=name).aggregate(n=models.Max("number"))["n"] or 0
            task_set = cls.objects.create(project=project, name=name, number=latest + 1, description=description)
            TaskSetEntry.objects.bulk_create(
                TaskSetEntry(task_set=task_set, task_version=version, split=split, family=version.task.family)
                for version, split in rows
            )
        return task_set

    def versions(self, split: str) -> models.QuerySet[TaskVersion]:
        """Usable task versions of a split, in a fixed order."""
        rows = TaskVersion.objects.in_state(*states.USABLE).filter(entries__task_set=self, entries__split=split)
        return rows.select_related("task").order_by("id")

    def family_counts(self) -> dict[str, dict[str, int]]:
        """Entries of each family by split."""
        found: dict[str, dict[str, int]] = {}
        rows = self.entries.values_list("family", "split").annotate(n=Count("id"))
        for family, split, n in rows.order_by("family", "split"):
            found.setdefault(family, {})[split] = n
        return found


class TaskSetEntry(models.Model):
    """One task version in a task set."""

    task_set = models.ForeignKey(TaskSet, models.CASCADE, related_name="entries")
    task_version = models.ForeignKey(TaskVersion, models.PROTECT, related_name="entries")
    split = models.CharField(max_length=10, choices=[(split, split) for split in SPLITS])
    family = models.CharField(max_length=80)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task_set", "task_version"], name="task_set_entry_once"),
            models.CheckConstraint(name="task_set_entry_split", condition=Q(split__in=SPLITS)),
        ]

    def __str__(self) -> str:
        return f"{self.task_version} in {self.task_set} ({self.split})"
