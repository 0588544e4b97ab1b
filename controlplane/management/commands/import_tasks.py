"""manage.py import_tasks: bring task folders in, or the bundled set, and start their controls."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import Project
from apps.admission.controls import start_controls
from apps.runs.launch import LaunchError
from apps.tasks import states
from apps.tasks.formats.errors import TaskFoldersError, TaskFormatError
from apps.tasks.importing import EmptyImportError, import_bundled, import_folders
from apps.tasks.models import SPLITS, TaskSet, TaskSetError, TaskVersion
from apps.trajectories.store import object_store
from controlplane.management.plainly import plainly


class Command(BaseCommand):
    help = "Import task folders (Harbor format) into a task set, and prove them in real boxes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folder", nargs="?", type=Path, help="a folder with train/, held-out/ or unseen/ task folders"
        )
        parser.add_argument("--name", default="", help="of the task set; default: the folder's name")
        parser.add_argument("--bundled", action="store_true", help="the task set that ships with Assay")

    def handle(self, *_args: object, folder: Path | None, name: str, bundled: bool, **_options: object) -> None:
        with plainly(TaskFormatError, TaskFoldersError, TaskSetError, EmptyImportError, LaunchError, OSError):
            project = Project.default()
            if bundled:
                task_set = import_bundled(project, object_store())
            elif folder is None:
                raise CommandError("Name a folder of task folders, or say --bundled.")
            else:
                found = task_folders(folder)
                task_set = import_folders(project, name or folder.resolve().name, found, object_store())
            self.stdout.write(f"{task_set}: {task_set.entries.count()} tasks")
            self._prove(project, task_set)

    def _prove(self, project: Project, task_set: TaskSet) -> None:
        versions = TaskVersion.objects.filter(entries__task_set=task_set)
        for version in versions.in_state(states.REJECTED).select_related("task").order_by("id"):
            for error in [row for row in version.findings if row["level"] == "error"][:1]:
                self.stderr.write(f"{version}: rejected, {error['file']}: {error['message']}")
        if versions.provable().exists():
            run = start_controls(project, None, task_set)
            self.stdout.write(f"Its controls are run {run.pk}: the solution must pass, doing nothing must fail.")


def task_folders(top: Path) -> list[tuple[Path, str]]:
    """(folder, split) pairs: <top>/<split>/<task>, or <top>/<task> as held-out."""
    if not top.is_dir():
        raise CommandError(f"{top} is no folder. Name one that holds task folders.")
    folders = [entry for entry in sorted(top.iterdir()) if entry.is_dir()]
    for entry in folders:
        if entry.name not in SPLITS and _holds_tasks(entry):
            raise CommandError(
                f"{entry} holds task folders, but its name is none of {', '.join(SPLITS)}. Rename it, or move it away."
            )
    tasks = [entry for entry in folders if entry.name not in SPLITS and (entry / "task.toml").exists()]
    in_splits = [
        (task, split)
        for split in SPLITS
        if (top / split).is_dir()
        for task in sorted((top / split).iterdir())
        if task.is_dir()
    ]
    if tasks and in_splits:
        raise CommandError(f"{tasks[0]} is a task beside the folders of splits. Move it into one of them.")
    return in_splits or [(task, "held-out") for task in tasks]


def _holds_tasks(folder: Path) -> bool:
    return any(entry.is_dir() and (entry / "task.toml").exists() for entry in folder.iterdir())
