"""PostgreSQL from its wheel, run as a direct child with its settings on the command line.

Whoever runs it holds a lock beside its data folder, so nothing that still uses that folder has a living owner.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg

from controlplane.embedded.account import postgres_account
from controlplane.embedded.folders import DATABASE, EmbeddedError, database_url, make_run_folder, postgres_sockets
from controlplane.embedded.reach import find_binaries, find_home
from controlplane.lock import FileLock, LockedError
from controlplane.process import Process

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_parallel_workers_per_gather": "0",  # keeps it out of /dev/shm too, which is small in containers
    "synchronous_commit": "on",  # off lost acknowledged rows when the server was killed
    "max_wal_size": "1GB",  # bounds the redo after a kill
    "checkpoint_timeout": "5min",
    "wal_compression": "pglz",
    "jit": "off",
    "random_page_cost": "1.1",
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_cost_delay": "2ms",
}
"""Sized for one small machine that runs the model as well."""

THROWAWAY_SETTINGS: Mapping[str, str] = {
    **SETTINGS,
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
}
"""For tests: data that nobody needs after a power cut."""


class Postgres:
    """One data folder and its server."""

    def __init__(self, data: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self.data = data
        self.account = postgres_account()
        self.home = find_home(data, self.account)
        self.binaries = find_binaries(self.account)
        self.settings = {**settings, "unix_socket_directories": str(postgres_sockets(data))}
        self._lock = FileLock(self.home.with_name("postgres.lock"))

    def process(self) -> Process:
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        as_root = os.geteuid() == 0
        return Process(
            name="database",
            command=(str(self.binaries / "postgres"), "-D", str(self.home), *options),
            folder=self.home.parent,
            uid=self.account.uid if as_root else None,
            gid=self.account.gid if as_root else None,
            stop_signal=signal.SIGINT,  # SIGTERM waits for idle clients
            before=self.prepare,
            ready=self.answers,
            after=self.finish,
            gate=True,
        )

    def prepare(self) -> None:
        """Make the data folder if it is new, and clear away what a killed server left."""
        self._take_lock()
        _end_orphans(self.home)
        if not self.home.exists():
            self._initialize()
        (self.home / "postmaster.pid").unlink(missing_ok=True)  # a reused or zombie pid in it would stop the start
        sockets = postgres_sockets(self.data)
        make_run_folder(self.data)
        sockets.mkdir(mode=0o700, exist_ok=True)
        self.account.own(sockets)

    def answers(self) -> bool:
        try:
            psycopg.connect(database_url(self.data), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def finish(self) -> None:
        """After the server: what a killed one left ends too, and the folder is free."""
        if self._lock.is_held():
            _end_orphans(self.home)
            self._lock.release()

    def _take_lock(self) -> None:
        try:
            self._lock.take()
        except LockedError as error:
            raise EmbeddedError(
                f"The database in {self.home} is already run by process {error.holder}. Stop that first, "
                f"or set ASSAY_DATA to another folder."
            ) from error

    def _initialize(self) -> None:
        """Beside its place, then renamed: a data folder is whole or absent."""
        beside = self.home.with_name("postgres.new")
        if beside.exists():
            shutil.rmtree(beside)
        beside.mkdir(mode=0o700)
        self.account.own(beside)
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        initdb = [str(self.binaries / "initdb"), "-D", str(beside), "-U", DATABASE, "--auth=trust", *locale]
        self._as_account(initdb)
        single = [str(self.binaries / "postgres"), "--single", "-D", str(beside), "postgres"]
        self._as_account(single, f"CREATE DATABASE {DATABASE};\n")
        beside.rename(self.home)

    def _as_account(self, command: list[str], text: str = "") -> None:
        as_root = os.geteuid() == 0
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            cwd=self.home.parent,
            user=self.account.uid if as_root else None,
            group=self.account.gid if as_root else None,
            extra_groups=[] if as_root else None,
        )
        if done.returncode != 0:
            raise EmbeddedError(
                f"{Path(command[0]).name} failed in {self.home.parent}: {(done.stderr or done.stdout)[-2000:]}"
            )


def _end_orphans(home: Path) -> None:
    """Servers whose supervisor was killed are on their way out; the lock says that none of them is wanted."""
    for signum, seconds in ((signal.SIGINT, 15.0), (signal.SIGKILL, 5.0)):
        for pid in _processes_in(home):
            _signal(pid, signum)
        until = time.monotonic() + seconds
        while _processes_in(home):
            if time.monotonic() > until:
                break
            time.sleep(0.02)
        else:
            return
    raise EmbeddedError(f"The processes {_processes_in(home)} use {home} and do not end.")


def _signal(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return  # gone meanwhile, which is what was wanted


def _processes_in(folder: Path) -> list[int]:
    """Every process of PostgreSQL works in its data folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                working = os.readlink(entry / "cwd")
            except OSError:  # gone, a zombie, or another user's
                continue
            if working == str(folder):
                found.append(int(entry.name))
    return found
