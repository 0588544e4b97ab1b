"""One PostgreSQL and one Valkey for a test session, in a folder of its own: sessions run side by side.

They start with the first test that asks for the database or the broker, and end with the session, also if it is killed.
"""

import os
import shutil
import tempfile
from pathlib import Path

from controlplane.embedded.folders import run_folder
from controlplane.embedded.postgres import THROWAWAY_SETTINGS, Postgres
from controlplane.embedded.valkey import valkey_process
from controlplane.supervisor import Supervisor

PREFIX = "assay-tests-"


def make_data_folder() -> Path:
    """Named after this process, so that a later session can clear away what a killed one left."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdecimal() and not Path("/proc", owner).exists():
            remove_data_folder(left)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")).resolve()
    folder.chmod(0o755)
    return folder


def remove_data_folder(data: Path) -> None:
    postgres = data / "postgres"
    if postgres.is_symlink():
        shutil.rmtree(postgres.readlink().parent, ignore_errors=True)
    shutil.rmtree(run_folder(data), ignore_errors=True)
    shutil.rmtree(data, ignore_errors=True)


class Servers:
    """Both servers of the session, started once, on demand."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._supervisor: Supervisor | None = None

    def start(self) -> None:
        if self._supervisor is None:
            database = Postgres(self.data, THROWAWAY_SETTINGS)
            self._supervisor = Supervisor([database.process(), valkey_process(self.data)], logs=self.data / "logs")
            self._supervisor.start()

    def stop(self) -> None:
        if self._supervisor is not None:
            self._supervisor.stop()
        remove_data_folder(self.data)
