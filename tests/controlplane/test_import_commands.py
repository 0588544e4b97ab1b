"""manage.py import_tasks and import_policy end with one line that says what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as in_force
from django.core.management import CommandError, call_command
from pytest_django import Settings

from apps.policies.models import Policy
from apps.tasks.models import TaskSet, TaskVersion
from controlplane.management.commands.import_tasks import task_folders
from tests.apps.tasks.folders import task_folder
from tests.learner.tiny import tiny_policy


def test_a_bad_weights_folder_is_named(tmp_path: Path, db: None) -> None:
    with pytest.raises(CommandError, match=r"config\.json is missing"):
        call_command("import_policy", "small", str(tmp_path))
    assert not Policy.objects.exists()


def test_a_policy_that_is_mended_in_the_store_is_said(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str], db: None
) -> None:
    settings.ASSAY_STORE_URL = str(tmp_path / "store")
    folder = tiny_policy(tmp_path / "tiny")
    call_command("import_policy", "tiny", str(folder))
    assert "mended" not in capsys.readouterr().out
    (weights,) = (tmp_path / "store").rglob("model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4] + b"\xff" * 4)
    call_command("import_policy", "tiny", str(folder))
    assert capsys.readouterr().out.splitlines()[-1] == "mended in the store: model.safetensors"
    assert weights.read_bytes() == (folder / "model.safetensors").read_bytes()


def test_a_bad_task_folder_is_named(tmp_path: Path, db: None) -> None:
    bad = task_folder(tmp_path / "train", {"instruction.md": None})
    with pytest.raises(CommandError, match=f"{bad}/instruction.md: is missing"):
        call_command("import_tasks", str(tmp_path))
    assert not TaskSet.objects.exists()


def test_bad_task_folders_are_named_together(tmp_path: Path, db: None) -> None:
    for split in ("train", "unseen"):
        task_folder(tmp_path / split, {"instruction.md": None})
    with pytest.raises(CommandError, match=r"2 task folders .*\n.*train/task/.*\n.*unseen/task/"):
        call_command("import_tasks", str(tmp_path))
    assert not TaskSet.objects.exists()


def test_a_folder_that_comes_again_is_proven_again(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str], db: None
) -> None:
    settings.ASSAY_STORE_URL = str(tmp_path / "store")
    task_folder(tmp_path / "lab" / "train")
    call_command("import_tasks", str(tmp_path / "lab"))
    version = TaskVersion.objects.get()
    version.move("controls")
    version.move("rejected")
    call_command("import_tasks", str(tmp_path / "lab"))
    assert version.reread().state == "linted"
    assert capsys.readouterr().out.count("Its controls are run") == 2


def test_a_folder_beside_the_splits_that_holds_tasks_is_refused(tmp_path: Path) -> None:
    task_folder(tmp_path / "train")
    task_folder(tmp_path / "held_out")
    with pytest.raises(CommandError, match=r"held_out holds task folders, but its name is none of train, held-out"):
        task_folders(tmp_path)


def test_a_misspelt_split_is_refused_also_alone(tmp_path: Path) -> None:
    task_folder(tmp_path / "held_out")
    with pytest.raises(CommandError, match="held_out holds task folders"):
        task_folders(tmp_path)


def test_a_task_beside_the_splits_is_refused(tmp_path: Path) -> None:
    task_folder(tmp_path / "train")
    task_folder(tmp_path)
    with pytest.raises(CommandError, match="is a task beside the folders of splits"):
        task_folders(tmp_path)


def test_folders_without_tasks_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "notes" / "drafts").mkdir(parents=True)
    in_split, flat = task_folder(tmp_path / "splits" / "unseen"), task_folder(tmp_path / "flat")
    (tmp_path / "splits" / "notes").mkdir()
    assert task_folders(tmp_path / "splits") == [(in_split, "unseen")]
    assert task_folders(tmp_path / "flat") == [(flat, "held-out")]


@pytest.mark.process
def test_a_database_that_is_away_is_said_without_a_traceback(tmp_path: Path) -> None:
    away = {"ASSAY_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none", "ASSAY_DATA": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "manage.py", *command],
            cwd=in_force.BASE_DIR,
            env={**os.environ, **away, "DJANGO_SETTINGS_MODULE": "controlplane.settings"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in (("import_policy", "small", "."), ("import_tasks", "--bundled"))
    ]
    for process in started:
        _, told = process.communicate(timeout=120)
        assert process.returncode == 1
        assert told.splitlines()[-1] == "CommandError: The database does not answer; is `make up` running?"
        assert "Traceback" not in told
