"""A few tasks, on their way to be proven, and a policy of random weights."""

from pathlib import Path
from tempfile import TemporaryDirectory

from apps.accounts.models import Project
from apps.admission.controls import start_controls
from apps.policies.importing import import_policy
from apps.tasks.bundled.families import write_instance
from apps.tasks.importing import import_folders
from apps.trajectories.store import object_store
from tests.learner.tiny import tiny_policy

TASKS = (
    ("copy-file", 0, "train"),
    ("copy-file", 1, "train"),
    ("told-port", 0, "train"),
    ("told-port", 1, "train"),
    ("copy-file", 10_000, "held-out"),
    ("told-port", 10_000, "held-out"),
)


def act() -> int:
    """The run of their controls."""
    project, store = Project.default(), object_store()
    with TemporaryDirectory() as place:
        folders = [(Path(place) / f"{family}-{seed}", split) for family, seed, split in TASKS]
        for (family, seed, _), (folder, _) in zip(TASKS, folders, strict=True):
            write_instance(family, seed, folder)
        task_set = import_folders(project, "chaos", folders, store)
        import_policy(project, "tiny", tiny_policy(Path(place) / "tiny", context=2048), store, {})
    return int(start_controls(project, None, task_set).pk)
