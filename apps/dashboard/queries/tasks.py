"""Task sets and tasks with their state and the evidence that they can be trusted."""

import io
import tarfile
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from apps.accounts.models import User
from apps.dashboard import words
from apps.dashboard.badges import TASKS, Badge, badge
from apps.lifecycle.models import Transition
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasks.models import Task, TaskSet, TaskSetEntry, TaskVersion
from apps.tasks.states import STATES, USABLE
from apps.trajectories.models import Grade, Trajectory
from wire.store import MissingObjectError, Store

PAGE = 100
MOST_FILES = 200
LONGEST_FILE = 16_000
MOST_PROOFS = 20


@dataclass(frozen=True)
class SetRow:
    task_set: TaskSet
    tasks: int
    train: int
    held_out: int
    unseen: int
    families: int
    proven: int
    played: int
    """Runs on it."""


@dataclass(frozen=True)
class TaskRow:
    task: Task
    version: int
    badge: Badge
    splits: str
    checks: str


@dataclass(frozen=True)
class Wanted:
    """Filters of the task list, as the address carries them."""

    text: str = ""
    state: str = ""
    family: str = ""
    task_set: int = 0
    """Key of a task set; 0 for any."""
    after: str = ""
    after_id: int = 0
    """Name and key of the last task of the page before: projects may have tasks of one name."""

    @property
    def narrowed(self) -> bool:
        return bool(self.text or self.state or self.family or self.task_set)

    @property
    def address(self) -> str:
        """The filters, without the place in the list."""
        given = {"q": self.text, "state": self.state, "family": self.family, "set": self.task_set or ""}
        return urlencode({name: value for name, value in given.items() if value})


@dataclass(frozen=True)
class TaskList:
    rows: list[TaskRow]
    total: int
    matching: int
    families: list[str]
    states: list[str]
    last: Task | None
    """Where the next page begins after; None if there is none."""


def task_sets(user: User | AnonymousUser) -> list[SetRow]:
    runs = Run.objects.filter(task_set=OuterRef("pk")).order_by().values("task_set").annotate(n=Count("pk"))
    counts = {
        "tasks": Count("entries"),
        "train": Count("entries", filter=Q(entries__split="train")),
        "held_out": Count("entries", filter=Q(entries__split="held-out")),
        "unseen": Count("entries", filter=Q(entries__split="unseen")),
        "families": Count("entries__family", distinct=True),
        "proven": Count("entries", filter=Q(entries__task_version__state__in=USABLE)),
        # Apart from the entries: joined with them, every run would be counted once an entry.
        "played": Coalesce(Subquery(runs.values("n")), 0),
    }
    rows = TaskSet.objects.visible_to(user).annotate(**counts).order_by("-created_at", "-id")
    return [SetRow(row, **{name: getattr(row, name) for name in counts}) for row in rows]


def task_list(user: User | AnonymousUser, wanted: Wanted) -> TaskList:
    """One page, by name."""
    seen = Task.objects.visible_to(user)
    rows = _filtered(seen, wanted)
    matching = rows.count()
    later = Q(name__gt=wanted.after) | Q(name=wanted.after, id__gt=wanted.after_id)
    page = list(rows.filter(later).order_by("name", "id")[: PAGE + 1])
    shown = page[:PAGE]
    splits = _splits([task.pk for task in shown])
    return TaskList(
        rows=[_row(task, splits.get(task.pk, set())) for task in shown],
        total=seen.count(),
        matching=matching,
        families=sorted(set(seen.values_list("family", flat=True))),
        states=sorted(STATES),
        last=shown[-1] if len(page) > PAGE else None,
    )


def _filtered(tasks: QuerySet[Task], wanted: Wanted) -> QuerySet[Task]:
    """By the newest version of each; in a set, by the version that the set holds."""
    newest = TaskVersion.objects.filter(task=OuterRef("pk")).order_by("-number")
    if wanted.task_set:
        newest = newest.filter(entries__task_set=wanted.task_set)
        tasks = tasks.filter(versions__entries__task_set=wanted.task_set)
    rows = tasks.annotate(
        latest=Subquery(newest.values("number")[:1]),
        latest_state=Subquery(newest.values("state")[:1]),
        latest_evidence=Subquery(newest.values("evidence")[:1]),
    )
    if wanted.text:
        rows = rows.filter(name__icontains=wanted.text)
    if wanted.family:
        rows = rows.filter(family=wanted.family)
    if wanted.state:
        rows = rows.filter(latest_state=wanted.state)
    return rows


