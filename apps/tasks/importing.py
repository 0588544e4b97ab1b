"""Bring task folders in: read, lint, store by digest, and freeze a task set. Nothing is half-made."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from django.db import transaction

from apps.accounts.models import Project
from apps.tasks import states
from apps.tasks.bundled.families import default_plan, write_instance
from apps.tasks.formats.archive import pack
from apps.tasks.formats.harbor import TaskFolder, read_folder
from apps.tasks.lint import lint
from apps.tasks.models import Task, TaskSet, TaskVersion
from wire.store import Store

BUNDLED_SET = "shell-basics"


class EmptyImportError(Exception):
    """There was nothing to import."""


@dataclass(frozen=True)
class Imported:
    """One imported folder."""

    version: TaskVersion
    split: str


def import_folder(project: Project, folder: Path, store: Store) -> TaskVersion:
    """The task version of a folder, linted; the same content again is the same version. Raises TaskFormatError."""
    found = read_folder(folder)
    findings = lint(folder)
    key = f"tasks/{found.digest}.tar"
    store.put_if_absent(key, pack(folder))
    with transaction.atomic():
        task, _ = Task.objects.get_or_create(project=project, name=found.name, defaults={"family": found.family})
        version = task.versions.filter(digest=found.digest).first()
        if version is not None:
            return version
        version = TaskVersion.objects.create(
            task=task,
            number=task.versions.count() + 1,
            digest=found.digest,
            key=key,
            instruction=found.instruction,
            round_limit=found.round_limit,
            settings=_settings(found),
            findings=[asdict(finding) for finding in findings],
        )
        errors = [finding for finding in findings if finding.level == "error"]
        if errors:
            version.move(states.REJECTED, reason=f"{errors[0].file}: {errors[0].message}")
        else:
            version.move(states.LINTED)
    return version


def import_folders(
    project: Project, name: str, folders: Sequence[tuple[Path, str]], store: Store, description: str = ""
) -> TaskSet:
    """A new version of a task set from (folder, split) pairs. Raises TaskFormatError at the first bad folder."""
    if not folders:
        raise EmptyImportError("No task folder was found. A task folder holds a task.toml.")
    for folder, _ in folders:  # every folder is read before anything is stored
        read_folder(folder)
    imported = [Imported(import_folder(project, folder, store), split) for folder, split in folders]
    return TaskSet.freeze(project, name, [(row.version, row.split) for row in imported], description)


def import_bundled(project: Project, store: Store) -> TaskSet:
    """The bundled task set; the newest version of it if its content is the same."""
    with TemporaryDirectory(prefix="assay-tasks-") as place:
        folders = list(_write_bundled(Path(place)))
        imported = [Imported(import_folder(project, folder, store), split) for folder, split in folders]
    latest = TaskSet.objects.filter(project=project, name=BUNDLED_SET).order_by("-number").first()
    entries = {(row.version.pk, row.split) for row in imported}
    if latest is not None and entries == set(latest.entries.values_list("task_version_id", "split")):
        return latest
    description = "Shell and file tasks: 28 trained families, 6 unseen ones, each a seeded generator."
    return TaskSet.freeze(project, BUNDLED_SET, [(row.version, row.split) for row in imported], description)


def _write_bundled(place: Path) -> Iterable[tuple[Path, str]]:
    for planned in default_plan():
        folder = place / f"{planned.family}-{planned.seed}"
        write_instance(planned.family, planned.seed, folder)
        yield folder, planned.split


def _settings(found: TaskFolder) -> dict[str, float | int]:
    settings: dict[str, float | int] = {"verifier_seconds": found.verifier_timeout_sec}
    if found.agent_timeout_sec is not None:
        settings["agent_seconds"] = found.agent_timeout_sec
    if found.resources.cpus is not None:
        settings["cpus"] = found.resources.cpus
    if found.resources.memory_mb is not None:
        settings["memory_bytes"] = found.resources.memory_mb * 2**20
    if found.resources.storage_mb is not None:
        settings["disk_bytes"] = found.resources.storage_mb * 2**20
    return settings
