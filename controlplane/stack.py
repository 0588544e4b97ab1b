"""The processes of Assay on one machine, as `manage.py up` and the demo run them."""

import hashlib
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO
from urllib.parse import urlparse

from django.conf import settings

from controlplane.embedded.folders import broker_url, database_url
from controlplane.embedded.postgres import Postgres
from controlplane.embedded.valkey import valkey_process
from controlplane.lock import FileLock, LockedError
from controlplane.ports import accepts, answers_http, check_port
from controlplane.process import Process
from controlplane.supervisor import Supervisor

SERVICES = ("web", "control", "beat", "sandbox", "learner", "policy")
USERS_OF_THE_DATABASE = frozenset({"web", "control", "beat"})
USERS_OF_THE_BROKER = frozenset({"web", "control", "beat", "sandbox", "learner"})
CONTROL_THREADS = 4
YIELDING = 5
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class StackError(Exception):
    """The processes cannot be started as asked; says what to change."""


@dataclass(frozen=True)
class Choice:
    """Which services run here; the servers and steps below them follow."""

    services: frozenset[str]
    prepare: bool = True
    """False where the caller makes the administrator itself, to show the password."""

    @classmethod
    def of(cls, only: Collection[str] = (), without: Collection[str] = ()) -> "Choice":
        for name in (*only, *without):
            if name not in SERVICES:
                raise StackError(f"There is no process {name!r}; there are {', '.join(SERVICES)}.")
        services = frozenset(only or SERVICES) - frozenset(without)
        if not services:
            raise StackError(f"Nothing is left to run of {', '.join(SERVICES)}.")
        return cls(services)


@contextmanager
def prepared_stack(choice: Choice, *, console: TextIO | None) -> Iterator[Supervisor]:
    """Ready to be started, alone on this data folder, its ports free. Ended with the block, if it was started."""
    data = settings.ASSAY_DATA
    data.mkdir(parents=True, exist_ok=True)
    lock = FileLock(data / "up.lock")
    try:
        lock.take()
    except LockedError as error:
        raise StackError(
            f"Process {error.holder} already runs Assay on {data}. Stop it first (kill {error.holder}), "
            f"or set ASSAY_DATA to another folder."
        ) from error
    try:
        check_ports(choice)
        supervisor = Supervisor(stack_processes(choice), logs=data / "logs", console=console)
        try:
            yield supervisor
        finally:
            supervisor.stop()
    finally:
        lock.release()


def check_ports(choice: Choice) -> None:
    if "web" in choice.services:
        host, port = settings.ASSAY_WEB_BIND
        check_port(host, port, "the web process", f"ASSAY_WEB_BIND={host}:{_other(port)}")
    if "policy" in choice.services:
        host, port = _policy_bind()
        check_port(host, port, "the policy server", f"ASSAY_POLICY_URL=http://{host}:{_other(port)}")


def stack_processes(choice: Choice) -> list[Process]:
    """In the order in which they start: servers, steps, services."""
    data, services = settings.ASSAY_DATA, choice.services
    processes = []
    if services & USERS_OF_THE_DATABASE and settings.ASSAY_DATABASE_URL == database_url(data):
        processes.append(Postgres(data).process())
    if services & USERS_OF_THE_BROKER and settings.ASSAY_BROKER_URL == broker_url(data):
        processes.append(valkey_process(data))
    if services & USERS_OF_THE_DATABASE:
        processes.append(_step("migrate", "migrate", "--no-input"))
        if choice.prepare:
            processes.append(replace(_step("prepare", "prepare"), keep_output=False))  # it may show a new password
    if "web" in services:
        processes.append(_step("static", "collectstatic", "--no-input", "--verbosity=0"))
    makers = {
        "web": _web,
        "control": _control,
        "beat": _beat,
        "sandbox": _sandbox,
        "learner": _learner,
        "policy": _policy,
    }
    return processes + [makers[name]() for name in SERVICES if name in services]


def _process(name: str, *arguments: str, threads: int = 1) -> Process:
    return Process(
        name=name,
        command=(sys.executable, *arguments),
        environment=_environment(threads),
        folder=Path(settings.BASE_DIR),
    )


