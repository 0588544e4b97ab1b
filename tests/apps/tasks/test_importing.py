"""Task folders come in all together or not at all, and a bad one is named."""

from pathlib import Path

import pytest

from apps.accounts.models import Project
from apps.lifecycle.models import Transition
from apps.tasks.formats.errors import TaskFoldersError, TaskFormatError
from apps.tasks.importing import EmptyImportError, import_folders
from apps.tasks.models import Task, TaskSet, TaskSetError, TaskVersion
from tests.apps.making import make_task
from tests.apps.tasks.folders import task_folder
from wire.store import FolderStore

pytestmark = pytest.mark.django_db


def named(place: Path, name: str, *, family: str = "greet", instruction: str = "Greet.\n", **table: str) -> Path:
    lines = [f'{key} = "{value}"' for key, value in {"name": name, **table}.items()]
    text = "\n".join(['schema_version = "1.3"', "[task]", *lines, "[metadata]", f'family = "{family}"', ""])
    return task_folder(place, {"task.toml": text, "instruction.md": instruction})


def bring(store: FolderStore, *folders: Path, name: str = "greetings") -> TaskSet:
    return import_folders(Project.default(), name, [(folder, "train") for folder in folders], store)


def nothing_is_there() -> bool:
    made = (Task, TaskVersion, TaskSet, Transition)
    return not any(model.objects.exists() for model in made)


def test_the_same_content_is_the_same_version(tmp_path: Path, store: FolderStore) -> None:
    folder = named(tmp_path, "lab/greet")
    first, second = bring(store, folder), bring(store, folder)
    assert (first.number, second.number) == (1, 2)
    (version,) = TaskVersion.objects.all()
    assert (version.number, version.state) == (1, "linted")
    assert list(store.list("tasks")) == [version.key]


def test_changed_content_is_a_new_version(tmp_path: Path, store: FolderStore) -> None:
    bring(store, named(tmp_path / "a", "lab/greet"))
    bring(store, named(tmp_path / "b", "lab/greet", instruction="Greet twice.\n"))
    assert list(TaskVersion.objects.order_by("number").values_list("number", flat=True)) == [1, 2]


def test_a_change_of_nothing_but_modes_is_refused_and_said(tmp_path: Path, store: FolderStore) -> None:
    folder = named(tmp_path, "lab/greet")
    bring(store, folder)
    (folder / "tests" / "test.sh").chmod(0o755)
    with pytest.raises(TaskFormatError, match=r"only file modes changed.*'lab/greet'.*comment in tests/test\.sh"):
        bring(store, folder)
    assert TaskSet.objects.get().number == 1
    (folder / "tests" / "test.sh").chmod(0o600)
    assert bring(store, folder).number == 2


@pytest.mark.parametrize(
    ("environment", "disk_mb", "said"),
    [
        ("", None, ""),
        ("memory_mb = 256\nstorage_mb = 32", 32, ""),
        ("storage_mb = 10240", 128, "environment.storage_mb = 10240: the disk is cut to 128 MB"),
        ("memory_mb = 2048\nstorage_mb = 10240", 256, "environment.storage_mb = 10240: the disk is cut to 256 MB"),
        ('memory = "64M"\nstorage = "1G"', 32, "environment.storage_mb = 1024: the disk is cut to 32 MB"),
        ("memory_mb = 33", 16.5, "environment.memory_mb = 33: the disk is cut to 16.5 MB"),
    ],
)
def test_the_disk_is_cut_to_half_of_the_memory_and_that_is_said(
    environment: str, disk_mb: float | None, said: str, tmp_path: Path, store: FolderStore
) -> None:
    text = f'schema_version = "1.3"\n[task]\nname = "lab/greet"\n[environment]\n{environment}\n'
    bring(store, task_folder(tmp_path, {"task.toml": text}))
    version = TaskVersion.objects.get()
    assert version.settings.get("disk_bytes") == (None if disk_mb is None else disk_mb * 2**20)
    assert [finding["message"].partition(". ")[0] for finding in version.findings] == ([said] if said else [])
    assert version.state == "linted"


@pytest.mark.parametrize(("line", "seconds"), [("", None), ("RUN make", 60.0), ("COPY files /opt/", 60.0)])
def test_only_an_environment_that_is_built_has_time_for_it(
    line: str, seconds: float | None, tmp_path: Path, store: FolderStore
) -> None:
    text = 'schema_version = "1.3"\n[task]\nname = "lab/greet"\n[environment]\nbuild_timeout_sec = 60\n'
    dockerfile = f"FROM assay/base\nWORKDIR /app\nCOPY files/ /app/\n{line}\n"
    bring(store, task_folder(tmp_path, {"task.toml": text, "environment/Dockerfile": dockerfile}))
    version = TaskVersion.objects.get()
    assert (version.state, version.settings.get("build_seconds")) == ("linted", seconds)


def test_a_list_of_hosts_is_kept_with_the_task(tmp_path: Path, store: FolderStore) -> None:
    text = 'schema_version = "1.3"\n[task]\nname = "lab/greet"\n[environment]\n'
    hosts = 'network_mode = "allowlist"\nallowed_hosts = ["pypi.org", "*.pythonhosted.org"]\n'
    bring(store, task_folder(tmp_path, {"task.toml": text + hosts}))
    assert TaskVersion.objects.get().settings["allowed_hosts"] == ["pypi.org", "*.pythonhosted.org"]


