"""Bring task folders in: read, lint, store by digest, and freeze a task set. Nothing is half-made."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from django.db import transaction

from apps.accounts.models import Project
from apps.tasks import states
from apps.tasks.bundled.families import default_plan, write_instance
from apps.tasks.formats.archive import pack
from apps.tasks.formats.errors import TaskFoldersError, TaskFormatError
from apps.tasks.formats.harbor import Resources, TaskFolder, read_folder
from apps.tasks.lint import Finding, lint
from apps.tasks.models import Task, TaskSet, TaskVersion
from sandbox_worker.messages import ResourceProfile
from wire.store import Store

BUNDLED_SET = "shell-basics"
MAX_SET_NAME = 120
MEGABYTE = 2**20
MAX_DISK_BYTES = 256 * MEGABYTE
Item = TypeVar("Item")
Made = TypeVar("Made")


class EmptyImportError(Exception):
    """There was nothing to import."""


@dataclass(frozen=True)
class Read:
    """A folder, read and linted."""

    place: Path
    split: str
    task: TaskFolder
    findings: list[Finding]

    @property
    def key(self) -> str:
        return f"tasks/{self.task.digest}.tar"


def import_folders(
    project: Project, name: str, folders: Sequence[tuple[Path, str]], store: Store, description: str = ""
) -> TaskSet:
    """A new version of a task set from (folder, split) pairs; nothing of it if one folder is bad.

    Raises TaskFormatError, TaskFoldersError, TaskSetError, EmptyImportError."""
    _check_set_name(name)
    found = _stored(folders, store)
    with transaction.atomic():
        return TaskSet.freeze(project, name, _versions(project, found), description)


def import_bundled(project: Project, store: Store) -> TaskSet:
    """The bundled task set; the newest version of it if its content is the same."""
    with TemporaryDirectory(prefix="assay-tasks-") as place:
        found = _stored(list(_write_bundled(Path(place))), store)
    with transaction.atomic():
        versions = _versions(project, found)
        latest = TaskSet.objects.filter(project=project, name=BUNDLED_SET).order_by("-number").first()
        entries = {(version.pk, split) for version, split in versions}
        if latest is not None and entries == set(latest.entries.values_list("task_version_id", "split")):
            return latest
        description = "Shell and file tasks: 28 trained families, 6 unseen ones, each a seeded generator."
        return TaskSet.freeze(project, BUNDLED_SET, versions, description)


def _check_set_name(name: str) -> None:
    if not name.strip() or len(name) > MAX_SET_NAME or not name.isprintable():
        problem = f"its name must have from 1 to {MAX_SET_NAME} printable characters"
        raise TaskFormatError("The task set", "", ascii(name)[1:-1], problem, "Give it another one.")


def _stored(folders: Sequence[tuple[Path, str]], store: Store) -> list[Read]:
    """Every folder is read before anything is stored."""
    if not folders:
        raise EmptyImportError("No task folder was found. A task folder holds a task.toml.")
    places: dict[str, Path] = {}
    found = _of_each(folders, lambda pair: _alone(_read(*pair), places))
    _of_each(found, lambda read: _store(read, store))
    return found


def _of_each(items: Iterable[Item], make: Callable[[Item], Made]) -> list[Made]:
    """What is made of every item. Raises TaskFormatError, or TaskFoldersError of several, after the last item."""
    made: list[Made] = []
    errors: list[TaskFormatError] = []
    for item in items:
        try:
            made.append(make(item))
        except TaskFormatError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else TaskFoldersError(errors)
    return made


def _alone(read: Read, places: dict[str, Path]) -> Read:
    """places: where each name was read first."""
    if (other := places.setdefault(read.task.name, read.place)) != read.place:
        problem = f"{other} holds a task of the same name"
        raise TaskFormatError(f"{read.place}/task.toml", "task.name", read.task.name, problem, "Rename one of them.")
    return read


def _store(read: Read, store: Store) -> None:
    """The digest says nothing of modes, so one content has one packed form: another must not be lost in silence."""
    packed = pack(read.place)
    if not store.put_if_absent(read.key, packed) and store.get(read.key) != packed:
        problem = "only file modes changed: the same content is stored already with other file modes"
        way_out = "Change the content too, e.g. a comment in tests/test.sh, to make a new version."
        raise TaskFormatError(str(read.place), "task.name", read.task.name, problem, way_out)


def _read(folder: Path, split: str) -> Read:
    try:
        task = read_folder(folder)
    except TaskFormatError as error:
        raise error.inside(str(folder)) from error
    return Read(folder, split, task, [*lint(folder), *_cut_disk(task.resources), *map(_unknown, task.unknown_keys)])


def _versions(project: Project, found: Iterable[Read]) -> list[tuple[TaskVersion, str]]:
    """One import of a project at a time, so that numbers follow each other."""
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    return _of_each(found, lambda read: (_version(project, read), read.split))


def _version(project: Project, read: Read) -> TaskVersion:
    """The task version of a folder; the same content again is the same version."""
    found = read.task
    task, _ = Task.objects.get_or_create(project=project, name=found.name, defaults={"family": found.family})
    if task.family != found.family:
        problem = f"the task {task.name} belongs to the family {task.family!r}"
        way_out = "Keep the family, or give the task another name."
        raise TaskFormatError(f"{read.place}/task.toml", "metadata.family", found.family, problem, way_out)
    version = task.versions.filter(digest=found.digest).first()
    if version is not None:
        return version
    version = TaskVersion.objects.create(
        task=task,
        number=task.versions.count() + 1,
        digest=found.digest,
        key=read.key,
        instruction=found.instruction,
        round_limit=found.round_limit,
        settings=_settings(found),
        findings=[asdict(finding) for finding in read.findings],
    )
    errors = [finding for finding in read.findings if finding.level == "error"]
    if errors:
        version.move(states.REJECTED, reason=f"{errors[0].file}: {errors[0].message}")
    else:
        version.move(states.LINTED)
    return version


def _write_bundled(place: Path) -> Iterable[tuple[Path, str]]:
    for planned in default_plan():
        folder = place / f"{planned.family}-{planned.seed}"
        write_instance(planned.family, planned.seed, folder)
        yield folder, planned.split


def _settings(found: TaskFolder) -> dict[str, float | int | list[str]]:
    settings: dict[str, float | int | list[str]] = {"verifier_seconds": found.verifier_timeout_sec}
    if found.allowed_hosts:
        settings["allowed_hosts"] = list(found.allowed_hosts)
    if found.agent_timeout_sec is not None:
        settings["agent_seconds"] = found.agent_timeout_sec
    if found.dockerfile.needs_build(found.workdir):
        settings["build_seconds"] = found.build_timeout_sec
    if found.resources.cpus is not None:
        settings["cpus"] = found.resources.cpus
    if found.resources.memory_mb is not None:
        settings["memory_bytes"] = found.resources.memory_mb * MEGABYTE
    if found.resources.storage_mb is not None or _cut_disk(found.resources):
        settings["disk_bytes"] = min(_disk_bytes(found.resources), _most_disk_bytes(found.resources))
    return settings


def _disk_bytes(wanted: Resources) -> int:
    """As the task has it."""
    return ResourceProfile().disk_bytes if wanted.storage_mb is None else wanted.storage_mb * MEGABYTE


def _most_disk_bytes(wanted: Resources) -> int:
    """The files of a box live in its memory: a disk as large would end the box out of memory before it is full."""
    memory = ResourceProfile().memory_bytes if wanted.memory_mb is None else wanted.memory_mb * MEGABYTE
    return min(memory // 2, MAX_DISK_BYTES)


def _unknown(key: str) -> Finding:
    """Of the environment it may be a quota that is spelled wrong: no box is to run without it in silence."""
    if key.startswith("environment."):
        return Finding("error", "unknown_key", f"{key} is not known: correct its name or take it out", "task.toml")
    return Finding("warning", "unknown_key", f"{key} is not known, and ignored", "task.toml")


def _cut_disk(wanted: Resources) -> list[Finding]:
    """What is said of a disk that is smaller than the task has it."""
    most = _most_disk_bytes(wanted)
    if _disk_bytes(wanted) <= most:
        return []
    key, value = ("memory_mb", wanted.memory_mb) if wanted.storage_mb is None else ("storage_mb", wanted.storage_mb)
    message = (
        f"environment.{key} = {value}: the disk is cut to {most / MEGABYTE:g} MB. "
        f"The files of a box live in its memory: at most half of it, and {MAX_DISK_BYTES // MEGABYTE} MB"
    )
    return [Finding("warning", "disk_cut", message, "task.toml")]
