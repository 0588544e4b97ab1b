"""An ordinary user of this host for the tests: new, without rights, gone afterwards with all that it had."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from sandbox_worker.sandbox import base
from sandbox_worker.sandbox.hierarchies import user_folder, v1_mounts
from sandbox_worker.sandbox.program import supervisor_program

PYTHON = "/usr/bin/python3"
"""The system's: an ordinary user need not be able to read where ours lies."""


@contextmanager
def readable_package() -> Iterator[Path]:
    """A folder with the package where every user can read it."""
    supervisor_program()  # who uses the copy may have no compiler
    folder = Path(tempfile.mkdtemp(prefix="assay-package-"))
    try:
        shutil.copytree(
            Path(base.__file__).parents[1],
            folder / "sandbox_worker",
            ignore=shutil.ignore_patterns("__pycache__", ".*"),
        )
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def new_user() -> Iterator[pwd.struct_passwd]:
    name = f"assay-test-{os.getpid()}"
    subprocess.run(
        ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent", name], check=True
    )
    try:
        yield pwd.getpwnam(name)
    finally:
        kill_all_of(pwd.getpwnam(name).pw_uid)
        subprocess.run(["userdel", name], check=True)


def kill_all_of(uid: int) -> None:
    """Of a test that failed half-way."""
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if process.uids().real == uid:
                process.kill()


def commands_in(advice: str) -> list[str]:
    """What stands between backticks, as root runs it."""
    return [piece.replace("sudo ", "") for piece in advice.split("`")[1::2]]


def remove_delegated(uid: int) -> None:
    for mount in v1_mounts().values():
        for folder in sorted(user_folder(mount, uid).glob("**/"), reverse=True):
            folder.rmdir()


class UserProcess:
    """Runs a script of Python as a user, with the package on its path."""

    def __init__(self, user: pwd.struct_passwd, package: Path, script: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [PYTHON, "-B", "-c", script, *arguments],
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(package)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said(self) -> Any:
        """The JSON that it prints before it ends well."""
        out, errors = self.process.communicate(timeout=120)
        assert (self.process.returncode, errors) == (0, ""), errors
        return json.loads(out)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def run_as_root(command: str) -> None:
    subprocess.run(["/bin/sh", "-c", command], check=True)
