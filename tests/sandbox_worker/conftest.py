"""The real back end of this host for the tests that play rollouts, and a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Backend
from sandbox_worker.sandbox.choose import Wanted, open_backend
from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.images.store import ImageStore
from tests.engine import Engine
from tests.sandbox_worker.docker_host import docker_backend, engine_with_base
from tests.servers import make_data_folder, remove_data_folder
from wire.store import FolderStore


@pytest.fixture(scope="session")
def host_images() -> Iterator[ImageStore]:
    """Of the back end; made by the first test that needs an image."""
    folder = make_data_folder()
    yield ImageStore(folder / "images")
    remove_data_folder(folder)


@pytest.fixture(scope="session")
def backend(host_images: ImageStore) -> Iterator[Backend]:
    opened = open_backend(Wanted(kind="bubblewrap"), host_images.lease)
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """With the base image; started by the first test that needs it."""
    yield from engine_with_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def docker_boxes(engine: Engine) -> Iterator[DockerBackend]:
    with docker_backend(engine) as opened:
        yield opened
