"""Every back end, and what must be so after each test."""

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from sandbox_worker.sandbox.base import Backend, BoxSpec
from sandbox_worker.sandbox.choose import Wanted, open_backend
from tests.sandbox_worker.conformance.faked import FAKED, TABLE
from tests.sandbox_worker.conformance.leftovers import Leftovers, supervisors
from tests.sandbox_worker.conformance.worker import Worker
from tests.sandbox_worker.fake_box import FakeBackend

REAL = (
    pytest.param("bubblewrap", marks=pytest.mark.sandbox),
    pytest.param("docker", marks=pytest.mark.docker),
)
_CLEAN_SECONDS = 10.0
"""The Engine says that a container is gone before the last of its own processes is."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        fake = ("fake",) if metafunc.function.__name__ in FAKED else ()
        real = REAL[1:] if "engine" in metafunc.fixturenames else REAL
        metafunc.parametrize("backend", (*real, *fake), indirect=True, scope="session")


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    opened = open_one(request)
    yield opened
    opened.close()


def open_one(request: pytest.FixtureRequest) -> Backend:
    if request.param == "fake":
        return FakeBackend(TABLE)
    if request.param == "docker":
        return open_backend(Wanted(kind="docker", docker_url=request.getfixturevalue("engine").url))
    return open_backend(Wanted(kind="bubblewrap"))


@pytest.fixture
def supervisors_alive(request: pytest.FixtureRequest) -> Callable[[], set[int]]:
    """Gives the pids of the first processes of the boxes, as this host has them."""
    engine = request.getfixturevalue("engine") if "docker" in request.keywords else None
    return lambda: supervisors(engine)


@pytest.fixture
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """Starts workers of other processes, with boxes of the same kind."""
    of_docker = "docker" in request.keywords
    workers = Worker(
        "docker" if of_docker else "bubblewrap", request.getfixturevalue("engine").url if of_docker else ""
    )
    yield workers
    workers.close()


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest, backend: Backend) -> Iterator[None]:
    """No process, mount, control group, container, interface or folder; the next box works; the host answers."""
    engine = request.getfixturevalue("engine") if "docker" in request.keywords else None
    before = Leftovers.now(engine)
    yield
    box = backend.start(BoxSpec(label="9.9.9"))
    done = box.run(["bash", "-c", "echo next"], timeout=20)
    box.stop()
    assert done.output == b"next\n"
    deadline = time.monotonic() + _CLEAN_SECONDS
    while (left := Leftovers.now(engine).since(before)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "\n".join(left)
    subprocess.run(["true"], timeout=5, check=True)