def _splits(tasks: list[int]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    rows = TaskSetEntry.objects.filter(task_version__task__in=tasks).values_list("task_version__task", "split")
    for task, split in rows.distinct():
        found.setdefault(task, set()).add(split)
    return found


def _row(task: Any, splits: set[str]) -> TaskRow:
    look = badge(TASKS, task.latest_state or "imported")
    return TaskRow(task, task.latest or 0, look, ", ".join(sorted(splits)), _short(task.latest_evidence or {}))


def _short(evidence: dict[str, Any]) -> str:
    """The controls in a few words."""
    parts = [f"{short} {verdict}" for key, short in _SHORT if (verdict := _verdict(evidence.get(key)))]
    return ", ".join(parts)


_SHORT = (("reference", "solution"), ("nothing", "doing nothing"))


def _verdict(found: Any) -> str:
    return str(found.get("verdict", "")) if isinstance(found, dict) else ""


@dataclass(frozen=True)
class ProofLine:
    """One thing that was shown of a task, or not."""

    what: str
    found: str
    why: str
    tone: str
    icon: str
    run: int | None = None
    """Which the line names."""
    rollout: int | None = None
    """That shows it."""


_WORDS = {
    "reference": ("Reference solution passes", "solved"),
    "nothing": ("Doing nothing fails", "unsolved"),
}


def proof_lines(evidence: dict[str, Any]) -> list[ProofLine]:
    """What the controls wrote, known keys in words, others as they stand."""
    first = [key for key in _WORDS if key in evidence]
    rest = [key for key in evidence if key not in _WORDS]
    return [_proof(key, evidence[key]) for key in (*first, *rest)]


def _proof(key: str, value: Any) -> ProofLine:
    if key == "run" and isinstance(value, int):
        return ProofLine("Shown by", f"run {value}", "", "idle", "info", run=value)
    if key == "decided_at":
        return ProofLine("Decided at", words.moment(datetime.fromisoformat(value)), "", "idle", "info")
    what, wanted = _WORDS.get(key, (key.replace("_", " ").capitalize(), ""))
    if not isinstance(value, dict):
        return ProofLine(what, str(value), "", "idle", "info")
    verdict = str(value.get("verdict", ""))
    passed = value.get("passed", verdict == wanted if verdict and wanted else None)
    rest = ", ".join(
        f"{name} {part}"
        for name, part in value.items()
        if name not in ("verdict", "passed", "rollout") and part not in (None, "")
    )
    tone, icon = ("idle", "info") if passed is None else ("ok", "check") if passed else ("fail", "x")
    if verdict == "none":
        tone, icon = "broken", "broken"
    return ProofLine(what, verdict, rest, tone, icon, rollout=value.get("rollout"))


@dataclass(frozen=True)
class TaskFile:
    path: str
    size: int
    text: str
    left_out: int
    """Characters that are not shown."""


@dataclass(frozen=True)
class ProofRollout:
    rollout: Rollout
    script: str
    verdict: str


@dataclass(frozen=True)
class TaskPage:
    task: Task
    version: TaskVersion
    badge: Badge
    versions: list[tuple[TaskVersion, Badge]]
    sets: list[TaskSetEntry]
    proof: list[ProofLine]
    proofs: list[ProofRollout]
    files: list[TaskFile]
    files_missing: str
    history: list[Transition]
    tries: int
    solved: int


def task_page(user: User | AnonymousUser, task_id: int, number: int | None, store: Store) -> TaskPage:
    """Raises Task.DoesNotExist or TaskVersion.DoesNotExist, also for what the user may not see."""
    task = Task.objects.visible_to(user).select_related("project").get(pk=task_id)
    versions = list(task.versions.order_by("-number"))
    chosen = [version for version in versions if number is None or version.number == number]
    if not chosen:
        raise TaskVersion.DoesNotExist(f"task {task_id} has no version {number}")
    version = chosen[0]
    files, missing = _files(version, store)
    graded = Trajectory.objects.filter(
        rollout__group__task_version=version, rollout__group__purpose="train", counts=True
    )
    numbers = graded.aggregate(tries=Count("pk"), solved=Count("pk", filter=Q(grade__verdict="solved")))
    return TaskPage(
        task=task,
        version=version,
        badge=badge(TASKS, version.state),
        versions=[(one, badge(TASKS, one.state)) for one in versions],
        sets=list(version.entries.select_related("task_set").order_by("task_set__name", "-task_set__number")),
        proof=proof_lines(version.evidence),
        proofs=_proof_rollouts(version),
        files=files,
        files_missing=missing,
        history=list(Transition.objects.filter(subject="task", subject_id=version.pk).order_by("-id")[:MOST_PROOFS]),
        tries=numbers["tries"],
        solved=numbers["solved"],
    )


def _proof_rollouts(version: TaskVersion) -> list[ProofRollout]:
    played = Rollout.objects.filter(group__task_version=version, group__purpose="control").select_related("group")
    rows = list(played.order_by("-id")[:MOST_PROOFS])
    counted = Grade.objects.filter(trajectory__rollout__in=[row.pk for row in rows], trajectory__counts=True)
    verdicts = dict(counted.values_list("trajectory__rollout", "verdict"))
    return [ProofRollout(row, row.group.script, verdicts.get(row.pk, "")) for row in rows]


def _files(version: TaskVersion, store: Store) -> tuple[list[TaskFile], str]:
    """The packed folder, read without unpacking it; a reason where it cannot be read."""
    try:
        packed = store.get(version.key)
    except MissingObjectError:
        return [], "The packed folder is not in the object store."
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            members = [member for member in archive.getmembers() if member.isfile()]
            return [_file(archive, member) for member in sorted(members, key=lambda one: one.name)[:MOST_FILES]], ""
    except tarfile.TarError as error:
        return [], f"The packed folder cannot be read: {error}"


def _file(archive: tarfile.TarFile, member: tarfile.TarInfo) -> TaskFile:
    handle = archive.extractfile(member)
    data = handle.read(LONGEST_FILE) if handle else b""
    text = data.decode("utf-8", errors="replace")
    return TaskFile(member.name.removeprefix("./"), member.size, text, max(0, member.size - len(data)))
