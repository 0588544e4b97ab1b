"""A Docker Engine for the tests that need one, with the base image of this host's packages: one a session."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
from docker import APIClient

from sandbox_worker.build_base_image import import_into
from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.images.base_tar import write_base
from tests.engine import Engine

BASE = "assay/base:latest"


def engine_with_base(place: Path) -> Iterator[Engine]:
    """place: an empty folder to work in."""
    engine = Engine()
    engine.start()
    try:
        (place / "root").mkdir()
        write_base(place / "base.tar", place / "root")
        import_into(engine.url, place / "base.tar", BASE)
        yield engine
    finally:
        engine.remove()


@contextmanager
def docker_backend(engine: Engine, image: str = BASE) -> Iterator[DockerBackend]:
    backend = DockerBackend(engine.url, image=image)
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def client_of(engine: Engine) -> Iterator[APIClient]:
    client = docker.APIClient(base_url=engine.url)
    try:
        yield client
    finally:
        client.close()
