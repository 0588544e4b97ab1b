"""The whole stack of `manage.py up` in a folder of its own, to be attacked: who runs, what the database says."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import redis
from django.conf import settings

from controlplane.embedded.folders import database_url, valkey_socket
from tests.servers import make_data_folder, remove_data_folder

NAMES = {
    "web": "uvicorn",
    "control": "controlplane worker",
    "beat": "controlplane beat",
    "sandbox": "sandbox_worker.jobs",
    "learner": "learner.jobs",
    "policy": "learner.serve",
    "database": "bin/postgres",
    "broker": "valkey",
}
"""By what stands in its command line."""
CGROUPS = Path("/sys/fs/cgroup")


class Stack:
    """Started, killed in parts or whole, started again. What it printed is shown where it fails."""

    def __init__(self) -> None:
        self.data = make_data_folder()
        self.ports = _free_ports(2)
        self.seen: dict[int, psutil.Process] = {}
        """Everything that ever ran in it."""
        self._up: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once all are ready."""
        command = [sys.executable, "manage.py", "up"]
        with (self.data / "up.out").open("ab") as output:
            begin = output.tell()
            self._up = subprocess.Popen(
                command, cwd=settings.BASE_DIR, env=self.environment(), stdout=output, stderr=output
            )
        self.until(lambda: b"the pages are at" in self._said()[begin:], "the stack is ready", seconds=180)
        self.look()

    def environment(self) -> dict[str, str]:
        web, policy = self.ports
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "ASSAY_DATA": str(self.data),
            "ASSAY_WEB_BIND": f"127.0.0.1:{web}",
            "ASSAY_POLICY_URL": f"http://127.0.0.1:{policy}",
            "ASSAY_SANDBOX_SLOTS": "8",
            "ASSAY_TORCH_THREADS": "1",
        }

    def act(self, *arguments: str) -> Any:
        """Do one of the acts of this package, with the settings of this stack."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos", *arguments],
            cwd=settings.BASE_DIR,
            env=self.environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Over a connection of its own, so that it outlives the server; nothing while that is away."""
        try:
            with psycopg.connect(database_url(self.data), connect_timeout=2, autocommit=True) as connection:
                return connection.execute(query, values).fetchall()
        except psycopg.OperationalError:
            return []

    def number(self, query: str, *values: object) -> int:
        rows = self.rows(query, *values)
        return int(rows[0][0]) if rows else 0

    def valkey(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(valkey_socket(self.data)))

    def process(self, name: str) -> psutil.Process | None:
        assert self._up is not None
        for child in psutil.Process(self._up.pid).children():
            if NAMES[name] in " ".join(_command(child)):
                return child
        return None

    def kill(self, name: str) -> None:
        """kill -9, itself alone; returns when another one is in its place and nothing is left of the first."""
        victim = self._runs(name)
        family = {each.pid: each for each in (victim, *victim.children(recursive=True))}
        self.seen |= family
        victim.kill()
        self.until(lambda: self.process(name) not in (None, victim), f"{name} is started again", seconds=30)
        self.until(lambda: not _left_of(family), f"nothing is left of {name}", seconds=30)

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Stopped in its tracks meanwhile; what is sent to it waits."""
        process = self._runs(name)
        process.suspend()
        try:
            yield
        finally:
            process.resume()

    def _runs(self, name: str) -> psutil.Process:
        found = self.process(name)
        assert found is not None, f"{name} does not run\n{self.story()}"
        return found

    def answers(self) -> bool:
        """Its pages."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[0]}/readyz", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def kill_whole(self) -> None:
        """kill -9 of `manage.py up` itself."""
        assert self._up is not None
        self.look()
        self._up.kill()
        self._up.wait()
        self._up = None

    def stop(self) -> float:
        """As Ctrl-C does; the seconds that it took."""
        assert self._up is not None
        self.look()
        began = time.monotonic()
        self._up.send_signal(signal.SIGINT)
        assert self._up.wait(timeout=60) == 0, self.story()
        return time.monotonic() - began

    def look(self) -> None:
        """Keep in mind who runs now."""
        assert self._up is not None
        for each in psutil.Process(self._up.pid).children(recursive=True):
            self.seen[each.pid] = each

    def left(self) -> list[str]:
        """What is still there of it: processes, and control groups of its sandbox workers."""
        return _left_of(self.seen) + [str(each) for each in psutil.process_iter() if self._is_ours(each)]

    def _is_ours(self, process: psutil.Process) -> bool:
        return any(str(self.data) in part for part in _command(process)) and process.pid != os.getpid()

    def until(self, condition: Callable[[], object], what: str, *, seconds: float) -> None:
        """Fails with the story of the stack."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}\n{self.story()}"
            assert self._up is None or self._up.poll() is None, f"manage.py up ended\n{self.story()}"
            time.sleep(0.03)

    def story(self) -> str:
        """The end of each log."""
        logs = [self.data / "up.out", *sorted((self.data / "logs").glob("*.log"))]
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in logs)

    def _said(self) -> bytes:
        return (self.data / "up.out").read_bytes()

    def remove(self) -> None:
        if self._up is not None and self._up.poll() is None:
            self._up.terminate()
            self._up.wait(timeout=30)
        remove_data_folder(self.data)


@contextmanager
def supplied_stack() -> Iterator[Stack]:
    """A running stack with a policy and a few tasks, proven."""
    stack = Stack()
    try:
        stack.start()
        run = stack.act("supply")
        proven = "SELECT count(*) FROM runs_run WHERE id = %s AND state = 'finished'"
        stack.until(lambda: stack.number(proven, run), "the tasks are proven", seconds=120)
        yield stack
    finally:
        stack.remove()


def _left_of(processes: dict[int, psutil.Process]) -> list[str]:
    pids = {str(pid) for pid in processes}
    groups = [group for group in _worker_groups() if Path(group).name.split("-")[0] in pids]
    return [str(each) for each in processes.values() if _lives(each)] + groups


def _worker_groups() -> list[str]:
    """Control groups are named for the process that made them; others come and go meanwhile."""
    return [f"{top}/{name}" for top, names, _ in os.walk(CGROUPS) if Path(top).name == "assay" for name in names]


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # gone meanwhile
        return []


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
