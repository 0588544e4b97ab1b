"""Writes an instance as a Harbor task folder (schema 1.3)."""

import json
from pathlib import Path

from apps.tasks.bundled.instance import Instance

CHECKS = Path(__file__).with_name("checks.sh")

TASK_TOML = """\
schema_version = "1.3"

[task]
name = "assay/{family}-{seed}"
description = {title}
keywords = {keywords}

[metadata]
family = "{family}"
difficulty = "{difficulty}"
assay_rounds = {rounds}

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 60.0

[environment]
network_mode = "no-network"
cpus = 1
memory_mb = 256
storage_mb = 32
workdir = "/app"
"""


class FolderNotEmptyError(Exception):
    """A task folder is only written into an empty place."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is not empty: remove it, or name another folder")
        self.folder = folder


def write_folder(instance: Instance, *, family: str, title: str, seed: int, folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise FolderNotEmptyError(folder)
    put(folder / "task.toml", task_toml(instance, family, title, seed))
    put(folder / "instruction.md", f"{instance.instruction}\n")
    put(folder / "environment" / "Dockerfile", dockerfile(instance))
    for file in instance.files:
        put(folder / "environment" / "files" / file.path, file.text, executable=file.executable)
    put(folder / "tests" / "test.sh", instance.tests, executable=True)
    put(folder / "tests" / "checks.sh", CHECKS.read_text(encoding="utf-8"))
    write_solution(instance, folder / "solution")


def write_solution(instance: Instance, solution: Path) -> None:
    put(solution / "solve.sh", "\n".join(("#!/bin/bash", *instance.rounds, "")), executable=True)
    for number, command in enumerate(instance.rounds, start=1):
        put(solution / "rounds" / f"{number:02}.sh", f"{command}\n")


def task_toml(instance: Instance, family: str, title: str, seed: int) -> str:
    return TASK_TOML.format(
        family=family,
        seed=seed,
        title=json.dumps(title),
        keywords=json.dumps(["bundled", "shell", family]),
        difficulty="easy" if instance.round_limit == 1 else "medium",
        rounds=instance.round_limit,
    )


def dockerfile(instance: Instance) -> str:
    copy = "COPY files/ /app/\n" if instance.files else ""
    return f"FROM assay/base\nWORKDIR /app\n{copy}"


def put(path: Path, text: str, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755 if executable else 0o644)