def test_a_bad_folder_is_named_and_nothing_is_made(tmp_path: Path, store: FolderStore) -> None:
    good = named(tmp_path / "good", "lab/good")
    bad = task_folder(tmp_path / "bad", {"instruction.md": "\n"})
    with pytest.raises(TaskFormatError) as caught:
        bring(store, good, bad)
    assert str(caught.value).startswith(f"{bad}/instruction.md: is empty")
    assert nothing_is_there()
    assert list(store.list("tasks")) == []


def test_every_bad_folder_is_named_at_once_and_nothing_is_made(tmp_path: Path, store: FolderStore) -> None:
    good, twin = (named(tmp_path / name, "lab/good") for name in ("good", "twin"))
    empty = task_folder(tmp_path / "empty", {"instruction.md": "\n"})
    torn = task_folder(tmp_path / "torn", {"task.toml": "[task"})
    with pytest.raises(TaskFoldersError) as caught:
        bring(store, good, empty, torn, twin)
    said = str(caught.value).splitlines()
    assert said[0] == "3 task folders cannot be imported, so nothing was:"
    assert [line.partition("task/")[0] for line in said[1:]] == [f"{place.parent}/" for place in (empty, torn, twin)]
    assert nothing_is_there()
    assert list(store.list("tasks")) == []


def test_of_many_bad_folders_some_are_shown_and_the_others_counted(tmp_path: Path, store: FolderStore) -> None:
    bad = [task_folder(tmp_path / f"{number:02}", {"instruction.md": None}) for number in range(23)]
    with pytest.raises(TaskFoldersError) as caught:
        bring(store, *bad)
    said = str(caught.value).splitlines()
    assert (len(said), said[-1]) == (22, "and 3 more")


def test_the_same_task_twice_is_refused(tmp_path: Path, store: FolderStore) -> None:
    one, other = named(tmp_path / "a", "lab/greet"), named(tmp_path / "b", "lab/greet", instruction="Other.\n")
    with pytest.raises(TaskFormatError) as caught:
        bring(store, one, other)
    assert f"{other}/task.toml, task.name: {one} holds a task of the same name" in str(caught.value)
    assert nothing_is_there()


def test_the_same_folder_twice_is_refused(tmp_path: Path, store: FolderStore) -> None:
    folder = named(tmp_path, "lab/greet")
    with pytest.raises(TaskSetError, match="lab/greet is in it twice"):
        bring(store, folder, folder)
    assert nothing_is_there()


def test_a_set_of_two_versions_of_a_task_is_not_made() -> None:
    version = make_task("greet")
    with pytest.raises(TaskSetError, match="greet is in it twice"):
        TaskSet.freeze(Project.default(), "twice", [(version, "train"), (version, "held-out")])
    assert not TaskSet.objects.exists()


def test_another_family_is_refused_and_the_other_tasks_stay_out(tmp_path: Path, store: FolderStore) -> None:
    bring(store, named(tmp_path / "a", "lab/greet"))
    fresh = named(tmp_path / "fresh", "lab/fresh")
    changed = named(tmp_path / "b", "lab/greet", family="wave")
    with pytest.raises(TaskFormatError, match="belongs to the family 'greet'") as caught:
        bring(store, fresh, changed)
    assert (caught.value.path, caught.value.value) == (f"{changed}/task.toml", "wave")
    assert Task.objects.get().name == "lab/greet"
    assert TaskSet.objects.get().number == 1


@pytest.mark.parametrize(
    ("name", "family", "field"),
    [
        ("lab/" + "x" * 157, "greet", "task.name"),
        ("lab/greet", "x" * 81, "metadata.family"),
        ("lab/greet", "a\\u0000b", "metadata.family"),
    ],
)
def test_a_name_that_cannot_be_kept_is_refused(
    name: str, family: str, field: str, tmp_path: Path, store: FolderStore
) -> None:
    with pytest.raises(TaskFormatError, match="printable characters") as caught:
        bring(store, named(tmp_path, name, family=family))
    assert caught.value.field == field
    assert nothing_is_there()


@pytest.mark.parametrize("name", ["", "x" * 121, "a\0b", "a\udcffb"])
def test_a_set_name_that_cannot_be_kept_is_refused(name: str, tmp_path: Path, store: FolderStore) -> None:
    with pytest.raises(TaskFormatError, match="its name must have from 1 to 120"):
        bring(store, named(tmp_path, "lab/greet"), name=name)
    assert nothing_is_there()


def test_the_longest_names_are_kept(tmp_path: Path, store: FolderStore) -> None:
    task_set = bring(store, named(tmp_path, "lab/" + "x" * 156, family="f" * 80), name="s" * 120)
    assert task_set.entries.count() == 1


def test_nothing_to_import_is_said(store: FolderStore) -> None:
    with pytest.raises(EmptyImportError, match="No task folder"):
        bring(store)


@pytest.mark.parametrize(
    ("text", "key", "level", "state"),
    [
        ("[environment]\nmemroy_mb = 64\n", "environment.memroy_mb", "error", "rejected"),
        ("[agent]\npatience = 3\n", "agent.patience", "warning", "linted"),
    ],
)
def test_a_key_that_is_not_known_is_said_and_of_the_environment_it_keeps_the_task_out(
    tmp_path: Path, store: FolderStore, text: str, key: str, level: str, state: str
) -> None:
    bring(store, task_folder(tmp_path, {"task.toml": f'schema_version = "1.3"\n{text}', "instruction.md": "Greet.\n"}))
    version = TaskVersion.objects.get()
    found = [(one["level"], one["message"].split()[0]) for one in version.findings if one["rule"] == "unknown_key"]
    assert (found, version.state) == ([(level, key)], state)
