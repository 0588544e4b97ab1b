"""Who builds images is a matter of the boxes that were chosen."""

import pytest

from sandbox_worker.sandbox.base import Backend
from sandbox_worker.sandbox.choose import Proved
from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.findings import BUBBLEWRAP, DOCKER
from sandbox_worker.sandbox.images.choose import builder_of
from sandbox_worker.sandbox.images.docker_builder import DockerBuilder
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.store import ImageStore


@pytest.mark.sandbox
def test_layers_are_for_bubblewrap(backend: Backend, images: ImageStore) -> None:
    assert isinstance(builder_of(Proved(backend, BUBBLEWRAP, ()), images), LayeredBuilder)


@pytest.mark.docker
def test_images_of_an_engine_are_for_its_boxes(docker_boxes: DockerBackend, images: ImageStore) -> None:
    assert isinstance(builder_of(Proved(docker_boxes, DOCKER, ()), images), DockerBuilder)


@pytest.mark.sandbox
def test_boxes_that_nobody_builds_for_are_named(backend: Backend, images: ImageStore) -> None:
    with pytest.raises(TypeError, match="nobody builds images for podman"):
        builder_of(Proved(backend, "podman", ()), images)
