"""Images of a Docker Engine for the tests: what builds them, boxes on them, and what must not be left."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docker import APIClient

from sandbox_worker.sandbox import containers
from sandbox_worker.sandbox.base import Box, BoxSpec
from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.images.docker_builder import DockerBuilder
from sandbox_worker.sandbox.images.engine_images import MOST_BYTES
from sandbox_worker.sandbox.images.recipe import BuiltImage
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.sandbox.images.building import LIMITS, recipe

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OTHER_MACHINE = {"x86_64": "arm64", "aarch64": "amd64"}[platform.machine()]


class Host:
    """An Engine's boxes and the builder of their images."""

    def __init__(self, backend: DockerBackend, images: ImageStore, *, most_bytes: int = MOST_BYTES) -> None:
        self.backend = backend
        self.builder = DockerBuilder(backend, images, most_bytes=most_bytes)

    def build(
        self, lines: str, files: dict[str, bytes] | None = None, seconds: float = 60.0, workdir: str = "/app"
    ) -> BuiltImage:
        return self.builder.build(recipe(lines, files, seconds, workdir), LIMITS, lambda: None)

    @contextmanager
    def box(self, image: BuiltImage, workdir: str = "/app") -> Iterator[Box]:
        box = self.backend.start(BoxSpec(limits=LIMITS, workdir=workdir, image=image.digest))
        try:
            box.restore(image.workspace, links=True)
            yield box
        finally:
            box.stop()

    def left(self) -> tuple[list[Any], list[Any]]:
        """Containers, and images that were not finished."""
        unfinished = self.backend.api.images(filters={"label": containers.BUILDER, "dangling": True})
        return self.backend.api.containers(all=True), unfinished


def load(api: APIClient, name: str, *members: tarfile.TarInfo, machine: str = MACHINE, **config: object) -> None:
    """An image of one layer, as docker save has it."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    content = layer.getvalue()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    said = {"architecture": machine, "os": "linux", "config": config}
    said["rootfs"] = {"type": "layers", "diff_ids": [digest]}
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for path, data in {
            "manifest.json": json.dumps(manifest).encode(),
            "config.json": json.dumps(said).encode(),
            "layer.tar": content,
        }.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    list(api.load_image(whole.getvalue()))  # type: ignore[no-untyped-call]


def program(name: str) -> tarfile.TarInfo:
    """An empty file that may be run."""
    member = tarfile.TarInfo(name)
    member.mode = 0o755
    return member