def _environment(threads: int) -> dict[str, str]:
    """What the settings decided, spelled out: sandbox workers and learners do not read the settings."""
    return {
        "ASSAY_DATA": str(settings.ASSAY_DATA),
        "ASSAY_DATABASE_URL": settings.ASSAY_DATABASE_URL,
        "ASSAY_BROKER_URL": settings.ASSAY_BROKER_URL,
        "ASSAY_CHANNELS_URL": settings.ASSAY_CHANNELS_URL,
        "ASSAY_STORE_URL": settings.ASSAY_STORE_URL,
        "ASSAY_POLICY_URL": settings.ASSAY_POLICY_URL,
        "ASSAY_THREADS": str(threads),
        # This stack alone runs on the data folder, and ends a worker before it starts the next: a newer one proves the
        # older dead.
        "ASSAY_WORKER_SLOT": hashlib.sha256(str(settings.ASSAY_DATA.resolve()).encode()).hexdigest()[:16],
        "PYTHONUNBUFFERED": "1",
        "ASSAY_TORCH_THREADS": str(settings.ASSAY_TORCH_THREADS),
        # A torch thread that spins at a barrier takes a core from somebody who could use it.
        "OMP_WAIT_POLICY": "PASSIVE",
        # With an arena a thread, what one step has freed stays out of reach of the next one.
        "MALLOC_ARENA_MAX": "1",
        # oneDNN writes code for every shape that it meets, half a megabyte each, and keeps a thousand of them.
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
        "LRU_CACHE_CAPACITY": "128",
        # Celery warns root at each start. What protects this machine is the boxes, not the user of the workers.
        "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
    }


def _step(name: str, *arguments: str) -> Process:
    return replace(_process(name, "manage.py", *arguments), once=True)


def _worker(name: str, app: str, threads: int, queue: str) -> Process:
    return _process(
        name,
        *(
            "-m",
            "celery",
            "-q",
            "-A",
            app,
            "worker",
            "-P",
            "threads",
            "-c",
            str(threads),
            "-Q",
            queue,
            "-n",
            f"{name}@%h",
        ),
        *("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"),
        threads=threads,
    )


def _web() -> Process:
    host, port = settings.ASSAY_WEB_BIND
    process = _process(
        "web",
        *("-m", "uvicorn", "controlplane.asgi:application", "--host", host, "--port", str(port)),
        *("--lifespan", "off", "--no-access-log", "--timeout-graceful-shutdown", "3", "--ws-max-size", "65536"),
        threads=settings.ASSAY_THREADS,
    )
    return replace(process, ready=lambda: answers_http(host, port, "/healthz"))


def _control() -> Process:
    return _worker("control", "controlplane", CONTROL_THREADS, "control")


def _beat() -> Process:
    """Its schedule is in memory: nothing in it is rarer than a minute, and no file can be torn by a kill."""
    return _process(
        "beat", "-m", "celery", "-q", "-A", "controlplane", "beat", "-S", "celery.beat:Scheduler", "--pidfile="
    )


def _sandbox() -> Process:
    return _worker("sandbox", "sandbox_worker.jobs:app", 2, "rollouts")


def _learner() -> Process:
    """It yields the cores to the sampler, which is what it mostly waits for."""
    worker = _worker("learner", "learner.jobs:app", 1, "learner")
    return replace(worker, command=("nice", "-n", str(YIELDING), *worker.command))


def _policy() -> Process:
    host, port = _policy_bind()
    process = _process(
        "policy",
        *("-m", "learner.serve", "--host", host, "--port", str(port)),
        *("--store", settings.ASSAY_STORE_URL, "--cache", str(settings.ASSAY_DATA / "weights")),
        *("--threads", str(settings.ASSAY_TORCH_THREADS)),
    )
    # Key-value memory comes and goes by hundreds of megabytes: mapped alone, it goes back at once. What one step of
    # sampling frees stays for the next one.
    environment = {
        **process.environment,
        "MALLOC_MMAP_THRESHOLD_": str(16 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    }
    return replace(process, environment=environment, ready=lambda: accepts(host, port), ready_seconds=180.0)


def policy_is_elsewhere() -> bool:
    """Whether the policy server's address is not of this machine."""
    return urlparse(settings.ASSAY_POLICY_URL).hostname not in LOOPBACK


def _policy_bind() -> tuple[str, int]:
    parsed = urlparse(settings.ASSAY_POLICY_URL)
    if parsed.hostname not in LOOPBACK or parsed.port is None:
        raise StackError(
            f"ASSAY_POLICY_URL is {settings.ASSAY_POLICY_URL}: the policy server of this machine needs an address such "
            f"as http://127.0.0.1:8100. If yours runs elsewhere, leave this one out: make up ARGS='--without policy'"
        )
    return parsed.hostname, parsed.port


def _other(port: int) -> int:
    return port + 1 if port < 65535 else 8000
